"""Folders for the oracle, and how long it searches."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy.random  # noqa: F401 (all runs find it loaded)
import pytest


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What cannot be stored or restored is logged; in these tests it is everyday."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="session")
def root() -> Iterator[Path]:
    """A folder to make notebooks' folders in, in memory where that is possible."""
    fast = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="nbrewind-oracle-", dir=fast if fast.is_dir() else None
    ) as folder:
        yield Path(folder)
