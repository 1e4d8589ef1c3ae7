"""Boxes of logical tensors out of a checkpoint: each tile is read once, whoever needs it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np

from nbrewind.errors import CheckpointError, ObjectDamaged
from nbrewind.model.blobs import ObjectId
from nbrewind.model.checkpoints import (
    CHECKPOINT_FORMAT,
    FRAGMENT_FORMAT,
    Checkpoint,
    Fragment,
    SavedPart,
    SavedTensor,
)
from nbrewind.store.abc import Store
from nbrewind.store.workers import run_all
from nbrewind.training.boxes import Box, uncovered
from nbrewind.training.deltas import Layers
from nbrewind.training.grid import tiles

if TYPE_CHECKING:
    import numpy.typing as npt

_T = TypeVar("_T")

_AT_ONCE = 128
"""Objects that are in memory at once."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A box of a logical tensor, and the memory for it."""

    name: str
    box: Box
    target: npt.NDArray[Any]
    """Of the box's shape and the tensor's itemsize."""


@dataclass(frozen=True, slots=True)
class _Tile:
    """Elements that lie together in one object, or in the XOR of several."""

    box: Box
    layers: Layers
    start: int
    shared: bool
    """Its object may have more than this tile."""


@dataclass(frozen=True, slots=True)
class _Copy:
    """A box of a tile that goes to a box of somebody's memory."""

    wanted: Wanted
    box: Box
    itemsize: int

    def all_of(self, tile: _Tile) -> memoryview | None:
        """The memory, if it takes all of the tile as it lies in its object."""
        if self.box != tile.box or len(tile.layers) > 1 or tile.shared:
            return None
        target = self.wanted.target[self.box.seen_from(self.wanted.box).index]
        if not target.flags.c_contiguous:
            return None
        memory: memoryview = target.reshape(-1).view(np.uint8).data
        return memory

    def fill(self, tile: _Tile, content: bytes) -> None:
        """Copy the box out of the tile's object."""
        end = tile.start + tile.box.size * self.itemsize
        if end > len(content) or not (tile.shared or end == len(content)):
            raise ObjectDamaged(f"a tile of {self.wanted.name} is not as long as its box")
        source = np.frombuffer(content, np.uint8)[tile.start : end]
        if not source.size:
            return
        target = self.wanted.target
        if tile.start % self.itemsize:
            source = source.copy()  # numbers have to be aligned
        block = source.view(target.dtype).reshape(tile.box.lengths)
        target[self.box.seen_from(self.wanted.box).slices] = block[
            self.box.seen_from(tile.box).slices
        ]


def read_checkpoint(store: Store, oid: ObjectId) -> Checkpoint:
    """Raises `ObjectMissing`, `ObjectDamaged`."""
    found = _decode(store.get(oid), Checkpoint, oid)
    if found.checkpoint > CHECKPOINT_FORMAT:
        raise ObjectDamaged(f"a checkpoint is of format {found.checkpoint}: upgrade NBRewind")
    return found


def read_fragment(store: Store, oid: ObjectId) -> Fragment:
    """Raises `ObjectMissing`, `ObjectDamaged`."""
    found = _decode(store.get(oid), Fragment, oid)
    if found.fragment > FRAGMENT_FORMAT:
        raise ObjectDamaged(f"a fragment is of format {found.fragment}: upgrade NBRewind")
    return found


def _decode(content: bytes, kind: type[_T], oid: ObjectId) -> _T:
    try:
        return msgspec.msgpack.decode(content, type=kind)
    except msgspec.MsgspecError as exc:
        raise ObjectDamaged(f"object {oid.hex()[:16]} cannot be understood: {exc}") from exc


