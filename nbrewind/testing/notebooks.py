"""Hypothesis strategies for notebooks and edits of them.

Cells are made of statements over few names, so that they alias, mutate, shadow,
redefine and delete each other's values all the time. Statements are tried as they
are drawn: most of those that raise are drawn anew, so that notebooks run to their
ends; a few may raise, because errors are part of notebooks.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from string import Formatter
from typing import Any

from hypothesis import strategies as st

from nbrewind.testing.plain_shell import PlainShell
from nbrewind.testing.process import Process
from nbrewind.testing.templates import (
    ARRAYS,
    CLASSES,
    CODE,
    FILES,
    NESTED,
    ODD,
    PLACES,
    VALUES,
    write_modules,
)

_VALUES = ("a", "b", "c", "d")
_FUNCTIONS = ("f", "g")
_CLASSES = ("C", "D")
_FILES = ("p.txt", "q.txt")
_TRIES = 8

TEMPLATES = VALUES + NESTED + ARRAYS + CODE + CLASSES + FILES + ODD + PLACES


def _is_instance(value: Any) -> bool:
    return type(value).__module__ == "__main__"


_WANTED: dict[str, tuple[Sequence[str], Callable[[Any], bool]]] = {
    "w": (_VALUES, lambda value: True),
    "u": (_VALUES, lambda value: True),
    "l": (_VALUES, lambda value: isinstance(value, list)),
    "k": (_VALUES, lambda value: isinstance(value, dict)),
    "r": (_VALUES, lambda value: type(value).__name__ == "ndarray"),
    "i": (_VALUES, _is_instance),
    "t": (_VALUES, lambda value: hasattr(type(value), "__next__")),
    "h": (_FUNCTIONS, callable),
    "L": (_CLASSES, lambda value: isinstance(value, type)),
}
"""For each field that wants something bound: the names it may be, and what it wants."""

_FREE: dict[str, Sequence[str]] = {
    "v": _VALUES,
    "f": _FUNCTIONS,
    "K": _CLASSES,
    "n": ("0", "1", "2", "3"),
    "m": ("0", "1", "2", "3"),
    "p": _FILES,
}

_FIELDS = {
    template: tuple(dict.fromkeys(name for _, name, _, _ in Formatter().parse(template) if name))
    for template in TEMPLATES
}


class Trial:
    """Where statements are tried: a plain shell that has run some cells."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cells: list[str] = []
        self._reset()

    @property
    def namespace(self) -> dict[str, Any]:
        """The names so far."""
        return self._shell.user_ns

    def run(self, source: str) -> bool:
        """Run a statement; what one that raises did is undone."""
        if self._execute(source):
            self._cells.append(source)
            return True
        done, self._cells = self._cells, []
        self._reset()
        for cell in done:
            self._execute(cell)
        self._cells = done
        return False

    def _reset(self) -> None:
        for path in self._folder.iterdir():
            if path.is_file():
                path.unlink()
        write_modules(self._folder)
        self._shell = PlainShell()
        self._process = Process(self._folder)

    def _execute(self, source: str) -> bool:
        with self._process.inside():
            return self._shell.run(source).status == "ok"


@st.composite
def statements(draw: st.DrawFn, namespace: dict[str, Any]) -> str:
    """One statement that makes sense, more or less, with what is bound."""
    template: str = draw(st.sampled_from(TEMPLATES))
    chosen = {}
    for name in _FIELDS[template]:
        if name in _FREE:
            chosen[name] = draw(st.sampled_from(_FREE[name]))
            continue
        names, wanted = _WANTED[name]
        fitting = [n for n in names if n in namespace and wanted(namespace[n])]
        chosen[name] = draw(st.sampled_from(fitting or names))
    return template.format(**chosen)


@st.composite
def cells(draw: st.DrawFn, trial: Trial) -> str:
    """One cell of one to three statements, which the trial has run afterwards."""
    parts: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        may_raise = draw(st.integers(0, 39)) == 39
        for _ in range(_TRIES):
            statement = draw(statements(trial.namespace))
            if trial.run(statement) or may_raise:
                parts.append(statement)
                break
    return "\n".join(parts) or "pass"


@st.composite
def notebooks(draw: st.DrawFn, least: int = 2, most: int = 8) -> list[str]:
    """A notebook as the sources of its cells."""
    with _trial() as trial:
        return [draw(cells(trial)) for _ in range(draw(st.integers(least, most)))]


@st.composite
def edited(draw: st.DrawFn, notebook: list[str]) -> list[str]:
    """The notebook after one edit: change, insert, delete, move, swap, duplicate a cell."""
    after = list(notebook)
    at = draw(st.integers(0, len(after) - 1))
    to = draw(st.integers(0, len(after) - 1))
    kind = draw(st.sampled_from(["change", "insert", "delete", "move", "swap", "duplicate"]))
    if kind == "change":
        after[at] = draw(_cell_after(after[:at]))
    elif kind == "insert":
        after.insert(at, draw(_cell_after(after[:at])))
    elif kind == "delete" and len(after) > 1:
        del after[at]
    elif kind == "move":
        after.insert(to, after.pop(at))
    elif kind == "swap":
        after[at], after[to] = after[to], after[at]
    else:
        after.insert(to, after[at])
    return after


@st.composite
def edits(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """A notebook, and the same after one to three edits."""
    before = draw(notebooks())
    after = before
    for _ in range(draw(st.integers(1, 3))):
        after = draw(edited(after))
    return before, after


@st.composite
def _cell_after(draw: st.DrawFn, before: list[str]) -> str:
    with _trial() as trial:
        for cell in before:
            trial.run(cell)
        return draw(cells(trial))


@contextlib.contextmanager
def _trial() -> Iterator[Trial]:
    with tempfile.TemporaryDirectory(prefix="nbrewind-trial-") as folder:
        yield Trial(Path(folder))
