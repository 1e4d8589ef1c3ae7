"""Magics that the notebook defines itself: what a cell that calls one may touch.

`%mine 5` names no variable, but the function behind it does. It is looked up where IPython
has it, once the cells that register it have run.
"""

from __future__ import annotations

import re
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from nbrewind.model.records import Uses
from nbrewind.state.code import code_uses
from nbrewind.state.entities import EntityTable
from nbrewind.state.pickling import merge_uses
from nbrewind.state.walk import walk
from nbrewind_analysis.cells import Cell
from nbrewind_kernels.ports import Shell

_CALLS = re.compile(r"run_(?:line|cell)_magic\('([^']+)'|%%?([^\W\d]\w*)")


@dataclass(frozen=True, slots=True)
class OwnMagics:
    """The notebook's own magics that a cell calls."""

    called: bool = False
    uses: Uses = field(default_factory=Uses)
    """What their functions may touch."""
    hidden_state: bool = False
    """One is a method: its object is IPython's and no variable of the notebook."""


def own_magics(cell: Cell, shell: Shell, entities: EntityTable) -> OwnMagics:
    """Find out which of the notebook's own magics a cell calls."""
    found = _CALLS.findall(f"{cell.code}\n{cell.source}")
    called = shell.own_magics({name for pair in found for name in pair if name})
    if not called:
        return OwnMagics()
    functions = [thing for thing in called if isinstance(thing, types.FunctionType)]
    methods = [thing for thing in called if isinstance(thing, types.MethodType)]
    return OwnMagics(True, _uses_of(functions, shell, entities), bool(methods))


def _uses_of(functions: Sequence[types.FunctionType], shell: Shell, entities: EntityTable) -> Uses:
    held: list[Any] = [
        part
        for function in functions
        for part in (function.__closure__, function.__defaults__, function.__kwdefaults__)
        if part
    ]
    seen = walk(tuple(held), shell.user_ns, lambda obj: entities.known_id(obj) or "")
    known = filter(None, [*seen.entities, *map(entities.known_id, functions)])
    codes = [*seen.codes, *(code_uses(function.__code__) for function in functions)]
    return merge_uses(codes, known, seen.modules)
