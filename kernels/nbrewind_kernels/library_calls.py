"""What a cell's calls into libraries are called, and whether they set something there."""

from __future__ import annotations

import sys
import types
from typing import Any

from nbrewind.state.entities import MAIN
from nbrewind_analysis.setting_calls import SettingCall

FOLLOWED = frozenset({"seaborn", "decimal", "locale", "warnings", "logging", "IPython"})
"""Packages whose settings are versioned, though not under their own name."""

_NOWHERE = frozenset({MAIN, "", "None", "builtins"})

_PLAIN = (type(None), int, float, str, bytes, tuple, dict, type, types.FunctionType)
"""What is handed to a function that sets something in its library, not in what it is handed."""


def function_called(call: SettingCall, namespace: dict[str, Any]) -> str:
    """The dotted name of a library's function that a cell called to set something there.

    Empty if it is no library's, or sets something in an object that it is handed.
    """
    root, *path = call.dotted.split(".")
    value = namespace.get(root)
    if isinstance(value, types.ModuleType | type):
        name = ".".join([owner_name(value), *path])
    elif not path and callable(value):
        name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
    else:
        return ""
    package = package_of(name)
    if package in _NOWHERE or not isinstance(namespace.get(call.subject), _PLAIN):
        return ""
    return ".".join([package, *name.split(".")[1:]])


def package_of(module: str) -> str:
    """The package of a module; of `_socket`, which only implements it, `socket`."""
    top = module.split(".")[0]
    public = top.removeprefix("_")
    return public if public in sys.stdlib_module_names else top


def owner_name(value: Any) -> str:
    """The dotted name of a module or class."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    return f"{value.__module__}.{value.__qualname__}"
