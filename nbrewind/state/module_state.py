"""The state of a local module: what its code and the notebook can change without editing it.

That is its globals, as far as they are data, the attributes of its classes, and what
its functions keep: attributes, mutable defaults, closures. Its code is versioned by its
source (`modules`), so functions and classes that are still bound to their own names
are no part of it.
"""

from __future__ import annotations

import enum
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from nbrewind.state.entities import MAIN

_PRIVATE = frozenset({"_abc_impl", "_abc_registry", "_abc_cache"})

ATOMS = (int, float, bool, str, bytes, complex, type(None))
"""Exact types whose values hold nothing else, and can always be stored."""

State = dict[str, dict[str, Any]]
"""By the name of a global. `data`: values; `bound`: functions and classes of elsewhere, by their
`module:name`; `functions`, `classes`: what each of its own keeps; `others`: what is left out."""

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
    state: State = {part: {} for part in ("data", "bound", "functions", "classes", "others")}
    for key, value in list(vars(module).items()):
        if _is_dunder(key) or issubclass(type(value), types.ModuleType):
            continue
        if _is_own(value, key, name):
            if issubclass(type(value), type):
                kept = {k: v for k, v in _of_class(value).items() if keep(f"{key}.{k}", v)}
                part = "classes"
            else:
                kept = {k: v for k, v in _of_code(value, set()).items() if keep(f"{key}.{k}", v)}
                part = "functions"
            if kept:
                state[part][key] = kept
        elif home := _home(value):
            state["bound"][key] = home
        elif keep(key, value):
            state["data"][key] = value
        else:
            state["others"][key] = None
    return state


def put(module: types.ModuleType, state: Mapping[str, Mapping[str, Any]], keep: Keep) -> None:
    """Put a state in force; what is not part of it stays."""
    space = vars(module)
    now = take(module, keep)
    here = {key for part in state.values() for key in part}
    for key in (now["data"].keys() | now["bound"].keys()) - here:
        space.pop(key, None)
    space.update(state["data"])
    for key, home in state["bound"].items():
        if now["bound"].get(key) != home:
            space[key] = _find(home)
    for key, kept in state["functions"].items():
        if _is_own(space.get(key), key, module.__name__):
            _put_code(space[key], kept)
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


def _home(value: Any) -> str:
    """Where a function or class of another name or module is at home, `module:name`."""
    kind = type(value)
    is_code = issubclass(kind, type | types.FunctionType)
    code: Any = value if is_code else _attributes(value).get("__wrapped__")
    if not issubclass(type(code), type | types.FunctionType) or code.__module__ == MAIN:
        return ""
    home = f"{code.__module__}:{code.__qualname__}"
    try:
        return home if _find(home) is value else ""
    except (AttributeError, KeyError):
        return ""


def _find(home: str) -> Any:
    module, _, name = home.partition(":")
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_own(value: Any, key: str, module: str) -> bool:
    """Whether a function or class is bound to the name under which its module defines it.

    What a decorator made of it is meant as well, if it goes under the name.
    """
    kind = type(value)
    if issubclass(kind, type | types.FunctionType):
        return bool(value.__qualname__ == key and value.__module__ == module)
    own = _attributes(value)
    wrapped = own.get("__wrapped__")
    return (
        isinstance(wrapped, types.FunctionType)
        and wrapped.__module__ == module
        and wrapped.__qualname__ == key
    )


def _attributes(value: Any) -> dict[str, Any]:
    """The attributes of an instance, past what its class says."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def _of_code(value: Any, seen: set[int]) -> dict[str, Any]:
    """What a function, or what a decorator made of it, keeps from call to call."""
    kept: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    seen.add(id(value))

    def note(name: str, part: Any) -> bool:
        """Whether a part is code, of which only what it keeps counts."""
        if not _is_code(part):
            return False
        if id(part) not in seen and (found := _of_code(part, seen)):
            inner[name] = found
        return True

    attributes = {k: v for k, v in _attributes(value).items() if not note(k, v)}
    if attributes:
        kept["attributes"] = attributes
    if isinstance(value, types.FunctionType):
        for name in ("__defaults__", "__kwdefaults__"):
            default = getattr(value, name)
            values = default.values() if isinstance(default, dict) else default or ()
            if not all(type(v) in ATOMS for v in values):
                kept[name] = default
        cells = {n: c for n, c in _cells(value).items() if not note(f"({n})", c)}
        if cells:
            kept["closure"] = cells
    if inner:
        kept["inner"] = inner
    return kept


def _is_code(value: Any) -> bool:
    """Whether a value is code of a module: the notebook's own functions are state."""
    if issubclass(type(value), types.FunctionType):
        return bool(value.__globals__.get("__name__") != MAIN)
    return issubclass(type(value), type) and value.__module__ != MAIN


def _cells(function: types.FunctionType) -> dict[str, Any]:
    """What the closure of a function holds, by name."""
    found: dict[str, Any] = {}
    names = function.__code__.co_freevars
    for name, cell in zip(names, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    return found


def _put_code(value: Any, kept: Mapping[str, Any]) -> None:
    own = _attributes(value)
    code = {k: v for k, v in own.items() if _is_code(v)}
    own.clear()
    own.update(code | kept.get("attributes", {}))
    for name in ("__defaults__", "__kwdefaults__"):
        if name in kept:
            setattr(value, name, kept[name])
    inner = kept.get("inner", {})
    for name, found in inner.items():
        if name in own:
            _put_code(own[name], found)
    if not isinstance(value, types.FunctionType):
        return
    cells = kept.get("closure", {})
    names = value.__code__.co_freevars
    for name, cell in zip(names, value.__closure__ or (), strict=True):
        if name in cells:
            cell.cell_contents = cells[name]
        elif f"({name})" in inner:
            _put_code(cell.cell_contents, inner[f"({name})"])


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
