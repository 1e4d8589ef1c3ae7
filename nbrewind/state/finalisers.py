"""Objects whose end runs code of the notebook.

`del o` runs `O.__del__`, a `weakref.finalize` or the callback of a weak reference.
Whoever binds or deletes the last name of such an object does what that code does.
"""

from __future__ import annotations

import types
import weakref
from typing import Any

from nbrewind.state.entities import MAIN

CALLBACK = "weakref.callback"
"""Among a value's attributes: something outside the value is called when it ends."""


def called_at_end(value: Any) -> list[Any]:
    """What the end of an object calls of the notebook's: functions, methods, their arguments.

    Libraries keep weak references with callbacks to nearly everything; theirs only forget it.
    """
    if issubclass(type(value), weakref.finalize):  # `isinstance` would ask the object
        return _told(value)
    try:
        references = weakref.getweakrefs(value)
    except TypeError:
        return []
    # A proxy does not tell its callback.
    told = [_told(ref.__callback__) for ref in references if issubclass(type(ref), weakref.ref)]
    return [part for parts in told for part in parts]


def _told(callback: Any) -> list[Any]:
    if issubclass(type(callback), weakref.finalize):
        info = callback.peek()
        parts = [] if info is None else [info[1], *info[2], *info[3].values()]
    else:
        parts = [callback]
    return parts if any(map(_is_of_notebook, parts)) else []


def _is_of_notebook(called: Any) -> bool:
    if isinstance(called, types.BuiltinMethodType):
        return type(called.__self__) in (list, dict, set)
    called = getattr(called, "__func__", called)
    return getattr(called, "__module__", None) == MAIN
