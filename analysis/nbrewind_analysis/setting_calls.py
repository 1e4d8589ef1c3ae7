"""Calls that set something in a library, told by their names.

`xarray.set_options(…)` or `csv.register_dialect(…)` change how the library works from
then on, and nothing of that shows in the notebook's names. Libraries keep such state in
their own ways; what they have in common is how they name the functions that change it.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

_SETS = re.compile(
    r"(set|reset|use|enable|disable|register|unregister|activate|deactivate|configure|config|init"
    r"|add|install|uninstall|switch|extension)(?![a-z])|set[a-z]+$|autolog$|go_offline$|umask$"
    r"|output_(notebook|file)$"
)
_FULL_NAMES = frozenset({"signal.signal", "copyreg.pickle"})
_SETTINGS = frozenset({"config", "conf", "options", "settings"})
"""Attributes of libraries whose methods change settings, whatever they are called."""


@dataclass(frozen=True, slots=True)
class SettingCall:
    """A call whose name says that it sets something."""

    dotted: str
    """How the cell names the function."""
    subject: str
    """The name that is its first argument, or that this is a part of; empty if it is none.

    `networkx.set_node_attributes(graph, …)` sets something in the graph.
    """


def setting_calls(tree: ast.Module) -> frozenset[SettingCall]:
    """The calls of a cell that may set something in a library, those in its functions included.

    A call that a `with` statement makes is undone at its end.
    """
    undone = {
        id(item.context_expr)
        for node in ast.walk(tree)
        if isinstance(node, ast.With | ast.AsyncWith)
        for item in node.items
    }
    found = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or id(node) in undone:
            continue
        dotted = _dotted(node.func)
        if dotted and _sets(dotted):
            first = node.args[0] if node.args else None
            while isinstance(first, ast.Subscript):  # of `frame[["a", "b"]]`, the frame
                first = first.value
            found.add(SettingCall(dotted, first.id if isinstance(first, ast.Name) else ""))
    return frozenset(found)


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _sets(dotted: str) -> bool:
    *path, last = dotted.split(".")
    return (
        _SETS.match(last) is not None or dotted in _FULL_NAMES or not _SETTINGS.isdisjoint(path[1:])
    )
