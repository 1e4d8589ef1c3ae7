"""Objects of single libraries that pickle by themselves, but not quite as what they were."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from nbrewind.errors import NotStorable

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler


def reduce_graph(pickler: StatePickler, graph: Any) -> Any:
    """Reduce a networkx graph without the views it keeps: asking for `edges` is no change.

    A view holds the graph and nothing else, and is made again when it is asked for.
    """
    kind: Any = type(graph)
    if kind.__reduce_ex__ is not object.__reduce_ex__ or kind.__reduce__ is not object.__reduce__:
        return NotImplemented
    function, args, state, *items = graph.__reduce_ex__(5)
    if not isinstance(state, dict):
        return NotImplemented
    kept = {key: value for key, value in state.items() if not _is_view(kind, key)}
    return function, args, kept, *items


def _is_view(kind: type, name: str) -> bool:
    if name == "__networkx_cache__":
        return True
    found = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    module = getattr(getattr(found, "func", None), "__module__", "") or ""
    return isinstance(found, functools.cached_property) and module.startswith("networkx.")


def reduce_of_registry(pickler: StatePickler, quantity: Any) -> Any:
    """Leave a quantity or unit of pint's application registry to pint; refuse others.

    They load into that registry, and cannot be mixed with those of any other.
    """
    registry = sys.modules["pint"].get_application_registry()
    if getattr(registry, "_registry", registry) is not quantity._REGISTRY:
        raise NotStorable("a quantity of a unit registry of its own cannot be stored")
    return NotImplemented


def reduce_struct(pickler: StatePickler, struct: Any) -> Any:
    """Reduce a compiled format of module `struct`."""
    return type(struct), (struct.format,)


def reduce_bunch(pickler: StatePickler, bunch: Any) -> Any:
    """Reduce a table of scikit-learn, whose class ignores the attributes it is given back."""
    function, args, state, *items = bunch.__reduce_ex__(5)
    return function, args, state, *items, *[None] * (2 - len(items)), set_attributes_of


def set_attributes_of(bunch: Any, attributes: dict[str, Any]) -> None:
    """Give an object its attributes back without asking its class."""
    bunch.__dict__.update(attributes)
