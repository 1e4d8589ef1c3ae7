"""Magics and callbacks that the notebook defines itself: what a cell may touch through them.

`%mine 5` names no variable, but the function behind it does, and so does a function that is
called after every cell. They are looked up where IPython has them, once the cells that
register them have run.
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
    """What their functions, and callbacks for every cell, may touch."""
    hidden_state: bool = False
    """One is a method: its object is IPython's and no variable of the notebook."""


def own_magics(cell: Cell, shell: Shell, entities: EntityTable) -> OwnMagics:
    """Find out which of the notebook's own magics a cell calls."""
    found = _CALLS.findall(f"{cell.code}\n{cell.source}")
    called = shell.own_magics({name for pair in found for name in pair if name})
    functions = [thing for thing in called if isinstance(thing, types.FunctionType)]
    functions += shell.own_hooks()
    if not called and not functions:
        return OwnMagics()
    methods = [thing for thing in called if isinstance(thing, types.MethodType)]
    return OwnMagics(bool(called), _uses_of(functions, shell, entities), bool(methods))


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
