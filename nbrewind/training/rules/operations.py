"""What layouts do to tensors: the operations of mapping rules.

An operation takes a tensor to what one rank, or one index along the axes of the mesh that the
operation is bound to, has of it. These are their names and arguments; what they do is in
`nbrewind.training.rules.arranging`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

Kind = Literal["integer", "integers", "number", "name", "names", "word"]


def _argument(kind: Kind, default: Any = ..., words: tuple[str, ...] = ()) -> Any:
    metadata = {"kind": kind, "words": words}
    return field(metadata=metadata) if default is ... else field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Operation:
    """Base of all operations; their fields are the arguments of the text form."""

    name: ClassVar[str]
    axes: ClassVar[Literal["needed", "allowed", "none"]] = "none"
    """Whether it is bound to axes of the mesh."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for arguments that make no sense."""


@dataclass(frozen=True)
class Replicate(Operation):
    """Every rank has all of it.

    Attributes:
        check: `exact` compares the copies when they are saved; `none` takes any of them.
    """

    name = "replicate"
    check: str = _argument("word", "none", ("none", "exact"))


@dataclass(frozen=True)
class Shard(Operation):
    """Ranks have consecutive parts along a dimension.

    Attributes:
        dim: The dimension; negative ones count from the end.
        sizes: Lengths by rank; without them as `torch.chunk` divides: equal, the last ones
            shorter or empty.
    """

    name = "shard"
    axes = "needed"
    dim: int = _argument("integer")
    sizes: tuple[int, ...] | None = _argument("integers", None)

    def __post_init__(self) -> None:
        _positive("sizes", self.sizes, least=0)


@dataclass(frozen=True)
class Average(Operation):
    """Ranks have values that differ; what is saved is their mean."""

    name = "average"
    axes = "needed"


@dataclass(frozen=True)
class Fused(Operation):
    """Several tensors one behind the other along a dimension; ranks have a part of each.

    Attributes:
        dim: The dimension.
        parts: Number of tensors of equal length, or
        widths: their lengths, or
        heads: the number of attention heads in each. A head is never divided; if there are
            fewer than ranks, several ranks have the same head (GQA).
    """

    name = "fused"
    axes = "needed"
    dim: int = _argument("integer")
    parts: int | None = _argument("integer", None)
    widths: tuple[int, ...] | None = _argument("integers", None)
    heads: tuple[int, ...] | None = _argument("integers", None)

    def __post_init__(self) -> None:
        if (self.parts, self.widths, self.heads).count(None) != 2:
            raise ValueError("fused needs one of parts, widths and heads")
        if self.parts is not None and self.parts < 1:
            raise ValueError(f"parts is {self.parts}")
        _positive("widths", self.widths, least=0)
        _positive("heads", self.heads)


@dataclass(frozen=True)
class Interleave(Operation):
    """A dimension is cut into `n` blocks, and ranks have a part of each, like cards dealt.

    As `torch.chunk` divides, both times. Right-to-left sharding (FSDP over tensor parallel) is
    of this kind.
    """

    name = "interleave"
    axes = "needed"
    dim: int = _argument("integer")
    n: int = _argument("integer")

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"n is {self.n}")


@dataclass(frozen=True)
class Expert(Operation):
    """Ranks have consecutive experts: along a dimension, or each under a name of its own.

    Attributes:
        dim: The dimension that numbers experts, if a tensor holds many.
        index: Else the place `{…}` of the pattern that is the expert's number on the rank.
        count: Number of experts; needed with `index`.
        layer: The place that is the layer's number, if there are several.
    """

    name = "expert"
    axes = "allowed"
    dim: int | None = _argument("integer", None)
    index: str | None = _argument("name", None)
    count: int | None = _argument("integer", None)
    layer: str | None = _argument("name", None)

    def __post_init__(self) -> None:
        if (self.dim is None) == (self.index is None):
            raise ValueError("expert needs dim, or index and count")
        if self.index is not None and self.count is None:
            raise ValueError("expert with index needs count, the number of experts")
        if self.count is not None and self.count < 1:
            raise ValueError(f"count is {self.count}")


@dataclass(frozen=True)
class Pad(Operation):
    """A dimension is longer than what it means, as of vocabularies; the rest holds `fill`.

    Attributes:
        dim: The dimension.
        logical: Its length without padding.
        to: Its length with padding, or
        multiple: padding goes to the next multiple. Without both, the rank's tensor says it.
        fill: The value there; a rank that loads another length gets it.
    """

    name = "pad"
    dim: int = _argument("integer")
    logical: int | None = _argument("integer", None)
    to: int | None = _argument("integer", None)
    multiple: int | None = _argument("integer", None)
    fill: float = _argument("number", 0)

    def __post_init__(self) -> None:
        if self.to is not None and self.multiple is not None:
            raise ValueError("pad has both to and multiple")
        if self.multiple is not None and self.multiple < 1:
            raise ValueError(f"multiple is {self.multiple}")
        if self.to is not None and self.logical is not None and self.to < self.logical:
            raise ValueError(f"pad to {self.to} is less than logical, {self.logical}")


