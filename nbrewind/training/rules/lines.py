"""Tensors in one line: which boxes a range of elements is, and where tensors lie in a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from nbrewind.training.boxes import Box
from nbrewind.training.rules.mappings import Shape
from nbrewind.training.rules.operations import Flat


def range_boxes(shape: Sequence[int], start: int, stop: int) -> Iterator[Box]:
    """What elements `start` to `stop`, in row-major order, are of a tensor.

    Yields:
        At most 2n-1 boxes for n dimensions (one for none), in row-major order; none is empty.
    """
    if start >= stop:
        return
    if not shape:
        yield Box((), ())
        return
    inner = prod(shape[1:])
    first, skipped = divmod(start, inner)
    last, over = divmod(stop, inner)
    if first == last:
        yield from _in_row(shape, first, skipped, over)
        return
    if skipped:
        yield from _in_row(shape, first, skipped, inner)
        first += 1
    if first < last:
        rest = tuple(shape[1:])
        yield Box((first,) + (0,) * len(rest), (last - first, *rest))
    yield from _in_row(shape, last, 0, over)


def _in_row(shape: Sequence[int], row: int, start: int, stop: int) -> Iterator[Box]:
    for box in range_boxes(shape[1:], start, stop):
        yield Box((row, *box.offsets), (1, *box.lengths))


def rank_range(flat: Flat, total: int, degree: int, index: int) -> tuple[int, int]:
    """Start and stop of what one index has of a line; equal ones may go beyond its end.

    Raises:
        ValueError: `ranges` do not fit.
    """
    if flat.ranges is not None:
        if len(flat.ranges) != degree:
            raise ValueError(f"there are {len(flat.ranges)} ranges for {degree} ranks")
        if sum(flat.ranges) < total:
            raise ValueError(f"the ranges add up to {sum(flat.ranges)}, there are {total} elements")
        start = sum(flat.ranges[:index])
        return start, start + flat.ranges[index]
    share = -(-total // (degree * flat.align)) * flat.align
    return index * share, (index + 1) * share


def line_order(flat: Flat, names: Sequence[str]) -> list[str]:
    """Names in the order in which tensors lie in the line.

    Raises:
        ValueError: the rule's list is of other names.
    """
    if flat.order == "given":
        return [*names]
    if flat.order == "sorted":
        return sorted(names)
    if set(flat.order) != set(names):
        different = sorted(set(flat.order) ^ set(names))
        raise ValueError(f"the order and the tensors of the rule differ in {different[0]}")
    return [*flat.order]


def line_starts(
    flat: Flat, names: Sequence[str], shapes: Mapping[str, Shape]
) -> tuple[dict[str, int], int]:
    """Where each tensor begins in the line, and how long the line is without padding."""
    starts, at = {}, 0
    for name in line_order(flat, names):
        at = -(-at // flat.starts) * flat.starts
        starts[name] = at
        at += prod(shapes[name])
    return starts, at
