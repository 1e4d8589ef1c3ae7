"""L4: a process killed at any moment, and its flusher too, loses nothing that was acknowledged."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbrewind.store import arena
from nbrewind.testing.faults.kills import Victim, one_kill

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not arena.is_available(), reason="looks into /proc"
)

SAMPLE = float(os.environ.get("NBREWIND_LONG_SAMPLE", "1"))


def failures(folder: Path, seeds: range, victim: Victim) -> Iterator[str]:
    for seed in seeds:
        run = one_kill(seed, folder / str(seed), victim)
        yield from (f"{seed}: {run.what}: {what}" for what in run.wrong)


@pytest.mark.case(53)
@pytest.mark.parametrize(
    ("victim", "runs"), [("writer", 12), ("kernel", 3), ("flusher", 3), ("both", 3)]
)
def test_nothing_acknowledged_is_lost(tmp_path: Path, victim: Victim, runs: int) -> None:
    assert list(failures(tmp_path, range(runs), victim)) == []


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("victim", ["writer", "kernel", "flusher", "both"])
def test_a_thousand_kills(tmp_path: Path, victim: Victim) -> None:
    runs = 1000 if victim == "writer" else 334
    assert list(failures(tmp_path, range(int(runs * SAMPLE)), victim)) == []
