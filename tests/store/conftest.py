"""Every test has keys of its own; none touches the user's."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "keys"
    monkeypatch.setenv("NBREWIND_CONFIG_DIR", str(directory))
    return directory
