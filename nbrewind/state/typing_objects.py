"""What `typing` makes for a notebook to give names to."""

from __future__ import annotations

import sys
import typing
from typing import TYPE_CHECKING, Any

from nbrewind.state.entities import MAIN
from nbrewind.state.references import is_by_reference

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler


def reduce_type_variable(pickler: StatePickler, variable: Any) -> Any:
    """Reduce a `TypeVar`: a library's by name, others by what they were made of."""
    name, where = variable.__name__, variable.__module__
    module = sys.modules.get(where)
    if module is not None and where != MAIN and getattr(module, name, None) is variable:
        return getattr, (module, name)
    options = {"bound": variable.__bound__}
    for option in ("covariant", "contravariant", "infer_variance"):
        if getattr(variable, f"__{option}__", False):
            options[option] = True
    args = (name, variable.__constraints__, options, where)
    return make_type_variable, args


def make_type_variable(
    name: str, constraints: tuple[Any, ...], options: dict[str, Any], module: str
) -> Any:
    """A `TypeVar` of its own."""
    variable: Any = typing.TypeVar(name, *constraints, **options)  # type: ignore[misc]
    variable.__module__ = module
    return variable


def reduce_new_type(pickler: StatePickler, kind: Any) -> Any:
    """Reduce a `NewType`: a library's by name, others by what they were made of."""
    if is_by_reference(kind):
        return NotImplemented
    return typing.NewType, (kind.__name__, kind.__supertype__), dict(vars(kind))
