"""Checkpoints of other formats as logical tensors, read piece by piece.

A source knows names, shapes and types of all tensors at once; their elements are read when they
are asked for, one part of a file at a time. So a conversion needs memory for one part, or for one
tensor, however large the checkpoint is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from nbrewind.errors import CheckpointError
from nbrewind.training.boxes import Box, uncovered
from nbrewind.training.rules.mappings import Shape
from nbrewind.training.trees import join, with_leaves


@dataclass(frozen=True, slots=True)
class LogicalPart:
    """A box of a logical tensor that can be read."""

    box: Box
    read: Callable[[], torch.Tensor]
    """Its elements, in the shape of the box; may be a view of a mapped file."""


@dataclass(frozen=True)
class LogicalTensor:
    """A tensor of no layout, in parts."""

    shape: Shape
    dtype: torch.dtype
    parts: tuple[LogicalPart, ...]

    @classmethod
    def of(cls, tensor: torch.Tensor) -> LogicalTensor:
        """One that is there already.

        Raises:
            CheckpointError: it is sparse, or quantized by torch's old types.
        """
        if tensor.layout is not torch.strided or tensor.is_quantized:
            kind = tensor.dtype if tensor.is_quantized else tensor.layout
            raise CheckpointError(f"a tensor of {kind} has no place in logical tensors")
        shape, plain = tuple(tensor.shape), tensor.resolve_conj().resolve_neg()
        return cls(shape, tensor.dtype, (LogicalPart(Box.whole(shape), lambda: plain),))

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return Box.whole(self.shape).size * self.dtype.itemsize

    def read(self) -> torch.Tensor:
        """All of it: a new tensor, or a view of a mapped file that must not be changed.

        Raises:
            CheckpointError: parts are missing, or a file is damaged.
        """
        whole = Box.whole(self.shape)
        if len(self.parts) == 1 and self.parts[0].box == whole:
            return self._checked(self.parts[0])
        missing = uncovered(whole, (part.box for part in self.parts))
        if missing:
            raise CheckpointError(f"no part holds {missing[0]} of a tensor of shape {self.shape}")
        found = torch.empty(self.shape, dtype=self.dtype)
        for part in self.parts:
            found[part.box.slices] = self._checked(part)
        return found

    def _checked(self, part: LogicalPart) -> torch.Tensor:
        found = part.read()
        if tuple(found.shape) != part.box.lengths or found.dtype != self.dtype:
            raise CheckpointError(
                f"a part of a tensor is {found.dtype} of shape {tuple(found.shape)}, expected "
                f"{self.dtype} of shape {part.box.lengths}"
            )
        return found


@dataclass(frozen=True)
class Source:
    """A checkpoint of any format."""

    tree: Any
    """Nested containers; tensors are `LogicalTensor`."""
    format: str = ""
    """What it was read from, such as `safetensors`."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What else the format says: plain values."""
    close: Callable[[], None] = lambda: None
    """Release files; tensors cannot be read after that."""

    @cached_property
    def tensors(self) -> dict[str, LogicalTensor]:
        """All tensors, by the keys on the way to them, joined by dots.

        Raises:
            CheckpointError: two tensors have the same name, or one has none.
        """
        if isinstance(self.tree, LogicalTensor):
            raise CheckpointError("the checkpoint is a tensor without a name")
        found: dict[str, LogicalTensor] = {}
        for keys, value in leaves(self.tree):
            if isinstance(value, LogicalTensor):
                if join(keys) in found:
                    raise CheckpointError(f"two tensors are called {join(keys)}")
                found[join(keys)] = value
        return found

    @property
    def values(self) -> dict[str, Any]:
        """Everything that is no tensor, by the keys on the way to it."""
        return {
            join(keys): value
            for keys, value in leaves(self.tree)
            if not isinstance(value, LogicalTensor)
        }

    def part(self, *keys: Any) -> Source:
        """What is below some keys, such as the model only.

        Raises:
            CheckpointError: there is no such key.
        """
        tree = self.tree
        for number, key in enumerate(keys):
            if not isinstance(tree, Mapping) or key not in tree:
                above = join(keys[:number]) or "the checkpoint"
                known = [*map(str, tree)][:12] if isinstance(tree, Mapping) else []
                raise CheckpointError(
                    f"there is no {key} in {above}"
                    + (f": it has {', '.join(known)}" if known else "")
                )
            tree = tree[key]
        return Source(tree, self.format, self.notes, self.close)

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def leaves(tree: Any, keys: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every leaf of nested containers, with the keys on the way."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from leaves(value, (*keys, key))
    elif isinstance(tree, list | tuple):
        for number, value in enumerate(tree):
            yield from leaves(value, (*keys, number))
    else:
        yield keys, tree


def loaded(tree: Any) -> Any:
    """A tree with all tensors read."""
    return with_leaves(tree, lambda tensor, _: tensor.read(), LogicalTensor)


def logical(tree: Any) -> Any:
    """A tree with a `LogicalTensor` in place of each tensor; containers are new.

    Raises:
        CheckpointError: a tensor is sparse or quantized; the message names it.
    """

    def one(tensor: torch.Tensor, name: str) -> LogicalTensor:
        try:
            return LogicalTensor.of(tensor.detach())
        except CheckpointError as exc:
            raise CheckpointError(f"{name}: {exc}") from exc

    return with_leaves(tree, one, torch.Tensor)


def rejoined(shape: Shape, dtype: torch.dtype, parts: Iterable[LogicalPart]) -> LogicalTensor:
    """A tensor of parts that must cover it.

    Raises:
        CheckpointError: they do not.
    """
    every = tuple(parts)
    missing = uncovered(Box.whole(shape), (part.box for part in every))
    if missing:
        raise CheckpointError(f"no part holds {missing[0]} of a tensor of shape {shape}")
    return LogicalTensor(shape, dtype, every)
