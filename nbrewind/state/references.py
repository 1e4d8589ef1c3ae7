"""Objects that are found where their name says: they are stored as that name."""

from __future__ import annotations

import contextlib
import sys
import types
import weakref
from typing import TYPE_CHECKING, Any

from nbrewind.state.entities import MAIN

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler

_references: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


def is_by_reference(obj: Any) -> bool:
    """Whether importing `__module__` and following `__qualname__` leads to `obj` itself."""
    if obj.__module__ == MAIN:
        return False  # and looking along the way would ask descriptors of the notebook
    try:
        known = _references.get(obj)
    except Exception:  # a metaclass that hashes and compares its classes in its own way
        known = None
    if known is not None:
        return known
    found: Any = sys.modules.get(obj.__module__ or "")
    try:
        for part in obj.__qualname__.split("."):
            found = getattr(found, part)
    except Exception:
        found = None
    answer = found is obj
    if answer:
        with contextlib.suppress(Exception):
            _references[obj] = True
    return answer


def reduce_sentinel(pickler: StatePickler, sentinel: object) -> Any:
    """Reduce a bare `object()`: one that a module has a name for is told apart by identity."""
    if len(sys.modules) != _sentinels_of[0]:
        _sentinels.clear()
        _sentinels.update(_named_sentinels())
        _sentinels_of[0] = len(sys.modules)
    module, name, known = _sentinels.get(id(sentinel), (None, "", None))
    return (getattr, (module, name)) if known is sentinel else NotImplemented


_sentinels: dict[int, tuple[Any, str, object]] = {}
"""Bare objects that are globals of modules, by id, with the module and the name."""
_sentinels_of = [0]
"""For how many imported modules `_sentinels` was filled."""


def _named_sentinels() -> dict[int, tuple[Any, str, object]]:
    return {
        id(value): (module, name, value)
        for key, module in list(sys.modules.items())
        if isinstance(module, types.ModuleType) and key != MAIN
        for name, value in list(vars(module).items())
        if type(value) is object
    }
