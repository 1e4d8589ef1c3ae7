"""A notebook, what a user makes of it, and the cells that then have to run."""

from __future__ import annotations

import importlib
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nbrewind.testing.memory_store import MemoryStore
from nbrewind.testing.oracle import checked

Edit = Callable[[list[str]], None]


@dataclass(frozen=True)
class Pair:
    """One notebook in two versions."""

    name: str
    cells: str
    """Separated by lines that say `--`."""
    edits: Sequence[Edit]
    runs: Sequence[int]
    """Positions, in the edited notebook, of the cells that run."""
    files: Mapping[str, str] = field(default_factory=dict)
    """What is in the folder before the audit."""
    changed: Mapping[str, str | None] = field(default_factory=dict)
    """What somebody else writes between audit and replay; None removes a file."""
    needs: Sequence[str] = ()
    """Libraries without which the pair is skipped."""
    long: bool = False

    def parameter(self) -> Any:
        """The pair as a parameter of a test."""
        return pytest.param(self, id=self.name, marks=[pytest.mark.long] if self.long else [])

    def versions(self) -> tuple[list[str], list[str]]:
        """The cells before and after the edits."""
        before = [cell.strip("\n") for cell in f"\n{self.cells}\n".split("\n--\n")]
        after = list(before)
        for edit in self.edits:
            edit(after)
        return before, after


def check_pair(pair: Pair, root: Path) -> None:
    """Audit, edit, and replay twice, each held against a run without NBRewind.

    Libraries are imported here, so that the runs, forks of this process, have them.
    """
    for library in pair.needs:
        pytest.importorskip(library)
        if library == "matplotlib":
            importlib.import_module("matplotlib.pyplot")
    before, after = pair.versions()
    store = MemoryStore()
    place = Path(tempfile.mkdtemp(dir=root))
    folder = place / "notebook"
    folder.mkdir()
    try:
        _write(folder, pair.files)
        checked(before, "audit", store, folder, forked=True)
        _write(folder, pair.changed)
        run = checked(after, "replay", store, folder, forked=True)
        assert run.executed == list(pair.runs), [(r.index, r.reasons) for r in run.reports]
        again = checked(after, "replay", store, folder, what="second replay", forked=True)
        assert again.executed == [], [(r.index, r.reasons) for r in again.reports]
    finally:
        shutil.rmtree(place)


def swapped(index: int, old: str, new: str) -> Edit:
    """Text of a cell in place of another."""

    def edit(cells: list[str]) -> None:
        assert old in cells[index]
        cells[index] = cells[index].replace(old, new)

    return edit


def written(index: int, source: str) -> Edit:
    """A cell anew."""
    return lambda cells: cells.__setitem__(index, source)


def inserted(index: int, source: str) -> Edit:
    """One cell more."""
    return lambda cells: cells.insert(index, source)


def removed(index: int) -> Edit:
    """One cell less."""
    return lambda cells: cells.__delitem__(index)


def moved(source: int, target: int) -> Edit:
    """A cell in another place."""
    return lambda cells: cells.insert(target, cells.pop(source))


def _write(folder: Path, files: Mapping[str, str | None]) -> None:
    for name, text in files.items():
        path = folder / name
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
