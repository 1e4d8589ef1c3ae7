"""Tiles: how logical tensors are cut, whatever shards of them ranks have.

The grid begins at the origin of the logical tensor, not of a shard. So ranks of another layout
cut the same values into the same tiles, and a save after resharding finds most of them in the
store. Only tiles that a shard's edge runs through are stored in parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from nbrewind.model.blobs import LEAF_BYTES
from nbrewind.training.boxes import Box

_BLOCK_BYTES = 1024
"""Length of a tile along the last dimension, where that is what ranks share out."""


def row_grid(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Tiles that are contiguous in memory: of whole rows, or of parts of one row.

    Args:
        shape: Of the logical tensor.
        itemsize: Bytes per element.

    Returns:
        Lengths of a tile, at most `LEAF_BYTES` in all.
    """
    return _filled(shape, [0] * len(shape), LEAF_BYTES // itemsize)


def block_grid(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Tiles that are short along every dimension but the first: for shards of columns.

    Args and result as for `row_grid`.
    """
    if len(shape) < 2:
        return row_grid(shape, itemsize)
    start = [0] * len(shape)
    start[-1] = min(max(1, shape[-1]), _BLOCK_BYTES // itemsize)
    if len(shape) > 2:
        start[1:-1] = [1] * (len(shape) - 2)
    return _filled(shape, start, LEAF_BYTES // itemsize)


def _filled(shape: Sequence[int], start: Sequence[int], room: int) -> tuple[int, ...]:
    """Lengths along the dimensions that are 0 in `start`, as long as there is room, last first."""
    for length in start:
        room //= max(1, length)
    grid = list(start)
    for dim in reversed(range(len(shape))):
        if grid[dim] == 0:
            grid[dim] = max(1, min(shape[dim], room))
            room //= grid[dim]
    return tuple(grid)


def tiles(box: Box, grid: Sequence[int]) -> Iterator[Box]:
    """What a grid makes of a box, in row-major order; nothing of an empty one."""
    if box.size == 0:
        return
    edges = [
        _cuts(offset, end, length)
        for offset, end, length in zip(box.offsets, box.ends, grid, strict=True)
    ]
    for cell in product(*edges):
        yield Box(tuple(start for start, _ in cell), tuple(length for _, length in cell))


def _cuts(start: int, end: int, step: int) -> list[tuple[int, int]]:
    starts = [start, *range((start // step + 1) * step, end, step)]
    return [(at, following - at) for at, following in zip(starts, [*starts[1:], end], strict=True)]
