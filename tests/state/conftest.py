"""A project folder, and what follows the files in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nbrewind.state.files import FileTracker


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project folder, the current one."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def tracker(root: Path) -> Iterator[FileTracker]:
    """Follows files in the project's folder."""
    tracker = FileTracker(root, [root / ".nbrewind"])
    yield tracker
    tracker.end()
