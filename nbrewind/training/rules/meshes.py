"""Meshes of ranks: named axes, and which rank is where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from types import MappingProxyType

from nbrewind.errors import RuleError
from nbrewind.training.rules.suggestions import suggestion


class Mesh:
    """Ranks in a grid whose axes have names; the last axis varies fastest.

    Args:
        degrees: Number of ranks along each axis, such as `{"dp": 2, "tp": 4}`.

    Raises:
        RuleError: a degree is less than 1.
    """

    def __init__(self, degrees: Mapping[str, int]) -> None:
        for axis, degree in degrees.items():
            if degree < 1:
                raise RuleError(f"the axis {axis} of a mesh has {degree} ranks")
        self.degrees: Mapping[str, int] = MappingProxyType(dict(degrees))

    @property
    def size(self) -> int:
        """Number of ranks."""
        return prod(self.degrees.values())

    def coordinates(self) -> Iterator[dict[str, int]]:
        """Where each rank is, in the order of ranks."""
        for place in product(*map(range, self.degrees.values())):
            yield dict(zip(self.degrees, place, strict=True))

    def at(self, rank: int) -> dict[str, int]:
        """Where one rank is."""
        if not 0 <= rank < self.size:
            raise RuleError(f"a mesh of {self.size} ranks has no rank {rank}")
        place = {}
        for axis, degree in reversed([*self.degrees.items()]):
            rank, place[axis] = divmod(rank, degree)
        return {axis: place[axis] for axis in self.degrees}

    def degree(self, axes: Sequence[str]) -> int:
        """Ranks along some axes taken as one.

        Raises:
            RuleError: there is no such axis.
        """
        for axis in axes:
            if axis not in self.degrees:
                raise RuleError(
                    f"the mesh has no axis {axis}: it has {', '.join(self.degrees) or 'none'}"
                    + suggestion(axis, self.degrees)
                )
        return prod(self.degrees[axis] for axis in axes)

    def index(self, axes: Sequence[str], coordinates: Mapping[str, int]) -> int:
        """Which of `degree(axes)` a rank is; the last axis varies fastest."""
        at = 0
        for axis in axes:
            at = at * self.degrees[axis] + coordinates[axis]
        return at

    def __repr__(self) -> str:
        return f"Mesh({dict(self.degrees)})"
