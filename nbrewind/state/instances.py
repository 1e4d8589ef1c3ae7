"""Instances whose class would run code of the notebook while they are loaded.

Loading must bring the object back, not make another one: a `__new__` that converts or counts
has run already, and `__getattr__` must not be asked by the unpickler about an object that has
no attributes yet.
"""

from __future__ import annotations

import copyreg
import dataclasses
import sys
from typing import Any

from nbrewind.state.entities import is_notebook_class

HEAP_TYPE = 1 << 9
"""Flag of classes that were made by a `class` statement, or as if by one."""

LIBRARY_FILES = (dataclasses.__file__.rsplit("/", 1)[0], "<string>")
"""How the files of code start that the standard library wrote or generated."""

_METHODS = ("__new__", "__init__", "__getattr__", "__getattribute__", "__setattr__")
_FILLERS = ("__setitem__", "append", "extend")


def runs_code_when_loaded(kind: type) -> bool:
    """Whether plain pickle would call methods of the notebook to load an instance."""
    # Only subclasses of built-in types are made by calling the class.
    base = built_in_base(kind)
    called = _METHODS if base is not object else tuple(m for m in _METHODS if m != "__init__")
    return any(
        _is_own(cls.__dict__.get(method))
        for cls in kind.__mro__
        if is_notebook_class(cls)
        for method in (*called, *_FILLERS)
    )


def _is_own(method: Any) -> bool:
    code = getattr(getattr(method, "__func__", method), "__code__", None)
    return code is not None and not code.co_filename.startswith(LIBRARY_FILES)


def reduce_instance(kind: type, obj: Any) -> Any:
    """Reduce an instance so that nothing of its class runs when it is loaded."""
    if isinstance(obj, tuple):
        state = getattr(obj, "__dict__", None) or None
        return (make_instance, (kind, tuple(obj)), (state, (), ()), None, None, set_instance_state)
    make, args, *rest = obj.__reduce_ex__(5)
    state, items, pairs = (*rest, None, None, None)[:3]
    if make is copyreg.__newobj__:  # type: ignore[attr-defined]
        make = make_instance
    elif make is kind:
        make, args = make_initialised, (kind, *args)
    else:
        return (make, args, *rest)
    contents = (state, list(items or ()), list(pairs or ()))
    return (make, args, contents, None, None, set_instance_state)


def built_in_base(cls: type) -> Any:
    """The class written in C that makes the instances of `cls` if none of its Python code does."""
    return next(base for base in cls.__mro__ if not base.__flags__ & HEAP_TYPE)


def make_instance(cls: type, *args: Any) -> Any:
    """An instance without state, past any `__new__` of the notebook."""
    return built_in_base(cls).__new__(cls, *args)


def make_initialised(cls: type, *args: Any) -> Any:
    """An instance as its built-in base makes it, past any `__init__` of the notebook."""
    base = built_in_base(cls)
    made = base.__new__(cls, *args)
    if base.__init__ is not object.__init__:
        base.__init__(made, *args)
    return made


def set_instance_state(obj: Any, contents: Any) -> None:
    """Give an instance its attributes and items, past what the notebook's class does with such."""
    state, items, pairs = contents
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    if attributes:
        space = object.__getattribute__(obj, "__dict__")
        for name, value in attributes.items():
            space[sys.intern(name) if type(name) is str else name] = value
    for name, value in (slots or {}).items():
        object.__setattr__(obj, name, value)
    base = built_in_base(type(obj))
    if items:
        base.extend(obj, items)
    for key, value in pairs:
        base.__setitem__(obj, key, value)
