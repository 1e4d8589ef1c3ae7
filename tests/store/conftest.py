"""Every test has keys of its own; none touches the user's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nbrewind.store.abc import Store


@pytest.fixture(autouse=True)
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "keys"
    monkeypatch.setenv("NBREWIND_CONFIG_DIR", str(directory))
    return directory


@pytest.fixture
def opened() -> Iterator[list[Store]]:
    """Stores that a test opened; they are closed after it."""
    stores: list[Store] = []
    yield stores
    for store in stores:
        store.close()
