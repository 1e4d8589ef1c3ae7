"""What one rank saves: boxes of logical tensors become tiles, tiles become objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nbrewind.model.blobs import LEAF_BYTES, ObjectId
from nbrewind.model.checkpoints import SavedPart, SavedTensor
from nbrewind.store.abc import StoreWriter
from nbrewind.training.boxes import Box
from nbrewind.training.grid import tiles

if TYPE_CHECKING:
    import numpy.typing as npt

_SMALL = 16 * 1024
"""Parts of fewer bytes share objects."""
_AT_ONCE = 64
"""Tiles that are named and handed over together: 16 MiB."""


@dataclass(frozen=True, slots=True)
class Part:
    """A box of a logical tensor, as a rank has it in memory."""

    name: str
    dtype: str
    itemsize: int
    shape: tuple[int, ...]
    """Of the logical tensor."""
    grid: tuple[int, ...]
    box: Box
    data: npt.NDArray[Any]
    """Of the shape of the box; any type of the right size, any strides."""
    own: bool = False
    """See `SavedTensor.own`."""

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return self.box.size * self.itemsize


def write_parts(writer: StoreWriter, parts: Iterable[Part]) -> list[SavedTensor]:
    """Add parts to a commit.

    Returns:
        What was saved, in the order of first appearance; parts of one tensor together.
    """
    saved: dict[tuple[str, bool], list[SavedPart]] = {}
    first: dict[tuple[str, bool], Part] = {}
    small: list[Part] = []
    filled = 0
    for part in parts:
        key = part.name, part.own
        first.setdefault(key, part)
        saved.setdefault(key, [])
        if part.nbytes == 0:
            saved[key].append(SavedPart(part.box.offsets, part.box.lengths, ()))
        elif part.nbytes < _SMALL:
            if filled + part.nbytes > LEAF_BYTES:
                _write_together(writer, small, saved)
                small, filled = [], 0
            small.append(part)
            filled += part.nbytes
        else:
            ids = _write_tiles(writer, part)
            saved[key].append(SavedPart(part.box.offsets, part.box.lengths, ids))
    _write_together(writer, small, saved)
    return [
        SavedTensor(
            name=part.name,
            dtype=part.dtype,
            itemsize=part.itemsize,
            shape=part.shape,
            # A part that shares an object is one tile.
            grid=part.grid,
            parts=tuple(saved[key]),
            own=part.own,
        )
        for key, part in first.items()
    ]


def _write_tiles(writer: StoreWriter, part: Part) -> tuple[ObjectId, ...]:
    ids: list[ObjectId] = []
    waiting: list[memoryview] = []
    for tile in tiles(part.box, part.grid):
        block = part.data[tile.seen_from(part.box).slices]
        waiting.append(_bytes(block))
        if len(waiting) == _AT_ONCE:
            ids += writer.put_chunks(waiting)
            waiting = []
    if waiting:
        ids += writer.put_chunks(waiting)
    return tuple(ids)


def _write_together(
    writer: StoreWriter, parts: Sequence[Part], saved: dict[tuple[str, bool], list[SavedPart]]
) -> None:
    """Write small parts as one object."""
    if not parts:
        return
    content = b"".join(part.data.tobytes() for part in parts)
    (oid,) = writer.put_chunks([content])
    start = 0
    for part in parts:
        place = SavedPart(part.box.offsets, part.box.lengths, (oid,), start)
        saved[part.name, part.own].append(place)
        start += part.nbytes


def _bytes(block: npt.NDArray[Any]) -> memoryview:
    """The elements in row-major order; a copy only if they do not lie so."""
    return np.ascontiguousarray(block).reshape(-1).view(np.uint8).data
