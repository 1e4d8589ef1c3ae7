"""Who saves what: each box of each logical tensor is saved by one of the ranks that have it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nbrewind.errors import CheckpointError
from nbrewind.training.boxes import Box
from nbrewind.training.grid import block_grid, row_grid


class Held(NamedTuple):
    """A box of a logical tensor that a rank has."""

    name: str
    dtype: str
    itemsize: int
    shape: tuple[int, ...]
    box: Box
    columns: bool
    """Ranks share the tensor out along another dimension than the first."""
    whole: bool
    """The tensor is no part of a distributed one: other ranks' of that name may differ."""

    own: bool = False
    """Each rank has a value of its own, and saves it."""

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return self.box.size * self.itemsize


class Plan(NamedTuple):
    """What one rank does with what it holds, by position."""

    saves: tuple[int, ...]
    compared: tuple[tuple[int, int], ...]
    """(position, owner): whole tensors that several ranks have, with the rank that saves it."""
    grids: dict[str, tuple[int, ...]]
    """Lengths of a tile, by tensor."""


def plan(held: Sequence[Sequence[Held]], known: Mapping[str, tuple[int, ...]]) -> list[Plan]:
    """Share the work out evenly; the same on whichever rank it is computed.

    Args:
        held: What each rank has.
        known: Tiles of an earlier checkpoint, which are kept.

    Raises:
        CheckpointError: ranks mean different things by a name.
    """
    holders: dict[tuple[str, Box, int], list[tuple[int, int]]] = defaultdict(list)
    first: dict[str, tuple[int, Held]] = {}
    columns: set[str] = set()
    for rank, boxes in enumerate(held):
        for position, one in enumerate(boxes):
            other, same = first.setdefault(one.name, (rank, one))
            if (one.dtype, one.shape) != (same.dtype, same.shape):
                raise CheckpointError(
                    f"{one.name} is {one.dtype} {one.shape} on rank {rank} and {same.dtype} "
                    f"{same.shape} on rank {other}: give different tensors different names"
                )
            holders[one.name, one.box, rank if one.own else -1].append((rank, position))
            if one.columns:
                columns.add(one.name)
    load = [0] * len(held)
    saves: list[list[int]] = [[] for _ in held]
    compared: list[list[tuple[int, int]]] = [[] for _ in held]
    # Largest first, so that the loads come out even; the names make the order complete.
    order = sorted(
        holders.items(), key=lambda item: (-_size(held, item[1]), item[0][0], item[0][1:])
    )
    for _, ranks in order:
        owner, position = min(ranks, key=lambda place: (load[place[0]], place[0]))
        load[owner] += held[owner][position].nbytes
        saves[owner].append(position)
        if len(ranks) > 1 and held[owner][position].whole:
            for rank, place in ranks:
                compared[rank].append((place, owner))
    grids = {name: _grid(one, name in columns, known) for name, (_, one) in first.items()}
    return [
        Plan(tuple(sorted(saves[rank])), tuple(sorted(compared[rank])), grids)
        for rank in range(len(held))
    ]


def _size(held: Sequence[Sequence[Held]], ranks: Sequence[tuple[int, int]]) -> int:
    rank, position = ranks[0]
    return held[rank][position].nbytes


def _grid(one: Held, columns: bool, known: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    found = known.get(one.name)
    if found is not None and len(found) == len(one.shape):
        return found
    return (block_grid if columns else row_grid)(one.shape, one.itemsize)
