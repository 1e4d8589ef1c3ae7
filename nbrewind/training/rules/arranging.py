"""What operations do along one dimension, and back.

`spans` tells which intervals of a dimension one index of an axis has, in the order in which they
lie there; `whole_length` tells how long the dimension is from the lengths that all indices have.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TypeGuard

from nbrewind.training.rules.operations import Expert, Fused, Interleave, Operation, Shard

AlongDimension = Shard | Fused | Interleave | Expert


def is_along_dimension(operation: Operation) -> TypeGuard[AlongDimension]:
    """Whether it divides a dimension among ranks."""
    return isinstance(operation, AlongDimension) and operation.dim is not None


def spans(operation: AlongDimension, length: int, degree: int, index: int) -> list[tuple[int, int]]:
    """What one index has.

    Args:
        operation: What divides the dimension.
        length: Of the dimension.
        degree: Number of indices.
        index: Which of them.

    Returns:
        (start, length) of intervals; none of them is empty.

    Raises:
        ValueError: the operation does not fit the length or the degree.
    """
    if isinstance(operation, Shard) and operation.sizes is not None:
        found = [_cut(operation.sizes, length, degree)[index]]
    elif isinstance(operation, Shard):
        found = [chunk(length, degree, index)]
    elif isinstance(operation, Interleave):
        found = [
            _within(block, chunk(block[1], degree, index))
            for block in (chunk(length, operation.n, number) for number in range(operation.n))
        ]
    elif isinstance(operation, Expert):
        if operation.count is not None and length != operation.count:
            raise ValueError(f"there are {length} experts, not {operation.count}")
        found = [chunk(length, degree, index)]
    elif operation.heads is not None:
        found = _heads(operation.heads, length, degree, index)
    else:
        parts = _parts(operation, length)
        found = [_within(part, chunk(part[1], degree, index)) for part in parts]
    return [span for span in found if span[1]]


def whole_length(operation: AlongDimension, lengths: Sequence[int]) -> int:
    """How long a dimension is that indices have parts of.

    Args:
        operation: What divided it.
        lengths: What each index has of it.

    Raises:
        ValueError: no length gives these parts.
    """
    if isinstance(operation, Fused) and operation.heads is not None:
        degree = len(lengths)
        head, rest = divmod(lengths[0], sum(_share(n, degree, 0)[1] for n in operation.heads))
        if rest:
            raise ValueError(f"{lengths[0]} elements are no whole number of heads")
        return head * sum(operation.heads)
    return sum(lengths)


def chunk(length: int, degree: int, index: int) -> tuple[int, int]:
    """(start, length) of a chunk as `torch.chunk` makes them, with empty ones at the end."""
    step = -(-length // degree)
    start = min(index * step, length)
    return start, min(step, length - start)


def _cut(sizes: Sequence[int], length: int, degree: int) -> list[tuple[int, int]]:
    if len(sizes) != degree:
        raise ValueError(f"there are {len(sizes)} sizes for {degree} ranks")
    if sum(sizes) != length:
        raise ValueError(f"the sizes add up to {sum(sizes)}, the dimension has {length}")
    ends = [0, *accumulate(sizes)]
    return [(start, end - start) for start, end in pairwise(ends)]


def _parts(operation: Fused, length: int) -> list[tuple[int, int]]:
    widths = operation.widths
    if widths is None:
        assert operation.parts is not None
        if length % operation.parts:
            raise ValueError(f"{length} is not divisible into {operation.parts} equal parts")
        widths = (length // operation.parts,) * operation.parts
    elif sum(widths) != length:
        raise ValueError(f"the widths add up to {sum(widths)}, the dimension has {length}")
    ends = [0, *accumulate(widths)]
    return [(start, end - start) for start, end in pairwise(ends)]


def _heads(heads: Sequence[int], length: int, degree: int, index: int) -> list[tuple[int, int]]:
    width, rest = divmod(length, sum(heads))
    if rest:
        raise ValueError(f"{length} is not divisible into {sum(heads)} heads of equal width")
    found, start = [], 0
    for count in heads:
        first, own = _share(count, degree, index)
        found.append((start + first * width, own * width))
        start += count * width
    return found


def _share(count: int, degree: int, index: int) -> tuple[int, int]:
    """(first, number) of the heads of one index; several have the same if there are too few."""
    if count >= degree:
        return chunk(count, degree, index)
    if degree % count:
        raise ValueError(f"{count} heads cannot be copied to {degree} ranks evenly")
    return index * count // degree, 1


def _within(part: tuple[int, int], span: tuple[int, int]) -> tuple[int, int]:
    return part[0] + span[0], span[1]
