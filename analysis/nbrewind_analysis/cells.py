"""A cell as the engine sees it before it runs: its digest, its names, its directive."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from nbrewind.state.evaluators import identifiers
from nbrewind_analysis.names import UNKNOWN_NAMES, CellNames, cell_names
from nbrewind_analysis.source import ends_in_semicolon, source_digest, text_digest

_NO_WARNINGS: Final = [("ignore", None, Warning, None, 0)]
_ALL_WARNINGS: Final = [("error", None, Warning, None, 0)]
_DIRECTIVE = re.compile(r"#\s*nbrewind:\s*(never|always|auto)\b")


@dataclass(frozen=True, slots=True)
class Cell:
    """What can be told from the text of a cell."""

    source: str
    """The text as the user wrote it."""
    code: str
    """The text after IPython's input transformation."""
    digest: str
    """Identity of the cell's meaning; comments and formatting do not change it."""
    syntax_error: str | None
    """Why the cell does not parse; then `digest` is that of its text."""
    trailing_semicolon: bool
    """It ends in `;`, so its result is not shown."""
    names: CellNames
    directive: str | None
    """`never`, `always` or `auto` of a first-line comment `# nbrewind: …`."""
    raw_identifiers: frozenset[str]
    """Identifiers in `source`: automagic looks these up before the transformation."""


@lru_cache(maxsize=1024)
def analyse_cell(
    source: str, transform: Callable[[str], str] = str, compile_flags: int = 0
) -> Cell:
    """Analyse a cell without running it.

    Args:
        source: text of the cell.
        transform: IPython's input transformation. Results are kept by (source, transform,
            flags): pass another callable after registering another transformer.
        compile_flags: flags in force, such as those of earlier `__future__` imports.

    Returns:
        The cell. One that does not parse is no error: it reads everything.
    """
    first = next((line.strip() for line in source.splitlines() if line.strip()), "")
    directive = _DIRECTIVE.match(first)
    code, problem = source, None
    tree: ast.Module | None = None
    try:
        code = transform(source)
        tree = _parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        problem = f"{type(error).__name__}: {error}"
    semicolon = tree is not None and ends_in_semicolon(tree, code)
    names = UNKNOWN_NAMES
    if tree is not None:
        names = cell_names(tree, transform=transform, compile_flags=compile_flags)
        if _warns(code, compile_flags):  # whether that is shown depends on the filters
            names = replace(names, imports=names.imports | {"warnings"})
    return Cell(
        source=source,
        code=code,
        digest=text_digest(source)
        if tree is None
        else source_digest(
            tree,
            trailing_semicolon=semicolon,
            compile_flags=compile_flags,
            transform=transform,
        ),
        syntax_error=problem,
        trailing_semicolon=semicolon,
        names=names,
        directive=directive[1] if directive else None,
        raw_identifiers=identifiers((source,)),
    )


def _parse(code: str) -> ast.Module:
    # `"\d"` or `1 is 1` warn at each parse; the run itself shows that once. The filters are
    # exchanged behind the module's back: `catch_warnings` has every warning that user code
    # has shown already shown once more.
    with _filtered(_NO_WARNINGS):
        return ast.parse(code)


def _warns(code: str, flags: int) -> bool:
    """Whether the compiler has a warning about a cell, such as `1 is 1`."""
    with _filtered(_ALL_WARNINGS):
        try:
            compile(code, "<cell>", "exec", flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
        except SyntaxError:
            return True
        except (ValueError, RecursionError, MemoryError):
            return False
    return False


@contextmanager
def _filtered(filters: list[Any]) -> Iterator[None]:
    before = warnings.filters
    warnings.filters = filters
    try:
        yield
    finally:
        warnings.filters = before
