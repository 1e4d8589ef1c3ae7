"""Saving: all ranks make their fragments durable, then one publishes the checkpoint.

A reader sees all of a checkpoint or nothing. A save that fails on one rank fails on all, and
says on which.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import torch
from blake3 import blake3
from xxhash import xxh3_128_digest

from nbrewind.errors import CheckpointError, NBRewindError, StoreError
from nbrewind.model.blobs import ObjectId
from nbrewind.model.checkpoints import (
    CHECKPOINT_PREFIX,
    FRAGMENT_PREFIX,
    Checkpoint,
    Fragment,
)
from nbrewind.model.refs import RefBody
from nbrewind.store.abc import Store
from nbrewind.training.deltas import Chains
from nbrewind.training.finding import find
from nbrewind.training.fragments import write_parts
from nbrewind.training.holding import Holding, Live, State
from nbrewind.training.layouts import Layouts, Roles
from nbrewind.training.partial import Partial, Rotation
from nbrewind.training.parts import Part
from nbrewind.training.planning import Plan, plan
from nbrewind.training.ranks import Ranks
from nbrewind.training.reading import read_fragment
from nbrewind.training.staging import Stage, copy_all
from nbrewind.training.tensors import array

_COMPARED_ALWAYS = 1024 * 1024
"""Replicas of fewer bytes are compared at every save, larger ones at the first."""


@dataclass(frozen=True)
class Saved:
    """A checkpoint that is durable."""

    run: str
    step: int
    save: str
    record: ObjectId
    bytes_state: int
    """Bytes of all ranks' tensors that were saved."""
    bytes_added: int
    """Those that the store did not have, before compression."""
    differing: tuple[str, ...] = ()
    """Tensors that ranks have under one name with different values: each rank's own is kept."""


@dataclass(frozen=True)
class _Job:
    """A save of which nothing depends on the live state any more."""

    live: Live
    agreed: Plan
    first: bool
    step: int
    final: bool
    notes: dict[str, Any]
    timing: dict[str, float]
    copy: Callable[[], None] | None = None
    """What has still to be copied of the live state."""


class Pending:
    """A save that is under way."""

    def __init__(self, future: Future[Saved]) -> None:
        self._future = future

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._future.done()

    def wait(self) -> Saved:
        """The checkpoint, once it is durable. Raises `CheckpointError` if it was not saved."""
        return self._future.result()


