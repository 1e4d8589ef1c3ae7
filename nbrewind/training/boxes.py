"""Boxes: axis-parallel parts of tensors, and which part of a shard is which part of a whole.

Everything that layouts of training do to a tensor (sharding by rows or columns, fused
projections, flat ranges, padding) comes down to pairs of boxes of equal shape: this box of
the local tensor is that box of the logical one. Saving cuts such pairs along tiles, loading
intersects them with what was saved; nothing else knows of layouts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Self


@dataclass(frozen=True, slots=True, order=True)
class Box:
    """Elements with `offsets[d] <= i[d] < offsets[d] + lengths[d]`; one without dimensions."""

    offsets: tuple[int, ...]
    lengths: tuple[int, ...]

    @classmethod
    def whole(cls, shape: Sequence[int]) -> Self:
        """All of a tensor."""
        return cls((0,) * len(shape), tuple(shape))

    @property
    def ends(self) -> tuple[int, ...]:
        """The first index behind it, by dimension."""
        return tuple(o + n for o, n in zip(self.offsets, self.lengths, strict=True))

    @property
    def size(self) -> int:
        """Elements in it."""
        return prod(self.lengths)

    @property
    def slices(self) -> tuple[slice, ...]:
        """What to index a tensor or array with."""
        return tuple(slice(o, o + n) for o, n in zip(self.offsets, self.lengths, strict=True))

    @property
    def index(self) -> tuple[Any, ...]:
        """As `slices`; what it selects of an array is a view of it, also without dimensions."""
        return (..., *self.slices)

    def __and__(self, other: Box) -> Box | None:
        """What is in both; None if nothing is."""
        starts = tuple(map(max, self.offsets, other.offsets))
        lengths = tuple(
            min(a, b) - start for a, b, start in zip(self.ends, other.ends, starts, strict=True)
        )
        if any(length <= 0 for length in lengths):
            return None
        return Box(starts, lengths)

    def __contains__(self, other: Box) -> bool:
        return all(map(int.__le__, self.offsets, other.offsets)) and all(
            map(int.__ge__, self.ends, other.ends)
        )

    def moved(self, by: Sequence[int]) -> Box:
        """The same box elsewhere."""
        return Box(tuple(map(int.__add__, self.offsets, by)), self.lengths)

    def seen_from(self, other: Box) -> Box:
        """The same box in coordinates that begin where `other` does."""
        return self.moved([-offset for offset in other.offsets])


@dataclass(frozen=True, slots=True)
class Piece:
    """`local`, a box of a rank's tensor, holds what `whole`, a box of the logical one, means."""

    local: Box
    whole: Box

    def __post_init__(self) -> None:
        if self.local.lengths != self.whole.lengths:
            raise ValueError(f"boxes of a piece differ in shape: {self}")

    def within(self, box: Box) -> Piece | None:
        """The part of the piece that lies in a box of the logical tensor; None if none does."""
        common = self.whole & box
        if common is None:
            return None
        return Piece(common.seen_from(self.whole).moved(self.local.offsets), common)


def uncovered(whole: Box, parts: Iterable[Box]) -> list[Box]:
    """The rest of `whole` without `parts`, as boxes that do not overlap."""
    rest = [whole] if whole.size else []
    for part in parts:
        rest = [left for box in rest for left in _without(box, part)]
    return rest


def _without(box: Box, part: Box) -> Iterable[Box]:
    common = box & part
    if common is None:
        yield box
        return
    offsets, lengths = list(box.offsets), list(box.lengths)
    for dim in range(len(offsets)):
        before = common.offsets[dim] - offsets[dim]
        if before:
            yield Box(tuple(offsets), (*lengths[:dim], before, *lengths[dim + 1 :]))
        behind = offsets[dim] + lengths[dim] - common.ends[dim]
        if behind:
            start = (*offsets[:dim], common.ends[dim], *offsets[dim + 1 :])
            yield Box(start, (*lengths[:dim], behind, *lengths[dim + 1 :]))
        offsets[dim], lengths[dim] = common.offsets[dim], common.lengths[dim]
