"""Modes of opening a file in which what is there already matters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

_UPDATING = re.compile(r"[rwb]{0,2}(a|r\+|\+|x)[bt+]{0,2}|w-|append")


def is_updating(mode: str) -> bool:
    """Whether a mode appends, changes in place, or refuses what is there."""
    return _UPDATING.fullmatch(mode) is not None


def modes_of(call: ast.Call) -> Iterator[str]:
    """Texts that a call may be given as a mode: `open(path, mode)`, `path.open(mode)`."""
    name = getattr(call.func, "attr", "")
    candidates = [*call.args[:1]] if name == "open" else []
    candidates += call.args[1:2]
    candidates += (word.value for word in call.keywords if word.arg == "mode")
    for node in candidates:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
