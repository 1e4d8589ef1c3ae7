"""Pairs of notebooks that go with files and libraries, each run in a process of its own."""

from __future__ import annotations

import importlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nbrewind.testing.memory_store import MemoryStore
from nbrewind.testing.oracle import checked, write_files
from tests.oracle.pairs import Edit


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

    def versions(self) -> tuple[list[str], list[str]]:
        """The cells before and after the edits."""
        before = [cell.strip("\n") for cell in f"\n{self.cells}\n".split("\n--\n")]
        after = list(before)
        for edit in self.edits:
            edit.apply(after)
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
        write_files(folder, pair.files)
        checked(before, "audit", store, folder, forked=True)
        write_files(folder, pair.changed)
        run = checked(after, "replay", store, folder, forked=True)
        assert run.executed == list(pair.runs), [(r.index, r.reasons) for r in run.reports]
        again = checked(after, "replay", store, folder, what="second replay", forked=True)
        assert again.executed == [], [(r.index, r.reasons) for r in again.reports]
    finally:
        shutil.rmtree(place)
