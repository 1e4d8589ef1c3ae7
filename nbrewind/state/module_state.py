"""The state of a local module: what its code and the notebook can change without editing it.

That is its globals, as far as they are data, the attributes of its classes, and what
its functions keep: attributes, mutable defaults, closures. Its code is versioned by its
source (`modules`), so functions and classes that are still bound to their own names
are no part of it.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Mapping
from typing import Any

_PRIVATE = frozenset({"_abc_impl", "_abc_registry", "_abc_cache"})

ATOMS = (int, float, bool, str, bytes, complex, type(None))
"""Exact types whose values hold nothing else, and can always be stored."""

State = dict[str, dict[str, Any]]
"""`data`: globals; `functions`, `classes`: what each of them keeps; `others`: names left out."""

Keep = Callable[[str, Any], bool]
"""Whether a value, given with its dotted name, is part of the state."""

_class_space = type.__dict__["__dict__"].__get__
"""The namespace of a class, past what its metaclass says."""


def take(module: types.ModuleType, keep: Keep) -> State:
    """The state of a module, as it is now: new containers around the live values.

    Args:
        module: a loaded module.
        keep: what is left out, because it cannot be stored.
    """
    name = module.__name__
    data: dict[str, Any] = {}
    functions: dict[str, Any] = {}
    classes: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for key, value in list(vars(module).items()):
        if _is_dunder(key) or issubclass(type(value), types.ModuleType):
            continue
        if _is_own(value, key, name):
            kept = _of_function(value) if isinstance(value, types.FunctionType) else {}
            if isinstance(value, type):
                kept = _of_class(value)
                kept = {k: v for k, v in kept.items() if keep(f"{key}.{k}", v)}
            elif not all(keep(f"{key}.{k}", v) for k, v in kept.items()):
                continue
            if kept:
                (classes if isinstance(value, type) else functions)[key] = kept
        elif keep(key, value):
            data[key] = value
        else:
            others[key] = None
    return {"data": data, "functions": functions, "classes": classes, "others": others}


def put(module: types.ModuleType, state: Mapping[str, Mapping[str, Any]], keep: Keep) -> None:
    """Put a state in force; what is not part of it stays."""
    space = vars(module)
    now = take(module, keep)
    for key in now["data"].keys() - state["data"].keys() - state["others"].keys():
        space.pop(key, None)
    space.update(state["data"])
    for key, kept in state["functions"].items():
        function = space.get(key)
        if isinstance(function, types.FunctionType):
            _put_function(function, kept)
    for key, kept in state["classes"].items():
        cls = space.get(key)
        if isinstance(cls, type):
            for name in now["classes"].get(key, {}).keys() - kept.keys():
                type.__delattr__(cls, name)
            for name, value in kept.items():
                if _class_space(cls).get(name, state) is not value:
                    type.__setattr__(cls, name, value)


def set_part(module: types.ModuleType, part: str, value: Any) -> None:
    """Bind what was left out of a state. Raises `KeyError` if that is no global of its own."""
    if "." in part:
        raise KeyError(part)
    vars(module)[part] = value


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_own(value: Any, key: str, module: str) -> bool:
    """Whether a function or class is bound to the name under which its module defines it."""
    if not issubclass(type(value), type | types.FunctionType):
        return False
    return bool(value.__qualname__ == key and value.__module__ == module)


def _of_function(function: types.FunctionType) -> dict[str, Any]:
    """What a function keeps from call to call, and who else may see it."""
    kept: dict[str, Any] = {}
    attributes = {k: v for k, v in vars(function).items() if k != "__wrapped__"}
    if attributes:
        kept["attributes"] = attributes
    for name in ("__defaults__", "__kwdefaults__"):
        value = getattr(function, name)
        values = value.values() if isinstance(value, dict) else value or ()
        if not all(type(v) in ATOMS for v in values):
            kept[name] = value
    if function.__closure__:
        cells: dict[str, Any] = {}
        for name, cell in zip(function.__code__.co_freevars, function.__closure__, strict=True):
            try:
                cells[name] = cell.cell_contents
            except ValueError:  # not filled yet
                continue
        kept["closure"] = cells
    return kept


def _put_function(function: types.FunctionType, kept: Mapping[str, Any]) -> None:
    wrapped = {k: v for k, v in vars(function).items() if k == "__wrapped__"}
    vars(function).clear()
    vars(function).update(wrapped | kept.get("attributes", {}))
    for name in ("__defaults__", "__kwdefaults__"):
        if name in kept:
            setattr(function, name, kept[name])
    cells = kept.get("closure", {})
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name in cells:
            cell.cell_contents = cells[name]


def _of_class(cls: type) -> dict[str, Any]:
    """Attributes of a class that are data, or were put there by somebody else."""
    if issubclass(type(cls), enum.EnumMeta):
        return {}
    return {
        key: value
        for key, value in list(_class_space(cls).items())
        if not _is_dunder(key) and key not in _PRIVATE and not _is_code_of(cls, value)
    }


def _is_code_of(cls: type, value: Any) -> bool:
    """Whether an attribute is part of what the class statement said."""
    inner = getattr(value, "__func__", value)
    if issubclass(type(value), property):
        inner = value.fget
    if issubclass(type(inner), types.FunctionType):
        return bool(inner.__module__ == cls.__module__)
    if issubclass(type(inner), type):
        return bool(inner.__qualname__.startswith(f"{cls.__qualname__}."))
    return hasattr(type(inner), "__get__")
