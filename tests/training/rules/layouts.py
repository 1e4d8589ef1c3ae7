"""Layouts in numpy, written apart from the rules: what each rank has of an array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from nbrewind.training.rules import (
    Average,
    Expert,
    Flat,
    Fused,
    Interleave,
    Mapping,
    Mesh,
    Pad,
    Replicate,
    Shard,
    Step,
    Transpose,
)

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Layout:
    mesh: Mesh
    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        return f"{dict(self.mesh.degrees)}: {self.steps}"


def local(array: Array, layout: Layout, coordinates: dict[str, int]) -> Array:
    """What one rank has."""
    for step in layout.steps:
        degree = layout.mesh.degree(step.axes)
        index = layout.mesh.index(step.axes, coordinates)
        array = one(array, step.operation, degree, index)
    return array.copy(order="C")


def chunks(array: Array, degree: int, dim: int) -> list[Array]:
    step = -(-array.shape[dim] // degree)
    return [np.take(array, range(*r), dim) for r in _ranges(array.shape[dim], step, degree)]


def _ranges(length: int, step: int, degree: int) -> list[tuple[int, int]]:
    return [(min(i * step, length), min((i + 1) * step, length)) for i in range(degree)]


def one(array: Array, op: Any, degree: int, index: int) -> Array:
    if isinstance(op, Replicate | Average):
        return array
    if isinstance(op, Transpose):
        return np.transpose(array, op.dims)
    if isinstance(op, Shard):
        if op.sizes is not None:
            return np.split(array, np.cumsum(op.sizes)[:-1], op.dim)[index]
        return chunks(array, degree, op.dim)[index]
    if isinstance(op, Expert):
        assert op.dim is not None
        return chunks(array, degree, op.dim)[index]
    if isinstance(op, Interleave):
        blocks = chunks(array, op.n, op.dim)
        return np.concatenate([chunks(b, degree, op.dim)[index] for b in blocks], op.dim)
    if isinstance(op, Fused):
        if op.heads is not None:
            width = array.shape[op.dim] // sum(op.heads)
            heads = [
                np.take(array, range(h * width, (h + 1) * width), op.dim)
                for h in range(sum(op.heads))
            ]
            own = []
            for count in op.heads:
                part, heads = heads[:count], heads[count:]
                if count < degree:
                    part = [head for head in part for _ in range(degree // count)]
                step = -(-len(part) // degree)
                own += part[index * step : (index + 1) * step]
            return np.concatenate([*own, np.take(array, [], op.dim)], op.dim)
        widths = op.widths or [array.shape[op.dim] // op.parts] * op.parts
        parts = np.split(array, np.cumsum(widths)[:-1], op.dim)
        return np.concatenate([chunks(p, degree, op.dim)[index] for p in parts], op.dim)
    if isinstance(op, Pad):
        length = array.shape[op.dim]
        to = op.to if op.to is not None else -(-length // op.multiple) * op.multiple
        widths = [(0, 0)] * array.ndim
        widths[op.dim] = (0, to - length)
        return np.pad(array, widths, constant_values=op.fill)
    if isinstance(op, Flat):
        line = array.reshape(-1)
        if op.ranges is not None:
            cuts = [*np.cumsum(op.ranges)]
            line = np.pad(line, (0, cuts[-1] - len(line)))
            return np.split(line, cuts[:-1])[index]
        unit = degree * op.align
        line = np.pad(line, (0, -len(line) % unit))
        return np.split(line, degree)[index]
    raise AssertionError(op)


def assembled(shape: tuple[int, ...], saved: Sequence[tuple[Mapping, Array]]) -> Array:
    """The logical array out of what ranks have, through pieces."""
    whole = np.full(shape, np.nan)
    for mapping, array in saved:
        for part, piece in mapping.parts(array):
            before = whole[piece.whole.slices]
            assert np.all(np.isnan(before) | (before == part)), "ranks disagree"
            whole[piece.whole.slices] = part
    return whole


@st.composite
def layouts(draw: st.DrawFn, shape: tuple[int, ...]) -> Layout:
    """Any chain of operations that fits a shape."""
    axes = draw(st.permutations(["dp", "tp", "cp"]))[: draw(st.integers(0, 3))]
    mesh = Mesh({axis: draw(st.integers(1, 4 if len(axes) < 3 else 2)) for axis in axes})
    lengths: list[int | None] = [*shape]
    steps: list[Step] = []
    if shape and draw(st.booleans()):
        dim = draw(st.integers(0, len(shape) - 1))
        to = shape[dim] + draw(st.integers(0, 3))
        given = draw(st.sampled_from([{"to": to}, {"multiple": draw(st.integers(1, 4))}]))
        pad = Pad(dim, fill=draw(st.sampled_from([0.0, -1.5])), **given)
        lengths[dim] = one(np.empty(shape), pad, 1, 0).shape[dim]
        steps.append(Step(pad))
    if draw(st.booleans()):
        order = tuple(draw(st.permutations(range(len(shape)))))
        lengths = [lengths[dim] for dim in order]
        steps.append(Step(Transpose(order)))
    ways = list(axes)
    while ways:
        several = tuple(ways.pop() for _ in range(draw(st.integers(1, len(ways)))))
        if not shape or draw(st.integers(0, 4)) == 0:
            continue  # copies
        dim = draw(st.integers(0, len(shape) - 1))
        operation = draw(_along(dim, lengths[dim], mesh.degree(several)))
        signed = dim - len(shape) if draw(st.booleans()) else dim
        steps.append(Step(type(operation)(**{**vars(operation), "dim": signed}), several))
        lengths[dim] = None  # of another length on each rank
    free = [axis for axis in axes if axis not in {a for step in steps for a in step.axes}]
    if free and draw(st.booleans()):
        steps.append(Step(draw(_flat(shape, steps, mesh, free)), tuple(free)))
    return Layout(mesh, tuple(steps) or (Step(Replicate()),))


@st.composite
def _along(draw: st.DrawFn, dim: int, length: int | None, degree: int) -> Any:
    choices: list[st.SearchStrategy[Any]] = [
        st.just(Shard(dim)),
        st.builds(Interleave, st.just(dim), st.integers(1, 4)),
    ]
    if length is not None:
        choices += [
            st.builds(lambda s: Shard(dim, s), _sizes(length, degree)),
            st.builds(lambda w: Fused(dim, widths=w), _sizes(length, draw(st.integers(1, 4)))),
            st.just(Expert(dim)),
        ]
        even = [n for n in range(1, 5) if length % n == 0]
        choices.append(st.builds(lambda n: Fused(dim, parts=n), st.sampled_from(even)))
        heads = [
            (q, kv, kv)
            for kv in range(1, 5)
            for q in range(1, 9)
            if length and length % (q + 2 * kv) == 0
            if all(n >= degree or degree % n == 0 for n in (q, kv))
        ]
        if heads:
            choices.append(st.builds(lambda h: Fused(dim, heads=h), st.sampled_from(heads)))
    return draw(st.one_of(choices))


@st.composite
def _sizes(draw: st.DrawFn, total: int, number: int) -> tuple[int, ...]:
    cuts = sorted(draw(st.lists(st.integers(0, total), min_size=number - 1, max_size=number - 1)))
    return tuple(b - a for a, b in zip([0, *cuts], [*cuts, total], strict=True))


@st.composite
def _flat(
    draw: st.DrawFn, shape: tuple[int, ...], steps: list[Step], mesh: Mesh, axes: list[str]
) -> Flat:
    if any(step.axes for step in steps) or draw(st.booleans()):
        return Flat(align=draw(st.integers(1, 3)))
    total = np.empty(shape)
    for step in steps:
        total = one(total, step.operation, 1, 0)
    return Flat(ranges=draw(_sizes(total.size + draw(st.integers(0, 3)), mesh.degree(axes))))
