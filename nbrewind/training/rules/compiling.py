"""From a rule and the shape of a tensor to a mapping.

A chain of operations is followed from the logical tensor to the rank's one. On the way it is a
list of boxes of the tensor as it is so far, each with the box of the logical tensor that it
holds, or with the value of padding. Dimensions stay in the order of the logical tensor
throughout; a transposition only changes what later operations call them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass, field
from math import prod

from nbrewind.training.boxes import Box, Piece
from nbrewind.training.rules.arranging import is_along_dimension, spans, whole_length
from nbrewind.training.rules.lines import range_boxes, rank_range
from nbrewind.training.rules.mappings import AS_IT_IS, Mapping, Shape, View, Window
from nbrewind.training.rules.meshes import Mesh
from nbrewind.training.rules.operations import (
    Average,
    Flat,
    Operation,
    Pad,
    PerRank,
    Replicate,
    Step,
    Transpose,
)


@dataclass(frozen=True)
class Line:
    """Where a tensor lies in the line that several make."""

    start: int
    total: int


@dataclass
class _Tensor:
    """The tensor as it is after some operations."""

    lengths: list[int]
    """By dimension of the logical tensor."""
    held: list[tuple[Box, Box | float]]
    """Boxes of it, and what each holds: a box of the logical tensor, or padding."""
    order: tuple[int, ...]
    """The logical dimension that each of its dimensions is."""
    windows: list[Window] | None = None
    """Once it lies in a line."""
    local_shape: Shape = ()
    place: tuple[int, int] | None = None
    averaged: list[str] = field(default_factory=list)

    @classmethod
    def logical(cls, shape: Shape) -> _Tensor:
        whole = Box.whole(shape)
        held: list[tuple[Box, Box | float]] = [(whole, whole)] if whole.size else []
        return cls([*shape], held, tuple(range(len(shape))))

    @property
    def shape(self) -> Shape:
        return tuple(self.lengths[dim] for dim in self.order)

    def dimension(self, dim: int) -> int:
        """The logical dimension that an operation means."""
        if not -len(self.order) <= dim < len(self.order):
            raise ValueError(f"there is no dimension {dim} in a tensor of shape {self.shape}")
        return self.order[dim]


def compile_steps(
    steps: Sequence[Step],
    name: str,
    shape: Shape,
    mesh: Mesh,
    coordinates: Dictionary[str, int],
    *,
    local: Shape | None = None,
    line: Line | None = None,
) -> Mapping:
    """The mapping of one tensor on one rank.

    Args:
        steps: Of the rule; `alias` and numbered experts were resolved.
        name: Of the logical tensor.
        shape: Of the logical tensor.
        mesh: All ranks.
        coordinates: Where the rank is.
        local: Shape of the rank's tensor, if it is known: it is compared.
        line: If several tensors make a line.

    Raises:
        ValueError: the rule does not fit the shape.
    """
    if isinstance(steps[0].operation, PerRank):
        return _per_rank(steps[0].operation, name, shape, mesh, coordinates, local)
    padded = _padded(steps, mesh, local)
    tensor = _Tensor.logical(shape)
    bound: set[str] = set()
    for number, step in enumerate(steps):
        degree, index = mesh.degree(step.axes), mesh.index(step.axes, coordinates)
        bound.update(step.axes)
        operation = step.operation
        if is_along_dimension(operation):
            assert operation.dim is not None
            _select(tensor, tensor.dimension(operation.dim), operation, degree, index)
        elif isinstance(operation, Pad):
            _pad(tensor, operation, padded.get(number))
        elif isinstance(operation, Transpose):
            _transpose(tensor, operation)
        elif isinstance(operation, Flat):
            _flatten(tensor, operation, degree, index, line)
        elif isinstance(operation, Average):
            tensor.averaged += step.axes
    windows, local_shape = _finished(tensor)
    if local is not None and local != local_shape:
        raise ValueError(
            f"of the shape {shape} the rule gives this rank {local_shape}, but it has {local}"
        )
    first = steps[0].operation
    return Mapping(
        name=name,
        shape=shape,
        local_shape=local_shape,
        windows=windows,
        copies=tuple(a for a, n in mesh.degrees.items() if a not in bound and n > 1),
        averaged=tuple(tensor.averaged),
        check=isinstance(first, Replicate) and first.check == "exact",
        place=tensor.place[0] if tensor.place else None,
        line=tensor.place[1] if tensor.place else None,
    )


def logical_shape(steps: Sequence[Step], mesh: Mesh, shapes: Sequence[Shape]) -> Shape:
    """The shape of the logical tensor that ranks have parts of.

    Args:
        steps: Of the rule.
        mesh: All ranks.
        shapes: What each rank has, in the order of ranks.

    Raises:
        ValueError: it cannot be told, or no tensor gives these parts.
    """
    if len(shapes) != mesh.size:
        raise ValueError(f"there are {len(shapes)} shapes for {mesh.size} ranks")
    return _before(steps, 0, mesh, dict.fromkeys(mesh.degrees, 0), _by_place(mesh, shapes))


def _by_place(mesh: Mesh, shapes: Sequence[Shape]) -> Callable[[Dictionary[str, int]], Shape]:
    axes = tuple(mesh.degrees)
    return lambda coordinates: shapes[mesh.index(axes, coordinates)]


def _before(
    steps: Sequence[Step],
    number: int,
    mesh: Mesh,
    coordinates: dict[str, int],
    local: Callable[[Dictionary[str, int]], Shape],
) -> Shape:
    """The shape before a step, from those that ranks have in the end."""
    if number == len(steps):
        return local(coordinates)
    step = steps[number]

    def after(place: dict[str, int]) -> Shape:
        return _before(steps, number + 1, mesh, place, local)

    operation = step.operation
    if isinstance(operation, Flat):
        raise ValueError("a line does not tell the shape of its tensors: it has to be given")
    if isinstance(operation, PerRank):
        return (mesh.size, *after(coordinates))
    if is_along_dimension(operation):
        every = [after({**coordinates, **p}) for p in _places(mesh, step.axes)]
        return _joined(operation.dim or 0, every, lambda n: whole_length(operation, n))
    shape = after(coordinates)
    if isinstance(operation, Transpose):
        order = operation.dims or tuple(reversed(range(len(shape))))
        return tuple(shape[order.index(dim)] for dim in range(len(shape)))
    if isinstance(operation, Pad):
        if operation.logical is None:
            raise ValueError("the length without padding is not known: give pad logical=")
        return _joined(operation.dim, [shape], lambda _: operation.logical or 0)
    return shape


def _joined(dim: int, shapes: Sequence[Shape], length: Callable[[Sequence[int]], int]) -> Shape:
    first = shapes[0]
    if not -len(first) <= dim < len(first):
        raise ValueError(f"there is no dimension {dim} in a tensor of shape {first}")
    dim %= len(first)
    for shape in shapes:
        if len(shape) != len(first) or any(
            a != b for at, (a, b) in enumerate(zip(shape, first, strict=True)) if at != dim
        ):
            raise ValueError(f"the parts {first} and {shape} do not fit along dimension {dim}")
    return (*first[:dim], length([shape[dim] for shape in shapes]), *first[dim + 1 :])


def _places(mesh: Mesh, axes: Sequence[str]) -> list[dict[str, int]]:
    return [*Mesh({axis: mesh.degrees[axis] for axis in axes}).coordinates()]


def _padded(steps: Sequence[Step], mesh: Mesh, local: Shape | None) -> dict[int, int]:
    """Lengths that padding goes to, by step, where only the rank's shape tells them."""
    if local is None or isinstance(steps[-1].operation, Flat):
        return {}
    found = {}
    for number, step in enumerate(steps):
        pad = step.operation
        if isinstance(pad, Pad) and pad.to is None and pad.multiple is None:
            origin = dict.fromkeys(mesh.degrees, 0)
            after = _before(steps, number + 1, mesh, origin, lambda _: local)
            found[number] = after[pad.dim]
    return found


