"""What functions and classes of a module keep from call to call, besides their code.

Functions keep attributes, mutable defaults and what their closures hold; classes keep
attributes that are data or were put there by somebody else, and have methods. Their code
is versioned by its source.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Mapping
from typing import Any

from nbrewind.state.entities import MAIN
from nbrewind.state.mutability import ATOMS

Kept = dict[str, Any]
"""`attributes`, `__defaults__`, `__kwdefaults__` and `closure` of a function; `attributes` of a
class; `inner`: by name, what functions in it keep. Parts that hold nothing are left out."""

_PRIVATE = frozenset({"_abc_impl", "_abc_registry", "_abc_cache"})
_DEFAULTS = ("__defaults__", "__kwdefaults__")

_class_space = type.__dict__["__dict__"].__get__
"""The namespace of a class, past what its metaclass says."""


def kept_by(code: Any) -> Kept:
    """What a function, what a decorator made of it, or a class keeps."""
    return _of_class(code, set()) if _is_class(code) else _of_function(code, set())


def put_into(code: Any, kept: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Have a function or class keep something else.

    Args:
        code: the function, what a decorator made of it, or the class.
        kept: what it is to keep.
        now: what it keeps now, as far as that may be replaced.
    """
    gone = now.get("attributes", {}).keys() - kept.get("attributes", {}).keys()
    parts = _parts(code)
    if _is_class(code):
        for name in gone:
            type.__delattr__(code, name)
        for name, value in kept.get("attributes", {}).items():
            if _class_space(code).get(name, kept) is not value:
                type.__setattr__(code, name, value)
    else:
        own = attributes(code)
        for name in gone:
            own.pop(name, None)
        own.update(kept.get("attributes", {}))
    if isinstance(code, types.FunctionType):
        for name in _DEFAULTS:
            if name in kept:
                setattr(code, name, kept[name])
        for name, cell in _cells(code).items():
            if name in kept.get("closure", {}):
                cell.cell_contents = kept["closure"][name]
    inner, inner_now = kept.get("inner", {}), now.get("inner", {})
    for name in inner.keys() | inner_now.keys():
        if name in parts:
            put_into(parts[name], inner.get(name, {}), inner_now.get(name, {}))


def attributes(value: Any) -> dict[str, Any]:
    """The attributes of an instance or function, past what its class says."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def _is_class(value: Any) -> bool:
    return issubclass(type(value), type)


def _of_function(value: Any, seen: set[int]) -> Kept:
    seen.add(id(value))
    kept: Kept = {}
    found = {name: part for name, part in attributes(value).items() if not _is_code(part)}
    if found:
        kept["attributes"] = found
    if isinstance(value, types.FunctionType):
        for name in _DEFAULTS:
            default = getattr(value, name)
            values = default.values() if isinstance(default, dict) else default or ()
            if not all(type(v) in ATOMS for v in values):
                kept[name] = default
        closure = {name: cell.cell_contents for name, cell in _cells(value).items()}
        closure = {name: part for name, part in closure.items() if not _is_code(part)}
        if closure:
            kept["closure"] = closure
    return _with_inner(kept, value, seen)


def _of_class(cls: type, seen: set[int]) -> Kept:
    seen.add(id(cls))
    if issubclass(type(cls), enum.EnumMeta):
        return {}
    found = {
        key: value
        for key, value in list(_class_space(cls).items())
        if not is_dunder(key) and key not in _PRIVATE and not _is_code_of(cls, value)
    }
    return _with_inner({"attributes": found} if found else {}, cls, seen)


def _with_inner(kept: Kept, code: Any, seen: set[int]) -> Kept:
    inner: dict[str, Kept] = {}
    for name, part in _parts(code).items():
        if id(part) not in seen and not _is_class(part) and (found := _of_function(part, seen)):
            inner[name] = found
    return kept | ({"inner": inner} if inner else {})


def _parts(code: Any) -> dict[str, Any]:
    """Code within code, by name: methods, attributes, and in brackets what closures hold."""
    if _is_class(code):
        methods = {
            name: _function_of(value)
            for name, value in list(_class_space(code).items())
            if _is_code_of(code, value)
        }
        return {name: f for name, f in methods.items() if isinstance(f, types.FunctionType)}
    found = {name: part for name, part in attributes(code).items() if _is_code(part)}
    if isinstance(code, types.FunctionType):
        held = {f"({name})": cell.cell_contents for name, cell in _cells(code).items()}
        found |= {name: part for name, part in held.items() if _is_code(part)}
    return found


def _is_code(value: Any) -> bool:
    """Whether a value is code of a module: the notebook's own functions are state."""
    if issubclass(type(value), types.FunctionType):
        return bool(value.__globals__.get("__name__") != MAIN)
    return _is_class(value) and value.__module__ != MAIN


def _cells(function: types.FunctionType) -> dict[str, types.CellType]:
    """The cells of a function's closure that are filled, by name."""
    names = function.__code__.co_freevars
    cells = zip(names, function.__closure__ or (), strict=True)
    return {name: cell for name, cell in cells if _is_filled(cell)}


def _is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _function_of(value: Any) -> Any:
    """What a method, or the getter of a property, runs."""
    return value.fget if issubclass(type(value), property) else getattr(value, "__func__", value)


def _is_code_of(cls: type, value: Any) -> bool:
    """Whether an attribute is part of what the class statement said."""
    inner = _function_of(value)
    if issubclass(type(inner), types.FunctionType):
        return bool(inner.__module__ == cls.__module__)
    if _is_class(inner):
        return bool(inner.__qualname__.startswith(f"{cls.__qualname__}."))
    return hasattr(type(inner), "__get__")


def is_dunder(name: str) -> bool:
    """Whether a name is Python's own."""
    return name.startswith("__") and name.endswith("__")