class CheckpointReader:
    """The logical tensors of a checkpoint, independent of who saved what.

    Args:
        store: Where the objects are.
        checkpoint: What to read.
        rank: Own values of this rank come before those of others; the first rank's by default.
    """

    def __init__(self, store: Store, checkpoint: Checkpoint, rank: int = 0) -> None:
        self.checkpoint = checkpoint
        self.fragments = [read_fragment(store, oid) for oid in checkpoint.fragments]
        self._store = store
        self._saved: dict[str, list[SavedTensor]] = defaultdict(list)
        own = {}
        self.differing: set[str] = set()
        """Tensors of which several ranks have values of their own."""
        for fragment in self.fragments:
            for tensor in fragment.tensors:
                if tensor.own:
                    self.differing.add(tensor.name)
                if not tensor.own:
                    self._saved[tensor.name].append(tensor)
                elif fragment.rank == rank:
                    own[tensor.name] = [tensor]
        self._saved.update(own)
        self.bytes_read = 0
        self.objects_read = 0

    @property
    def tensors(self) -> Mapping[str, SavedTensor]:
        """Type and shape of each logical tensor, with the parts that one rank saved."""
        return {name: saved[0] for name, saved in self._saved.items() if saved}

    @property
    def stale(self) -> dict[str, int]:
        """Tensors some of whose values are of an earlier step, with the earliest."""
        step = self.checkpoint.step
        found = {
            name: min(
                part.step if part.step >= 0 else step for each in saved for part in each.parts
            )
            for name, saved in self._saved.items()
            if any(each.parts for each in saved)
        }
        return {name: oldest for name, oldest in found.items() if oldest != step}

    def parts(self, name: str) -> Iterator[tuple[SavedTensor, SavedPart]]:
        """All saved parts of a tensor; they may overlap."""
        for tensor in self._saved.get(name, ()):
            for part in tensor.parts:
                yield tensor, part

    def boxes(self, name: str) -> list[Box]:
        """Boxes of a tensor that were saved."""
        return [Box(part.offsets, part.lengths) for _, part in self.parts(name)]

    def read(self, wanted: Iterable[Wanted]) -> None:
        """Fill memory with what was saved.

        Raises:
            CheckpointError: the checkpoint has no such tensor, or not all of the box.
            ObjectMissing, ObjectDamaged: as `Store.get`; some targets may be filled.
        """
        copies: dict[_Tile, list[_Copy]] = defaultdict(list)
        for one in wanted:
            for tensor, tile, box in self._plan(one):
                copies[tile].append(_Copy(one, box, tensor.itemsize))
        direct: list[tuple[ObjectId, memoryview]] = []
        others: dict[Layers, list[tuple[_Tile, _Copy]]] = defaultdict(list)
        for tile, some in copies.items():
            memory = some[0].all_of(tile) if len(some) == 1 else None
            if memory is not None:
                direct.append((tile.layers[0], memory))
            else:
                others[tile.layers] += ((tile, copy) for copy in some)
        for at in range(0, len(direct), _AT_ONCE):
            self._into(direct[at : at + _AT_ONCE])
        groups = list(others)
        for at in range(0, len(groups), _AT_ONCE):
            some_layers = groups[at : at + _AT_ONCE]
            contents = run_all(self._content, some_layers)
            for layers, content in zip(some_layers, contents, strict=True):
                for tile, copy in others[layers]:
                    copy.fill(tile, content)

    def _into(self, wanted: list[tuple[ObjectId, memoryview]]) -> None:
        self._store.get_into(wanted)
        self.objects_read += len(wanted)
        self.bytes_read += sum(target.nbytes for _, target in wanted)

    def check(self, tensor: SavedTensor) -> None:
        """Whether what one rank saved of a tensor has as many tiles as its boxes.

        Raises:
            ObjectDamaged: it has not.
        """
        for part in tensor.parts:
            if part.tiles:
                list(_tiles(tensor, part, Box(part.offsets, part.lengths)))

    def get(self, name: str, box: Box | None = None) -> npt.NDArray[Any]:
        """A tensor or a box of it, as integers of its itemsize."""
        from nbrewind.training.tensors import empty_array

        tensor = self._of(name)
        box = Box.whole(tensor.shape) if box is None else box
        target = empty_array(box.lengths, tensor.itemsize)
        self.read([Wanted(name, box, target)])
        return target

    def _of(self, name: str) -> SavedTensor:
        found = self._saved.get(name)
        if not found:
            raise CheckpointError(
                f"checkpoint {self.checkpoint.save[:8]} (step {self.checkpoint.step}) has no "
                f"tensor {name}"
            )
        return found[0]

    def _plan(self, wanted: Wanted) -> Iterator[tuple[SavedTensor, _Tile, Box]]:
        """Which boxes of which tiles make up what is wanted; none twice."""
        expected = self._of(wanted.name).shape
        if len(expected) != len(wanted.box.lengths):
            raise CheckpointError(
                f"{wanted.name} has the shape {expected} in the checkpoint; a box of "
                f"{len(wanted.box.lengths)} dimensions was asked for"
            )
        missing = [wanted.box] if wanted.box.size else []
        for tensor, part in self.parts(wanted.name):
            if not missing:
                return
            saved = Box(part.offsets, part.lengths)
            common = [found for box in missing if (found := box & saved) is not None]
            if not common:
                continue
            for tile in _tiles(tensor, part, saved):
                for box in common:
                    needed = tile.box & box
                    if needed is not None:
                        yield tensor, tile, needed
            missing = [rest for box in missing for rest in uncovered(box, [saved])]
        if missing:
            raise CheckpointError(
                f"checkpoint {self.checkpoint.save[:8]} (step {self.checkpoint.step}) has only "
                f"parts of {wanted.name}: {missing[0]} was not saved by any rank"
            )

    def _content(self, layers: tuple[ObjectId, ...]) -> bytes:
        content = self._store.get(layers[0])
        self.objects_read += len(layers)
        self.bytes_read += len(content) * len(layers)
        if len(layers) == 1:
            return content
        total = np.frombuffer(content, np.uint8).copy()
        for oid in layers[1:]:
            layer = np.frombuffer(self._store.get(oid), np.uint8)
            if layer.size != total.size:
                raise ObjectDamaged(f"the layers of a tile differ in length ({oid.hex()[:16]})")
            total ^= layer
        return total.tobytes()


def _tiles(tensor: SavedTensor, part: SavedPart, saved: Box) -> Iterator[_Tile]:
    counts = part.layers or (1,) * len(part.tiles)
    boxes = [saved] if len(counts) == 1 else list(tiles(saved, tensor.grid))
    if len(boxes) != len(counts) or sum(counts) != len(part.tiles):
        raise ObjectDamaged(f"the tiles of {tensor.name} do not make up what was saved of it")
    starts = accumulate(counts, initial=0)
    for box, start, count in zip(boxes, starts, counts, strict=False):
        yield _Tile(box, part.tiles[start : start + count], part.start, len(counts) == 1)
