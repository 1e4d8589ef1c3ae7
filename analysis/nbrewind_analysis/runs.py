"""Training runs: which executions of a cell go on with one and the same run.

A run is named by what its result depends on: the cell's source and the versions of everything
the cell may read. Where its loop ends, `run.steps(…, until=N)`, and on how many ranks it runs,
are left out if they are plain numbers: another number goes on with the run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from nbrewind.model.records import Uses
from nbrewind.model.versions import combine
from nbrewind_analysis.cells import Cell
from nbrewind_analysis.magics import parse_text
from nbrewind_analysis.reach import NOTHING, reach
from nbrewind_analysis.source import source_digest
from nbrewind_analysis.validity import Situation

GENERATORS = ("random", "numpy.random", "torch.random", "torch.cuda.random")
"""Ambient state from which the order of samples may be drawn."""

_RANKS = re.compile(r"(?:^|(?<=\s))(?:-n|--nproc)[\s=]*\d+")
_MENTIONS = "steps"


def may_be_run(cell: Cell) -> bool:
    """Whether a cell looks as if it makes the steps of a run."""
    return _MENTIONS in cell.code and cell.syntax_error is None


def run_name(
    cell: Cell,
    now: Situation,
    unnamed: Uses = NOTHING,
    transform: Callable[[str], str] = str,
    compile_flags: int = 0,
) -> str:
    """The name of the run that a cell makes or goes on with.

    Args:
        cell: the cell.
        now: the versions before it runs.
        unnamed: what code may touch that the cell calls by no name of the notebook.
        transform: IPython's input transformation.
        compile_flags: flags in force.
    """
    reached = reach(cell, now.table, unnamed)
    closure = reached.closure
    parts = [_source(cell, transform, compile_flags)]
    parts += [f"{name}={now.table.own(name)}" for name in sorted(closure.names | closure.absent)]
    parts += [f"{name}={now.ambient[name]}" for name in GENERATORS if name in now.ambient]
    parts += now.surroundings.local_modules(
        set(closure.modules) | set(cell.names.imports), cell.names.imports
    )
    return f"cell-{combine('run', parts)[:32]}"


def ends_at(cell: Cell) -> int | None:
    """The number of steps after which a cell's loop ends, if it has one loop and says so."""
    try:
        tree = ast.parse(cell.code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    plain = _Plain(str)
    plain.visit(tree)
    return plain.ends[0] if len(plain.ends) == 1 else None


def _source(cell: Cell, transform: Callable[[str], str], compile_flags: int) -> str:
    """The digest of a cell's source without the numbers that do not make another run."""
    if cell.syntax_error is not None:
        return cell.digest
    tree = _Plain(transform).visit(ast.parse(cell.code))
    return source_digest(
        tree,
        trailing_semicolon=cell.trailing_semicolon,
        compile_flags=compile_flags,
        transform=transform,
    )


class _Plain(ast.NodeTransformer):
    """Takes plain numbers of steps and ranks out."""

    def __init__(self, transform: Callable[[str], str]) -> None:
        self._transform = transform
        self.ends: list[int] = []

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node.func:
            case ast.Attribute(attr="steps"):
                self.ends += self._without(node, "until")
            case ast.Attribute(attr="launch") | ast.Name(id="launch"):
                self._without(node, "nproc")
            case ast.Attribute(attr="run_cell_magic"):
                self._magic(node)
        return node

    def _without(self, node: ast.Call, name: str) -> list[int]:
        """Take an argument out, the second or by name; returns what it was."""
        found = []
        for keyword in node.keywords:
            if keyword.arg == name and (number := _number(keyword.value)) is not None:
                keyword.value = ast.Constant(None)
                found.append(number)
        if len(node.args) > 1 and (number := _number(node.args[1])) is not None:
            del node.args[1]
            node.keywords.append(ast.keyword(name, ast.Constant(None)))
            found.append(number)
        return found

    def _magic(self, node: ast.Call) -> None:
        match node.args:
            case [ast.Constant("torchrun"), ast.Constant(str(line)), ast.Constant(str(body))]:
                inner = parse_text(body, self._transform)
                if inner is not None:
                    body = ast.unparse(self.visit(inner))
                node.args[1:] = [ast.Constant(_RANKS.sub("", line)), ast.Constant(body)]


def _number(node: ast.expr) -> int | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    return None
