"""The second half of a save: fragments become durable on all ranks, then the checkpoint visible.

Nothing here depends on the live state any more, so it may run while training goes on.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from blake3 import blake3
from xxhash import xxh3_128_digest

from nbrewind.errors import CheckpointError
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
from nbrewind.training.fragments import write_parts
from nbrewind.training.holding import Live
from nbrewind.training.layouts import Layouts
from nbrewind.training.partial import Partial, Rotation
from nbrewind.training.parts import Part
from nbrewind.training.planning import Plan
from nbrewind.training.ranks import Ranks
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
class Job:
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

    @property
    def compared(self) -> dict[int, int]:
        """Positions of replicas that are compared at this save, with the rank that saves each."""
        return compared(self.live, self.agreed, first=self.first)


class Committer:
    """Writes saves of one run, one after the other. Making one is a collective call.

    Args:
        store: Where to.
        run: The run's name.
        ranks: Who saves together.
        layouts: How tensors lie; noted in checkpoints.
        chains: What differences are from, if they are stored.
        partial: Which experts are saved each time, if not all.
    """

    def __init__(
        self,
        store: Store,
        run: str,
        ranks: Ranks,
        layouts: Layouts,
        chains: Chains | None,
        partial: Partial | None,
    ) -> None:
        self._store, self._run, self._ranks, self._layouts = store, run, ranks, layouts
        self._chains = chains
        self._rotation = Rotation(partial) if partial is not None else None
        self._lineage = uuid.uuid4().hex
        self._nonce = ranks.gather(uuid.uuid4().hex)[0]
        self._number = 0

    def commit(self, job: Job) -> Saved:
        """Make a save durable on all ranks; a collective call.

        Raises:
            CheckpointError: nothing was saved, on no rank; it says on which rank it failed and why.
        """
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
        except Exception as exc:  # whatever it is: the other ranks have to hear of it
            problem = str(exc) or repr(exc)
        size = sum(part.nbytes for part in parts)
        names = sorted({part.name for part in own})
        answers = self._ranks.gather((fragment, problem, size, added, names))
        failed = {rank: answer[1] for rank, answer in enumerate(answers) if answer[1]}
        if self._chains is not None:
            self._chains.committed(whole=not failed)
        if self._rotation is not None:
            self._rotation.ended(whole=not failed)
        if failed:
            raise CheckpointError(failure(job.step, failed))
        record = self._publish(job, save, [answer[0] for answer in answers])
        return Saved(
            run=self._run,
            step=job.step,
            save=save,
            record=record,
            bytes_state=sum(answer[2] for answer in answers),
            bytes_added=sum(answer[3] for answer in answers),
            differing=tuple(sorted({name for answer in answers for name in answer[4]})),
        )

    def _differing(self, job: Job) -> list[Part]:
        """This rank's replicas that are not what the rank says that saves them."""
        if self._ranks.world == 1:
            return []
        looked = job.compared
        parts = {position: _part(job, position) for position in looked}
        mine = {part.name: xxh3_128_digest(part.data.tobytes()) for part in parts.values()}
        everyone = self._ranks.gather(mine)
        return [
            replace(part, own=True)
            for position, part in parts.items()
            if everyone[looked[position]].get(part.name) != mine[part.name]
        ]

    def _commit_fragment(self, job: Job, parts: Sequence[Part], save: str) -> tuple[ObjectId, int]:
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
                rank=self._ranks.rank,
                world=self._ranks.world,
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

    def _publish(self, job: Job, save: str, fragments: list[ObjectId]) -> ObjectId:
        """Rank 0 makes the checkpoint visible; all hear whether it did."""
        record: ObjectId | None = None
        problem = ""
        if self._ranks.rank == 0:
            checkpoint = Checkpoint(
                run=self._run,
                save=save,
                step=job.step,
                world=self._ranks.world,
                fragments=tuple(fragments),
                created=time.time(),
                mesh=dict(self._layouts.mesh.degrees),
                rules=str(self._layouts.rules or ""),
                final=job.final,
                notes=job.notes,
            )
            try:
                self._store.refresh()
                with self._store.begin() as writer:
                    record = writer.put("record", msgspec.msgpack.encode(checkpoint))
                    writer.commit(self._body(CHECKPOINT_PREFIX, record))
            except Exception as exc:
                problem = str(exc) or repr(exc)
        record, problem = self._ranks.gather((record, problem))[0]
        if record is None:
            raise CheckpointError(failure(job.step, {0: problem}))
        return record

    def _body(self, prefix: str, record: ObjectId) -> RefBody:
        return RefBody(
            lineage=self._lineage,
            seq=0,
            source_digest=prefix + self._run,
            record=record,
            created=time.time(),
        )


def compared(live: Live, agreed: Plan, *, first: bool) -> dict[int, int]:
    """Positions of replicas that are compared at a save, with the rank that saves each.

    Args:
        live: What this rank has.
        agreed: Who saves what.
        first: The save is the first of this layout.
    """
    return {
        position: owner
        for position, owner in agreed.compared
        if first or live.held[position].nbytes < _COMPARED_ALWAYS
    }


def _part(job: Job, position: int) -> Part:
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


def failure(step: int, failed: Mapping[int, str]) -> str:
    """The sentence that says on which ranks a save failed, and why."""
    where = "; ".join(f"rank {rank}: {problem}" for rank, problem in sorted(failed.items()))
    return f"the checkpoint of step {step} was not saved: {where}"