def _select(tensor: _Tensor, dim: int, operation: Operation, degree: int, index: int) -> None:
    """Keep what one index has of a dimension."""
    assert is_along_dimension(operation)
    kept: list[tuple[Box, Box | float]] = []
    at = 0
    for start, length in spans(operation, tensor.lengths[dim], degree, index):
        offsets = [0] * len(tensor.lengths)
        offsets[dim] = start
        lengths = [*tensor.lengths]
        lengths[dim] = length
        shift = [0] * len(offsets)
        shift[dim] = at - start
        for box, source in tensor.held:
            common = box & Box(tuple(offsets), tuple(lengths))
            if common is not None:
                kept.append((common.moved(shift), _part(box, source, common)))
        at += length
    tensor.lengths[dim] = at
    tensor.held = kept


def _part(box: Box, source: Box | float, common: Box) -> Box | float:
    if isinstance(source, Box):
        return common.seen_from(box).moved(source.offsets)
    return source


def _pad(tensor: _Tensor, pad: Pad, known: int | None) -> None:
    dim = tensor.dimension(pad.dim)
    length = tensor.lengths[dim]
    if pad.logical is not None and pad.logical != length:
        raise ValueError(f"dimension {pad.dim} has {length} without padding, not {pad.logical}")
    if pad.multiple is not None:
        known = -(-length // pad.multiple) * pad.multiple
    elif pad.to is not None:
        known = pad.to
    if known is None:
        raise ValueError("give pad to= or multiple=, or the shape of the rank's tensor")
    if known < length:
        raise ValueError(f"a dimension of {length} cannot be padded to {known}")
    offsets = [0] * len(tensor.lengths)
    offsets[dim] = length
    lengths = [*tensor.lengths]
    lengths[dim] = known - length
    tensor.lengths[dim] = known
    padding = Box(tuple(offsets), tuple(lengths))
    if padding.size:
        tensor.held.append((padding, pad.fill))


def _transpose(tensor: _Tensor, transpose: Transpose) -> None:
    dims = transpose.dims or tuple(reversed(range(len(tensor.order))))
    if len(dims) != len(tensor.order):
        raise ValueError(f"dims has {len(dims)} dimensions, the tensor {len(tensor.order)}")
    tensor.order = tuple(tensor.order[dim] for dim in dims)


def _inverse(order: tuple[int, ...]) -> tuple[int, ...] | None:
    """The order that undoes one; None if there is nothing to undo."""
    if order == tuple(range(len(order))):
        return None
    return tuple(order.index(dim) for dim in range(len(order)))


def _flatten(tensor: _Tensor, flat: Flat, degree: int, index: int, line: Line | None) -> None:
    shape = tensor.shape
    size = prod(shape)
    at, total = (line.start, line.total) if line else (0, size)
    first, stop = rank_range(flat, total, degree, index)
    start = max(first, at) - at
    end = min(stop, at + size) - at
    undo = _inverse(tensor.order)
    windows = []
    place = 0
    for box in range_boxes(shape, start, end):
        seen = _logical_order(box, tensor.order)
        view = View(start=place, shape=box.lengths, order=undo)
        windows.append(_window(_within(tensor.held, seen), view))
        place += box.size
    length = max(end - start, 0)
    if line is None and stop - first > length:
        tail = Box((0,), (stop - first - length,))
        windows.append(Window((), ((tail, 0),), View(start=length, shape=tail.lengths)))
        length = stop - first
    if line is not None:
        tensor.place = (max(start + at - first, 0) if length else 0, stop - first)
    tensor.windows, tensor.local_shape = windows, (length,)


def _logical_order(box: Box, order: tuple[int, ...]) -> Box:
    offsets, lengths = [0] * len(order), [0] * len(order)
    for at, dim in enumerate(order):
        offsets[dim], lengths[dim] = box.offsets[at], box.lengths[at]
    return Box(tuple(offsets), tuple(lengths))


def _within(held: list[tuple[Box, Box | float]], seen: Box) -> list[tuple[Box, Box | float]]:
    found: list[tuple[Box, Box | float]] = []
    for box, source in held:
        common = box & seen
        if common is not None:
            found.append((common.seen_from(seen), _part(box, source, common)))
    return found


def _window(held: Sequence[tuple[Box, Box | float]], view: View) -> Window:
    pieces = tuple(Piece(box, source) for box, source in held if isinstance(source, Box))
    fills = tuple((box, source) for box, source in held if not isinstance(source, Box))
    return Window(pieces, fills, view)


def _finished(tensor: _Tensor) -> tuple[tuple[Window, ...], Shape]:
    if tensor.windows is not None:
        return tuple(tensor.windows), tensor.local_shape
    undo = _inverse(tensor.order)
    view = AS_IT_IS if undo is None else View(order=undo)
    window = _window(tensor.held, view)
    return ((window,) if tensor.held else ()), tensor.shape


def _per_rank(
    rule: PerRank,
    name: str,
    shape: Shape,
    mesh: Mesh,
    coordinates: Dictionary[str, int],
    local: Shape | None,
) -> Mapping:
    """One after the other along a new first dimension."""
    if not shape:
        raise ValueError("values by rank have a dimension for ranks")
    saved, own = shape[0], shape[1:]
    rank = mesh.index(tuple(mesh.degrees), coordinates)
    if local is not None and local != own:
        raise ValueError(f"ranks had {own}, this one has {local}")
    if rule.resize == "error" and saved != mesh.size:
        raise ValueError(
            f"{saved} ranks had a value of their own, here are {mesh.size}: only resize=keep or "
            "resize=derive can load it"
        )
    derived = rule.resize == "derive" and rank >= saved > 0
    source = rank % saved if derived else rank
    windows: tuple[Window, ...] = ()
    view = Box.whole((1, *own))
    if source < saved and view.size:
        windows = (
            Window((Piece(view, view.moved((source, *(0,) * len(own)))),), (), View(stacked=True)),
        )
    return Mapping(
        name=name,
        shape=shape,
        local_shape=own,
        windows=windows,
        own=True,
        derived=derived,
    )
