"""The state of a local module: what its code and the notebook can change without editing it.

That is its globals, as far as they are data, and what its functions and classes keep
(`code_state`). Its code is versioned by its source (`modules`): of functions and classes
that are still bound to their own names only the names are part of the state.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from nbrewind.state.code_state import Kept, attributes, is_dunder, kept_by, put_into
from nbrewind.state.entities import MAIN

State = dict[str, dict[str, Any]]
"""By the name of a global. `data`: values; `bound`: functions and classes of elsewhere, by their
`module:name`; `own`: its own ones; `kept`: what those keep; `others`: what is left out."""

Keep = Callable[[str, Any], bool]
"""Whether a value, given with its dotted name, is part of the state."""

Originals = dict[str, Any]
"""The functions and classes that were seen under their own names."""


def take(module: types.ModuleType, keep: Keep, originals: Originals) -> State:
    """The state of a module, as it is now: new containers around the live values.

    Args:
        module: a loaded module.
        keep: what is left out, because it cannot be stored.
        originals: is brought up to date.
    """
    name = module.__name__
    state: State = {part: {} for part in ("data", "bound", "own", "kept", "others")}
    for key, value in list(vars(module).items()):
        if is_dunder(key) or issubclass(type(value), types.ModuleType):
            continue
        if _is_own(value, key, name):
            originals[key] = value
            state["own"][key] = None
            if kept := _filtered(kept_by(value), key, keep):
                state["kept"][key] = kept
        elif home := _home(value):
            state["bound"][key] = home
        elif keep(key, value):
            state["data"][key] = value
        else:
            state["others"][key] = None
    return state


def put(
    module: types.ModuleType,
    state: Mapping[str, Mapping[str, Any]],
    keep: Keep,
    originals: Originals,
) -> None:
    """Put a state in force; what is left out stays as it is.

    Args:
        module: a loaded module.
        state: what `take` made.
        keep: what is left out now.
        originals: what takes its name again where it was replaced.
    """
    space = vars(module)
    now = take(module, keep, originals)
    here = {key for part in state.values() for key in part}
    for key in {*now["data"], *now["bound"], *now["own"]} - here:
        space.pop(key, None)
    space.update(state["data"])
    for key, home in state["bound"].items():
        if now["bound"].get(key) != home:
            space[key] = _find(home)
    for key in state["own"]:
        if key not in now["own"] and key in originals:
            space[key] = originals[key]
            now["kept"][key] = _filtered(kept_by(originals[key]), key, keep)
        kept, kept_now = state["kept"].get(key, {}), now["kept"].get(key, {})
        if (kept or kept_now) and key in space:
            put_into(space[key], kept, kept_now)


def set_part(module: types.ModuleType, part: str, value: Any) -> None:
    """Bind what was left out of a state. Raises `KeyError` if that is no global of its own."""
    if "." in part:
        raise KeyError(part)
    vars(module)[part] = value


def _filtered(kept: Kept, key: str, keep: Keep) -> Kept:
    found = {
        part: {k: v for k, v in value.items() if keep(f"{key}.{k}", v)}
        if part == "attributes"
        else value
        for part, value in kept.items()
        if part == "attributes" or keep(f"{key}.({part})", value)
    }
    return {part: value for part, value in found.items() if value}


def _home(value: Any) -> str:
    """Where a function or class of another name or module is at home, `module:name`."""
    code = _code_of(value)
    if code is None or code.__module__ == MAIN:
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


def _is_own(value: Any, key: str, module: str) -> bool:
    """Whether a function or class is bound to the name under which its module defines it."""
    code = _code_of(value)
    return code is not None and code.__qualname__ == key and code.__module__ == module


def _code_of(value: Any) -> Any | None:
    """A function or class itself, or the function that a decorator wrapped."""
    if issubclass(type(value), type | types.FunctionType):
        return value
    wrapped = attributes(value).get("__wrapped__")
    return wrapped if isinstance(wrapped, types.FunctionType) else None
