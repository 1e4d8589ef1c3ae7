"""Pairs of notebooks, as rows of a table: a notebook, an edit, and the cells that then run."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

Cells = list[str]


@dataclass(frozen=True)
class Swap:
    """Text in a cell is replaced."""

    at: int
    old: str
    new: str

    def apply(self, cells: Cells) -> None:
        """Edit `cells`."""
        assert self.old in cells[self.at], (self.old, cells[self.at])
        cells[self.at] = cells[self.at].replace(self.old, self.new)


@dataclass(frozen=True)
class Insert:
    """A new cell is put before the one at `at`."""

    at: int
    source: str

    def apply(self, cells: Cells) -> None:
        """Edit `cells`."""
        cells.insert(self.at, self.source)


@dataclass(frozen=True)
class Delete:
    """A cell is removed."""

    at: int

    def apply(self, cells: Cells) -> None:
        """Edit `cells`."""
        del cells[self.at]


@dataclass(frozen=True)
class Move:
    """A cell is taken out and put in at `to`."""

    at: int
    to: int

    def apply(self, cells: Cells) -> None:
        """Edit `cells`."""
        cells.insert(self.to, cells.pop(self.at))


@dataclass(frozen=True)
class Write:
    """A cell is written anew."""

    at: int
    source: str

    def apply(self, cells: Cells) -> None:
        """Edit `cells`."""
        cells[self.at] = self.source


Edit = Swap | Insert | Delete | Move | Write


@dataclass(frozen=True)
class Notebook:
    """A notebook and what is done to it.

    Attributes:
        title: what it is about; unique in its table.
        text: its cells, separated by lines of three dashes.
        edits: what each is called, the edit, and the cells of the edited notebook that run.
    """

    title: str
    text: str
    edits: tuple[tuple[str, Edit, list[int]], ...]

    def cells(self) -> Cells:
        """The original."""
        return [cell.strip("\n") for cell in textwrap.dedent(self.text).split("\n---\n")]


@dataclass(frozen=True)
class Pair:
    """A notebook, the same notebook edited, and the cells that a replay has to run."""

    name: str
    before: Cells
    after: Cells
    executed: list[int]


def pairs(notebooks: Sequence[Notebook]) -> list[Pair]:
    """One pair for each edit."""
    found = []
    for notebook in notebooks:
        for what, edit, executed in notebook.edits:
            after = notebook.cells()
            edit.apply(after)
            found.append(Pair(f"{notebook.title}: {what}", notebook.cells(), after, executed))
    return found
