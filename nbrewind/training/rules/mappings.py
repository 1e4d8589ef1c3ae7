"""What mapping rules are compiled to: pieces of a rank's tensor, and how to look at it.

Most mappings are pieces and nothing else. What pieces cannot say stands beside them: that a
tensor lies in one line or in another order of dimensions (`View`), that some elements mean
nothing (`Window.fills`), and that ranks have copies of it, or values to be averaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

from nbrewind.training.boxes import Box, Piece

Shape = tuple[int, ...]
Array = TypeVar("Array")


@dataclass(frozen=True, slots=True)
class View:
    """How a rank's tensor is looked at before boxes of it are taken; nothing is copied."""

    start: int | None = None
    """First of the elements in row-major order that are taken; None takes the tensor as it is."""
    shape: Shape = ()
    """Shape of the elements from `start`."""
    order: tuple[int, ...] | None = None
    """Order of dimensions after that, as of `numpy.transpose`."""
    stacked: bool = False
    """Whether a dimension of length 1 is put before all others."""

    def of(self, tensor: Array) -> Array:
        """The view of an array of numpy or a tensor of torch.

        A tensor with `start` has to be contiguous, or have one dimension.
        """
        seen: Any = tensor
        if self.start is not None:
            stop = self.start + prod(self.shape)
            seen = seen.reshape(-1)[self.start : stop].reshape(self.shape)
        if self.order is not None:
            permute = getattr(seen, "permute", None) or seen.transpose
            seen = permute(self.order)
        return seen[None] if self.stacked else seen  # type: ignore[no-any-return]


AS_IT_IS = View()


@dataclass(frozen=True, slots=True)
class Window:
    """Boxes of one view of a rank's tensor."""

    pieces: tuple[Piece, ...]
    """Their `local` boxes are boxes of the view, their `whole` ones of the logical tensor."""
    fills: tuple[tuple[Box, float], ...] = ()
    """Boxes of the view that mean nothing, and what they are to hold."""
    view: View = AS_IT_IS


@dataclass(frozen=True, slots=True)
class ExpertOf:
    """Which experts of a mixture a logical tensor is about."""

    layer: str | None
    """The layer's number as it stands in the name; None if the rule does not tell it."""
    dim: int | None
    """The dimension of the logical tensor that numbers experts; None if it is of one expert."""
    index: int | None
    """The expert's number, if it is of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """Which elements of a logical tensor a rank's tensor holds."""

    name: str
    """Of the logical tensor."""
    shape: Shape
    """Of the logical tensor."""
    local_shape: Shape
    """Of the rank's tensor."""
    windows: tuple[Window, ...]
    copies: tuple[str, ...] = ()
    """Axes of the mesh along which all ranks have the same elements."""
    averaged: tuple[str, ...] = ()
    """Axes along which the mean of the ranks' values is what is meant."""
    check: bool = False
    """Whether copies are to be compared when they are saved."""
    alias: bool = False
    """Whether it is another name for a tensor that is saved under its own."""
    expert: ExpertOf | None = None
    own: bool = False
    """Whether each rank has a value of its own."""
    derived: bool = False
    """Whether the value is another rank's, from which a new one is to be made."""
    place: int | None = None
    """Where it begins in the line that the rank has of several tensors."""
    line: int | None = None
    """Length of that line, with padding."""

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The pieces of a tensor that is looked at as it is.

        Raises:
            ValueError: it has to be looked at in another way.
        """
        if any(window.view != AS_IT_IS for window in self.windows):
            raise ValueError(f"{self.name} lies in another order: take its windows")
        return tuple(piece for window in self.windows for piece in window.pieces)

    def parts(self, tensor: Array) -> Iterator[tuple[Array, Piece]]:
        """Every piece with the part of the rank's tensor that it is about: a view of it."""
        for window in self.windows:
            seen: Any = window.view.of(tensor)
            for piece in window.pieces:
                yield seen[(*piece.local.slices, ...)], piece  # a view even without dimensions

    def fill(self, tensor: Any) -> None:
        """Put what padding is to hold into a rank's tensor."""
        for window in self.windows:
            seen = window.view.of(tensor)
            for box, value in window.fills:
                seen[(*box.slices, ...)] = value
