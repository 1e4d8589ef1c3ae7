"""Objects that are found where their name says: they are stored as that name."""

from __future__ import annotations

import contextlib
import sys
import weakref
from typing import Any

from nbrewind.state.entities import MAIN

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
