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
    layers: tuple[ObjectId, ...]
    start: int


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
        for fragment in self.fragments:
            for tensor in fragment.tensors:
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
        copies: dict[_Tile, list[tuple[SavedTensor, Wanted, Box]]] = defaultdict(list)
        for one in wanted:
            for tensor, tile, box in self._plan(one):
                copies[tile].append((tensor, one, box))
        order = sorted(copies, key=lambda tile: (tile.layers[0], tile.start))
        by_objects: dict[tuple[ObjectId, ...], list[_Tile]] = defaultdict(list)
        for tile in order:
            by_objects[tile.layers].append(tile)
        groups = list(by_objects)
        for at in range(0, len(groups), _AT_ONCE):
            some = groups[at : at + _AT_ONCE]
            for layers, content in zip(some, run_all(self._content, some), strict=True):
                for tile in by_objects[layers]:
                    for tensor, one, box in copies[tile]:
                        _copy(content, tile, tensor.itemsize, one, box)

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
        yield _Tile(box, part.tiles[start : start + count], part.start)


def _copy(content: bytes, tile: _Tile, itemsize: int, wanted: Wanted, box: Box) -> None:
    end = tile.start + tile.box.size * itemsize
    if end > len(content):
        raise ObjectDamaged(f"a tile of {wanted.name} is shorter than its box")
    flat: npt.NDArray[Any] = np.frombuffer(content, np.uint8)[tile.start : end]
    source = flat.view(wanted.target.dtype) if flat.size else flat
    source = _aligned(source, wanted.target.dtype).reshape(tile.box.lengths)
    wanted.target[box.seen_from(wanted.box).slices] = source[box.seen_from(tile.box).slices]


def _aligned(flat: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return flat if flat.flags.aligned or not flat.size else np.frombuffer(flat.tobytes(), dtype)