class Saver:
    """Saves the state of a run again and again. Making one is a collective call.

    Args:
        store: Where to; every rank opens it for itself.
        run: The run's name.
        ranks: Makes the ranks that save together; called twice, because those that write talk
            while others train.
        layouts: How tensors lie on the ranks; as their placements say by default.
        pickles: Pickle values that are not plain; loading them needs trust.
        deltas: Store differences from the save before, where they are shorter. Needs memory for
            two copies of what this rank saves.
        partial: Save only some experts of a mixture each time.
    """

    def __init__(
        self,
        store: Store,
        run: str,
        ranks: Callable[[], Ranks],
        *,
        layouts: Layouts | None = None,
        pickles: bool = False,
        deltas: bool = False,
        partial: Partial | None = None,
    ) -> None:
        if not run:
            raise CheckpointError("a run needs a name")
        self.run = run
        self._store = store
        self._ranks = ranks()
        self._writers = ranks()
        self._pickles = pickles
        self._lineage = uuid.uuid4().hex
        self._nonce = self._ranks.gather(uuid.uuid4().hex)[0]
        self._number = 0
        self.layouts = layouts or Layouts(self._ranks)
        self._layout: list[tuple[Any, ...]] | None = None
        self._holding: Holding | None = None
        self._plan: Plan | None = None
        self._chains = Chains() if deltas else None
        self._rotation = Rotation(partial) if partial is not None else None
        # The values that differences are from must stay as they are: two stages take turns.
        self._stages = [Stage(), Stage()] if deltas else [Stage()]
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="nbrewind-checkpoint")
        self._pending: Pending | None = None
        self._copied = threading.Event()
        self._copied.set()

    def save(
        self,
        tree: Mapping[str, Any],
        roles: Callable[[Iterable[str]], Roles] | None = None,
        *,
        step: int,
        final: bool = False,
        notes: Mapping[str, Any] | None = None,
    ) -> Saved:
        """Save a tree (`states.collect`) and wait until the checkpoint is durable.

        Args:
            tree: Tensors and plain values; must not change during the call.
            roles: Tells what its tensors are, see `states.roles`.
            step: Steps that were made.
            final: The run has come to its end.
            notes: Plain values that say something about it; those of rank 0 count.

        Raises:
            CheckpointError: it was not saved, on any rank, or the one before it was not; the
                message says on which rank it failed and why.
        """
        self.wait()
        return self._write(self._begin(tree, roles, step, final, notes, copy=False))

    def save_later(
        self,
        tree: Mapping[str, Any],
        roles: Callable[[Iterable[str]], Roles] | None = None,
        *,
        step: int,
        final: bool = False,
        notes: Mapping[str, Any] | None = None,
        overlap: bool = False,
    ) -> Pending:
        """As `save`, but returns as soon as the tree may change.

        One save is under way at a time: another waits for the one before.

        Args:
            tree: As of `save`.
            roles: As of `save`.
            step: As of `save`.
            final: As of `save`.
            notes: As of `save`.
            overlap: Copy what only steps of optimizers change after this call; `wait_copied` has to
                be called before such a step.

        Raises:
            CheckpointError: as `save`; what goes wrong later is raised by `Pending.wait` and by
                the next call.
        """
        self.wait()
        job = self._begin(tree, roles, step, final, notes, copy=True, overlap=overlap)
        self._pending = Pending(self._thread.submit(self._write, job))
        return self._pending

    def wait(self) -> Saved | None:
        """Wait for the save that is under way; raises what it raised, once."""
        pending, self._pending = self._pending, None
        return None if pending is None else pending.wait()

    def close(self) -> None:
        """Wait for the save that is under way, and raise what it raised."""
        try:
            self.wait()
        finally:
            self._thread.shutdown()

    def _begin(
        self,
        tree: Mapping[str, Any],
        roles: Callable[[Iterable[str]], Roles] | None,
        step: int,
        final: bool,
        notes: Mapping[str, Any] | None,
        *,
        copy: bool,
        overlap: bool = False,
    ) -> _Job:
        begun = time.perf_counter()
        state: State | None = None
        problem = ""
        try:
            state = State(tree, roles, pickles=self._pickles)
        except NBRewindError as exc:
            problem = str(exc)  # the other ranks have to hear of it first
        looked = time.perf_counter()
        agreed, first = self._agree(state, problem, step)
        assert state is not None
        assert self._holding is not None
        live = self._holding.look(state)
        planned = time.perf_counter()
        later: Callable[[], None] | None = None
        if copy or self._chains is not None:
            later = self._copy(live, agreed, first, self._holding.steady if overlap else set())
        timing = {
            "look": looked - begun,
            "plan": planned - looked,
            "stage": time.perf_counter() - planned,
        }
        return _Job(live, agreed, first, step, final, dict(notes or {}), timing, later)

    def _copy(
        self, live: Live, agreed: Plan, first: bool, steady: set[int]
    ) -> Callable[[], None] | None:
        """Have copies take the place of live tensors; returns what copies the steady ones."""
        order = sorted({*agreed.saves, *_compared(live, agreed, first)})
        self._stages.append(self._stages.pop(0))
        copies = self._stages[0].views([live.tensors[position] for position in order])
        pairs = dict(zip(order, copies, strict=True))
        now = [position for position in order if position not in steady]
        then = [(pairs[p], live.tensors[p]) for p in order if p in steady]
        copy_all([pairs[p] for p in now], [live.tensors[p] for p in now])
        nothing = torch.empty(0)
        live.tensors = [pairs.get(position, nothing) for position in range(len(live.tensors))]
        if not then:
            return None
        self._copied.clear()
        return lambda: copy_all([to for to, _ in then], [of for _, of in then])

    def wait_copied(self) -> None:
        """Wait until nothing of a save that is under way needs the live tensors."""
        self._copied.wait()

    def _agree(self, state: State | None, problem: str, step: int) -> tuple[Plan, bool]:
        """The plan of this rank; whether it is a new one. Raises if a rank has a problem."""
        layout = state.layout if state is not None else None
        known = layout is not None and layout == self._layout and self._plan is not None
        # All ranks have to make a new plan if one of them has to.
        answers = self._ranks.gather_bytes(bytes([known]))
        if answers == [b"\x01"] * self._ranks.world:
            assert self._plan is not None
            return self._plan, False
        self._check_all(step, problem)
        assert state is not None
        self._plan = None
        try:
            self._holding = Holding(state, self.layouts)
        except NBRewindError as exc:
            problem = str(exc)
        self._check_all(step, problem)
        assert self._holding is not None
        everyone = self._ranks.gather((self._holding.held, self._known_grids()))
        self._plan = plan([boxes for boxes, _ in everyone], everyone[0][1])[self._ranks.rank]
        self._layout = layout
        return self._plan, True

    def _check_all(self, step: int, problem: str) -> None:
        """Raise on all ranks what went wrong on some."""
        problems = dict(enumerate(self._ranks.gather(problem)))
        if any(problems.values()):
            raise CheckpointError(_failure(step, {r: p for r, p in problems.items() if p}))

    def _known_grids(self) -> dict[str, tuple[int, ...]]:
        if self._ranks.rank:
            return {}
        try:
            _, checkpoint = find(self._store, self.run)
            fragments = [read_fragment(self._store, oid) for oid in checkpoint.fragments]
        except NBRewindError:
            return {}
        return {tensor.name: tensor.grid for each in fragments for tensor in each.tensors}

    def _write(self, job: _Job) -> Saved:
        if job.copy is not None:
            begun = time.perf_counter()
            try:
                job.copy()
            finally:
                self._copied.set()
            job.timing["stage later"] = time.perf_counter() - begun
        self._number += 1
        save = blake3(f"{self._nonce} {self._number}".encode()).hexdigest()[:32]
        parts = [_part(job, position) for position in job.agreed.saves]
        begun = time.perf_counter()
        own = self._differing(job)
        job.timing["compare"] = time.perf_counter() - begun
        parts += own
        fragment: ObjectId | None = None
        problem = ""
        added = 0
        try:
            fragment, added = self._commit_fragment(job, parts, save)
        except (NBRewindError, OSError) as exc:
            problem = str(exc)
        size = sum(part.nbytes for part in parts)
        names = sorted({part.name for part in own})
        answers = self._writers.gather((fragment, problem, size, added, names))
        failed = {rank: answer[1] for rank, answer in enumerate(answers) if answer[1]}
        if self._chains is not None:
            self._chains.committed(whole=not failed)
        if self._rotation is not None:
            self._rotation.ended(whole=not failed)
        if failed:
            raise CheckpointError(_failure(job.step, failed))
        record = self._publish(job, save, [answer[0] for answer in answers])
        return Saved(
            run=self.run,
            step=job.step,
            save=save,
            record=record,
            bytes_state=sum(answer[2] for answer in answers),
            bytes_added=sum(answer[3] for answer in answers),
            differing=tuple(sorted({name for answer in answers for name in answer[4]})),
        )

    def _differing(self, job: _Job) -> list[Part]:
        """This rank's replicas that are not what the rank says that saves them."""
        if self._writers.world == 1:
            return []
        looked = _compared(job.live, job.agreed, job.first)
        parts = {position: _part(job, position) for position in looked}
        mine = {part.name: xxh3_128_digest(part.data.tobytes()) for part in parts.values()}
        everyone = self._writers.gather(mine)
        return [
            replace(part, own=True)
            for position, part in parts.items()
            if everyone[looked[position]].get(part.name) != mine[part.name]
        ]

    def _commit_fragment(self, job: _Job, parts: Sequence[Part], save: str) -> tuple[ObjectId, int]:
        """Make what this rank saves durable; returns its id and the bytes that were new."""
        begun = time.perf_counter()
        with self._store.begin() as writer:
            if self._rotation is not None:
                chosen = self._rotation.choose(writer, parts)
                tensors = write_parts(writer, chosen, self._chains)
                tensors = self._rotation.complete(tensors, job.step)
            else:
                tensors = write_parts(writer, parts, self._chains)
            values = writer.put_stream(job.live.values)
            job.timing["tiles"] = time.perf_counter() - begun
            fragment = Fragment(
                save=save,
                rank=self._writers.rank,
                world=self._writers.world,
                step=job.step,
                tensors=tuple(tensors),
                values=values,
                encoding="pickle" if job.live.pickled else "msgpack",
                timing=job.timing,
                bytes={
                    "state": sum(part.nbytes for part in parts),
                    "added": writer.bytes_added,
                },
            )
            record = writer.put("record", msgspec.msgpack.encode(fragment))
            added = writer.bytes_added
            writer.commit(self._body(FRAGMENT_PREFIX, record))
        return record, added

    def _publish(self, job: _Job, save: str, fragments: list[ObjectId]) -> ObjectId:
        """Rank 0 makes the checkpoint visible; all hear whether it did."""
        record: ObjectId | None = None
        problem = ""
        if self._writers.rank == 0:
            checkpoint = Checkpoint(
                run=self.run,
                save=save,
                step=job.step,
                world=self._writers.world,
                fragments=tuple(fragments),
                created=time.time(),
                mesh=dict(self.layouts.mesh.degrees),
                rules=str(self.layouts.rules or ""),
                final=job.final,
                notes=job.notes,
            )
            try:
                self._store.refresh()
                with self._store.begin() as writer:
                    record = writer.put("record", msgspec.msgpack.encode(checkpoint))
                    writer.commit(self._body(CHECKPOINT_PREFIX, record))
            except (StoreError, OSError) as exc:
                problem = str(exc)
        record, problem = self._writers.gather((record, problem))[0]
        if record is None:
            raise CheckpointError(_failure(job.step, {0: problem}))
        return record

    def _body(self, prefix: str, record: ObjectId) -> RefBody:
        return RefBody(
            lineage=self._lineage,
            seq=0,
            source_digest=prefix + self.run,
            record=record,
            created=time.time(),
        )


def _compared(live: Live, agreed: Plan, first: bool) -> dict[int, int]:
    """Replicas that are compared at this save, with the rank that saves each."""
    return {
        position: owner
        for position, owner in agreed.compared
        if first or live.held[position].nbytes < _COMPARED_ALWAYS
    }


def _part(job: _Job, position: int) -> Part:
    held = job.live.held[position]
    return Part(
        name=held.name,
        dtype=held.dtype,
        itemsize=held.itemsize,
        shape=held.shape,
        grid=job.agreed.grids[held.name],
        box=held.box,
        data=array(job.live.tensors[position]),
        own=held.own,
    )


def _failure(step: int, failed: Mapping[int, str]) -> str:
    where = "; ".join(f"rank {rank}: {problem}" for rank, problem in sorted(failed.items()))
    return f"the checkpoint of step {step} was not saved: {where}"