@dataclass(frozen=True)
class Flat(Operation):
    """Elements in row-major order, in one line, of which ranks have consecutive ranges (ZeRO).

    Attributes:
        order: `each` tensor makes a line of its own; or all tensors of the rule make one, in the
            order in which they are `given` or `sorted` by name, or that of a list of names.
        ranges: Number of elements by rank; else equal ones, the line being padded with zeros.
        align: Ranks' ranges are a multiple of this.
        starts: Tensors of one line begin at multiples of this.
    """

    name = "flat"
    axes = "needed"
    order: str | tuple[str, ...] = _argument("names", "each", ("each", "given", "sorted"))
    ranges: tuple[int, ...] | None = _argument("integers", None)
    align: int = _argument("integer", 1)
    starts: int = _argument("integer", 1)

    def __post_init__(self) -> None:
        if self.align < 1 or self.starts < 1:
            raise ValueError("align and starts are at least 1")
        _positive("ranges", self.ranges, least=0)


@dataclass(frozen=True)
class Alias(Operation):
    """It is another tensor, of which there is one copy (tied weights).

    Attributes:
        of: The other's name; `{…}` stand for what they stand for in the pattern.
    """

    name = "alias"
    of: str = _argument("name")


@dataclass(frozen=True)
class Transpose(Operation):
    """Dimensions are in another order.

    Attributes:
        dims: As of `numpy.transpose`; reversed if there are none.
    """

    name = "transpose"
    dims: tuple[int, ...] | None = _argument("integers", None)

    def __post_init__(self) -> None:
        if self.dims is not None and sorted(self.dims) != [*range(len(self.dims))]:
            raise ValueError(f"dims is {[*self.dims]}, which is no order of 0 to n - 1")


@dataclass(frozen=True)
class PerRank(Operation):
    """Every rank has a value of its own, such as the state of a generator.

    Attributes:
        resize: What a load on another number of ranks does: `keep` gives ranks that there were
            theirs and leaves new ones alone, `derive` has new ranks' values made from saved ones,
            `error` refuses.
    """

    name = "per_rank"
    resize: str = _argument("word", "error", ("keep", "derive", "error"))


OPERATIONS: dict[str, type[Operation]] = {
    each.name: each
    for each in (
        Replicate,
        Shard,
        Average,
        Fused,
        Interleave,
        Expert,
        Pad,
        Flat,
        Alias,
        Transpose,
        PerRank,
    )
}
"""All operations, by name."""

_ALONE = (Replicate, Alias, PerRank)
_LAST = (Flat, Average)


@dataclass(frozen=True)
class Step:
    """An operation, bound to axes of the mesh."""

    operation: Operation
    axes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        name, need = self.operation.name, self.operation.axes
        if need == "needed" and not self.axes:
            raise ValueError(f"{name} needs an axis of the mesh, as in {name}(…) @tp")
        if need == "none" and self.axes:
            raise ValueError(f"{name} is bound to no axis of the mesh")
        if len(set(self.axes)) < len(self.axes):
            raise ValueError(f"{name} is bound twice to one axis")


def check_chain(steps: tuple[Step, ...]) -> None:
    """Raises `ValueError` for operations that cannot follow each other."""
    if not steps:
        raise ValueError("a rule has no operation")
    bound = [axis for step in steps for axis in step.axes]
    for axis in bound:
        if bound.count(axis) > 1:
            raise ValueError(f"two operations are bound to the axis {axis}")
    for number, step in enumerate(steps):
        name = step.operation.name
        if isinstance(step.operation, _ALONE) and len(steps) > 1:
            raise ValueError(f"{name} stands alone")
        following = steps[number + 1 :]
        if isinstance(step.operation, _LAST) and any(
            not isinstance(later.operation, Average) for later in following
        ):
            raise ValueError(f"nothing but average can follow {name}")


def arguments(operation: Operation | type[Operation]) -> dict[str, dict[str, Any]]:
    """What is known of an operation's arguments, in order."""
    return {each.name: dict(each.metadata) for each in fields(operation)}


def _positive(name: str, values: tuple[int, ...] | None, least: int = 1) -> None:
    if values is not None and (not values or min(values) < least):
        raise ValueError(f"{name} is {[*values]}: it needs numbers of at least {least}")
