"""Saving: all ranks make their fragments durable, then one publishes the checkpoint.

A reader sees all of a checkpoint or nothing. A save that fails on one rank fails on all, and
says on which.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec
from blake3 import blake3
from xxhash import xxh3_128_digest

from nbrewind.errors import CheckpointError, NBRewindError, StoreError
from nbrewind.model.blobs import ObjectId
from nbrewind.model.checkpoints import (
    CHECKPOINT_PREFIX,
    FRAGMENT_PREFIX,
    Checkpoint,
    Fragment,
    SavedTensor,
)
from nbrewind.model.refs import RefBody
from nbrewind.store.abc import Store
from nbrewind.training import trees
from nbrewind.training.boxes import Piece
from nbrewind.training.finding import find
from nbrewind.training.fragments import Part, write_parts
from nbrewind.training.planning import Held, Plan, plan
from nbrewind.training.ranks import Ranks
from nbrewind.training.reading import read_fragment
from nbrewind.training.tensors import (
    array,
    columns,
    dtype_name,
    is_distributed,
    is_tensor,
    local,
    logical_shape,
    pieces,
)

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch

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


@dataclass
class _Live:
    """What this rank holds of a state, as it is."""

    held: list[Held] = field(default_factory=list)
    places: list[tuple[torch.Tensor, Piece]] = field(default_factory=list)
    values: bytes = b""
    pickled: bool = False


class Saver:
    """Saves the state of a run again and again. Making one is a collective call.

    Args:
        store: Where to; every rank opens it for itself.
        run: The run's name.
        ranks: Who saves together.
        pickles: Pickle values that are not plain; loading them needs trust.
    """

    def __init__(self, store: Store, run: str, ranks: Ranks, *, pickles: bool = False) -> None:
        if not run:
            raise CheckpointError("a run needs a name")
        self.run = run
        self._store = store
        self._ranks = ranks
        self._pickles = pickles
        self._lineage = uuid.uuid4().hex
        self._nonce = ranks.gather(uuid.uuid4().hex[:24])[0]
        self._number = 0
        self._signature = b""
        self._plan: Plan | None = None

    def save(
        self,
        tree: Mapping[str, Any],
        *,
        step: int,
        final: bool = False,
        notes: Mapping[str, Any] | None = None,
    ) -> Saved:
        """Save a tree (`states.collect`) and wait until the checkpoint is durable.

        Args:
            tree: Tensors and plain values; must not change during the call.
            step: Steps that were made.
            final: The run has come to its end.
            notes: Plain values that say something about it; those of rank 0 count.

        Raises:
            CheckpointError: it was not saved, on any rank; the message says on which rank it failed
                and why.
        """
        begun = time.perf_counter()
        live = self._look(tree)
        agreed, first = self._agree(live.held)
        timing = {"plan": time.perf_counter() - begun}
        parts = [_part(live, position, agreed) for position in agreed.saves]
        return self._write(live, agreed, parts, timing, first, step, final, dict(notes or {}))

    def _look(self, tree: Mapping[str, Any]) -> _Live:
        live = _Live()
        tensors, live.values, live.pickled = trees.encode(tree, is_tensor, pickles=self._pickles)
        for name, tensor in tensors.items():
            try:
                found = pieces(tensor)
            except CheckpointError as exc:
                raise CheckpointError(f"{name}: {exc}") from exc
            mine = local(tensor)
            kind = dtype_name(tensor.dtype), tensor.element_size(), logical_shape(tensor)
            flags = columns(tensor), not is_distributed(tensor)
            for piece in found:
                live.held.append(Held(name, *kind, piece.whole, *flags))
                live.places.append((mine, piece))
        return live

    def _agree(self, held: Sequence[Held]) -> tuple[Plan, bool]:
        """The plan of this rank; whether it is a new one."""
        signature = blake3(msgspec.msgpack.encode(held)).digest()
        known = signature == self._signature and self._plan is not None
        # One byte more: all ranks have to make a new plan if one of them has to.
        answers = self._ranks.gather_bytes(bytes([known]) + signature)
        if all(answer[0] for answer in answers):
            assert self._plan is not None
            return self._plan, False
        everyone = self._ranks.gather((list(held), self._known_grids()))
        self._plan = plan([boxes for boxes, _ in everyone], everyone[0][1])[self._ranks.rank]
        self._signature = signature
        return self._plan, True

    def _known_grids(self) -> dict[str, tuple[int, ...]]:
        if self._ranks.rank:
            return {}
        try:
            _, checkpoint = find(self._store, self.run)
            fragments = [read_fragment(self._store, oid) for oid in checkpoint.fragments]
        except NBRewindError:
            return {}
        return {tensor.name: tensor.grid for each in fragments for tensor in each.tensors}

    def _write(
        self,
        live: _Live,
        agreed: Plan,
        parts: list[Part],
        timing: dict[str, float],
        first: bool,
        step: int,
        final: bool,
        notes: dict[str, Any],
    ) -> Saved:
        self._number += 1
        save = f"{self._nonce}{self._number:08x}"
        begun = time.perf_counter()
        own = self._differing(live, agreed, first)
        timing["compare"] = time.perf_counter() - begun
        parts += own
        fragment: ObjectId | None = None
        problem = ""
        added = 0
        begun = time.perf_counter()
        try:
            fragment, added = self._commit_fragment(live, parts, timing, save, step)
        except (NBRewindError, OSError) as exc:
            problem = str(exc)
        timing["write"] = time.perf_counter() - begun
        size = sum(part.nbytes for part in parts)
        names = sorted({part.name for part in own})
        answers = self._ranks.gather((fragment, problem, size, added, names))
        failed = {rank: answer[1] for rank, answer in enumerate(answers) if answer[1]}
        if failed:
            raise CheckpointError(_failure(step, failed))
        record = self._publish(save, step, [answer[0] for answer in answers], final, notes)
        return Saved(
            run=self.run,
            step=step,
            save=save,
            record=record,
            bytes_state=sum(answer[2] for answer in answers),
            bytes_added=sum(answer[3] for answer in answers),
            differing=tuple(sorted({name for answer in answers for name in answer[4]})),
        )

    def _differing(self, live: _Live, agreed: Plan, first: bool) -> list[Part]:
        """This rank's replicas that are not what the rank says that saves them."""
        looked = [
            (position, owner)
            for position, owner in agreed.compared
            if first or live.held[position].nbytes < _COMPARED_ALWAYS
        ]
        mine = {
            live.held[position].name: xxh3_128_digest(_array(live, position).tobytes())
            for position, _ in looked
        }
        if self._ranks.world == 1:
            return []
        everyone = self._ranks.gather(mine)
        return [
            replace(part, own=True)
            for position, owner in looked
            for part in [_part(live, position, agreed)]
            if everyone[owner].get(part.name) != mine[part.name]
        ]

    def _commit_fragment(
        self, live: _Live, parts: Sequence[Part], timing: dict[str, float], save: str, step: int
    ) -> tuple[ObjectId, int]:
        begun = time.perf_counter()
        with self._store.begin() as writer:
            tensors: list[SavedTensor] = write_parts(writer, parts)
            values = writer.put_stream(live.values)
            timing["tiles"] = time.perf_counter() - begun
            fragment = Fragment(
                save=save,
                rank=self._ranks.rank,
                world=self._ranks.world,
                step=step,
                tensors=tuple(tensors),
                values=values,
                encoding="pickle" if live.pickled else "msgpack",
                timing=timing,
                bytes={
                    "state": sum(part.nbytes for part in parts),
                    "added": writer.bytes_added,
                },
            )
            record = writer.put("record", msgspec.msgpack.encode(fragment))
            added = writer.bytes_added
            writer.commit(self._body(FRAGMENT_PREFIX, record))
        return record, added

    def _publish(
        self, save: str, step: int, fragments: list[ObjectId], final: bool, notes: dict[str, Any]
    ) -> ObjectId:
        """Rank 0 makes the checkpoint visible; all hear whether it did."""
        record: ObjectId | None = None
        problem = ""
        if self._ranks.rank == 0:
            checkpoint = Checkpoint(
                run=self.run,
                save=save,
                step=step,
                world=self._ranks.world,
                fragments=tuple(fragments),
                created=time.time(),
                final=final,
                notes=notes,
            )
            try:
                self._store.refresh()
                with self._store.begin() as writer:
                    record = writer.put("record", msgspec.msgpack.encode(checkpoint))
                    writer.commit(self._body(CHECKPOINT_PREFIX, record))
            except (StoreError, OSError) as exc:
                problem = str(exc)
        record, problem = self._ranks.gather((record, problem))[0]
        if record is None:
            raise CheckpointError(_failure(step, {0: problem}))
        return record

    def _body(self, prefix: str, record: ObjectId) -> RefBody:
        return RefBody(
            lineage=self._lineage,
            seq=0,
            source_digest=prefix + self.run,
            record=record,
            created=time.time(),
        )


def _array(live: _Live, position: int) -> npt.NDArray[Any]:
    tensor, piece = live.places[position]
    return array(tensor)[piece.local.index]


def _part(live: _Live, position: int, agreed: Plan) -> Part:
    held = live.held[position]
    return Part(
        name=held.name,
        dtype=held.dtype,
        itemsize=held.itemsize,
        shape=held.shape,
        grid=agreed.grids[held.name],
        box=held.box,
        data=_array(live, position),
    )


def _failure(step: int, failed: Mapping[int, str]) -> str:
    where = "; ".join(f"rank {rank}: {problem}" for rank, problem in sorted(failed.items()))
    return f"the checkpoint of step {step} was not saved: {where}"
