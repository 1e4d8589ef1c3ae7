"""Ranks are killed at any moment: what is restored is whole, right, and nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..store.programs import ROOT

LONG = float(os.environ.get("NBREWIND_LONG_SAMPLE", "1"))


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("rounds", [5, pytest.param(200, marks=pytest.mark.long)])
def test_ranks_are_killed_and_others_go_on(tmp_path: Path, rounds: int) -> None:
    rounds = rounds if rounds < 10 else max(20, int(rounds * LONG))
    paths = [str(ROOT / part) for part in ("", "kernels", "analysis", "packaging")]
    done = subprocess.run(
        [
            sys.executable,
            Path(__file__).with_name("kills.py"),
            tmp_path / "store",
            "0",
            str(rounds),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
    )
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == rounds, done.stderr[-2000:]
    for result in results:
        assert result["right"], result
        assert not result["lost"], result
        # Killed, or told that another one was.
        assert {*result["codes"]} <= {-9, 3}, result
    assert any(result["world"] > 1 for result in results)
