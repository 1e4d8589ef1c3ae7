"""Views of mappings: they show what the mapping holds, now and after it has changed.

Pickle, and those who extend it, copy what is in a view; the copy would not follow the mapping.
"""

from __future__ import annotations

import gc
import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nbrewind.errors import NotStorable

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler

VIEWS = tuple(
    f"{kind}_{part}" for kind in ("dict", "odict") for part in ("keys", "values", "items")
)
"""Names of the types that `reduce_view` reduces."""
_DICTIONARIES = ("builtins", "collections")


def reduce_view(pickler: StatePickler, view: Any) -> Any:
    """Reduce the keys, values or items of a dictionary to the dictionary."""
    (mapping,) = gc.get_referents(view)
    return make_view, (mapping, type(view).__name__.rpartition("_")[2])


def make_view(mapping: Any, method: str) -> Any:
    """The keys, values or items of a dictionary, whatever a subclass makes of these methods."""
    base = next(kind for kind in type(mapping).__mro__ if kind.__module__ in _DICTIONARIES)
    return getattr(base, method)(mapping)


def reduce_proxy(pickler: StatePickler, proxy: types.MappingProxyType[Any, Any]) -> Any:
    """Reduce a read-only proxy of a mapping to the mapping; that of a class is the class's."""
    (mapping,) = gc.get_referents(proxy)
    if not isinstance(mapping, Mapping) or {"__module__", "__doc__"} <= mapping.keys():
        raise NotStorable("the attributes of a class cannot be stored apart from it")
    return types.MappingProxyType, (mapping,)
