"""Reused cells that read the clock or the system's entropy say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbrewind.testing.memory_store import MemoryStore
from nbrewind.testing.oracle import run_with_engine

READS = [
    ["import time", "t = time.time() > 0"],
    ["from time import perf_counter", "perf_counter() > 0"],
    ["import datetime as dt", "dt.datetime.now().year > 0"],
    ["from datetime import date", "date.today().year > 0"],
    ["import time\ndef f(): return time.time()", "f() > 0"],
    ["def f():\n    import os\n    return len(os.urandom(4))", "f()"],
    ["import uuid", "len(str(uuid.uuid4()))"],
    ["import secrets", "len(secrets.token_hex(4))"],
    ["import random", "r = random.SystemRandom(); 1"],
    ["import numpy as np", "g = np.random.default_rng(); 1"],
    ["import pandas as pd", "pd.Timestamp.now().year > 0"],
]
READS_NOT = [
    ["import time", "time.sleep(0)"],
    ["import datetime", "datetime.date(2020, 1, 1).isoformat()"],
    ["import numpy as np", "np.random.default_rng(5).integers(9)"],
    ["import random, uuid", "random.seed(3); random.choice([1, 2])"],
]


def notes(cells: list[str], folder: Path) -> list[str]:
    store = MemoryStore()
    run_with_engine(cells, "audit", store, folder)
    report = run_with_engine(cells, "replay", store, folder).reports[-1]
    assert report.action == "reused"
    return [note for note in report.notes if note.startswith("clock")]


@pytest.mark.parametrize("cells", READS)
def test_a_reused_cell_that_read_the_clock_has_a_note(cells: list[str], tmp_path: Path) -> None:
    assert notes(cells, tmp_path)


@pytest.mark.parametrize("cells", READS_NOT)
def test_other_cells_have_none(cells: list[str], tmp_path: Path) -> None:
    assert not notes(cells, tmp_path)
