"""A shape of code as a small notebook, and the three ways in which it is held against plain runs.

A shape is declared, not programmed: its cells, one edit, and which cells the edit must run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nbrewind.testing.oracle import Run, compare

SEPARATOR = "\n--\n"


@dataclass(frozen=True)
class Shape:
    """One way in which notebooks define and use code."""

    name: str
    """What it is, as a test id."""
    text: str
    """The cells, separated by lines of `--`; the last one looks at what the others made."""
    edit: Mapping[int, tuple[str, str]]
    """For each edited cell, a part of its text and what takes its place."""
    runs: Sequence[int]
    """The cells that a replay of the edited notebook executes: those and no others."""
    needs: Sequence[int] = ()
    """The cells that run beside the last one if only that is new: what cannot be stored."""
    always: Sequence[int] = ()
    """The cells that run in every replay."""
    apart: bool = False
    """Each run in a process of its own: the cells change more of it than their modules."""
    files: Mapping[str, str] = field(default_factory=dict)
    """What is in the notebook's folder."""
    changed: Mapping[str, str] = field(default_factory=dict)
    """Files written between audit and replay: part of the edit."""

    @property
    def cells(self) -> list[str]:
        """The cells before the edit."""
        return self.text.strip("\n").split(SEPARATOR)

    @property
    def edited(self) -> list[str]:
        """The cells after the edit."""
        cells = self.cells
        for index, (old, new) in self.edit.items():
            assert old in cells[index], f"{old!r} is not in cell {index}"
            cells[index] = cells[index].replace(old, new)
        return cells

    def replay(
        self, before: list[str], after: list[str], root: Path, changed: Mapping[str, str]
    ) -> Run:
        """Audit and replay, held against plain runs; returns the replay."""
        return compare(
            before, after, root, files=self.files, edited_files=changed, forked=self.apart
        )


def check_unchanged(shape: Shape, root: Path) -> None:
    """Nothing runs if nothing was edited."""
    run = shape.replay(shape.cells, shape.cells, root, {})
    assert run.executed == list(shape.always), run.reports


def check_edited(shape: Shape, root: Path) -> None:
    """The edit runs what depends on it, and the results are those of a fresh run."""
    run = shape.replay(shape.cells, shape.edited, root, shape.changed)
    assert run.executed == list(shape.runs), run.reports


def check_restored(shape: Shape, root: Path) -> None:
    """A new last cell finds everything restored as a fresh run has it."""
    *cells, last = shape.cells
    run = shape.replay([*cells, "'looked at nothing'"], [*cells, last], root, {})
    assert run.executed == sorted({*shape.needs, *shape.always, len(cells)}), run.reports


Test = Callable[[Shape, Path], None]


def shape_tests(shapes: Sequence[Shape]) -> tuple[Test, Test, Test]:
    """A table's tests: unchanged, edited, restored. A module binds each to a name of its own."""
    table = pytest.mark.parametrize("shape", shapes, ids=[shape.name for shape in shapes])

    @table
    def unchanged(shape: Shape, root: Path) -> None:
        check_unchanged(shape, root)

    @table
    def edited(shape: Shape, root: Path) -> None:
        check_edited(shape, root)

    @table
    def restored(shape: Shape, root: Path) -> None:
        check_restored(shape, root)

    return unchanged, edited, restored
