"""Benchmarks keep working: each runs in its quick mode. Nothing is said about times."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("script", "more"),
    [
        ("overhead.py", ["--only", "arrays, `a{i} += 1`"]),
        ("overhead.py", ["--only", "frame"]),
        ("noop_replay.py", ["--only", "small"]),
        ("capture.py", []),
        ("bench_store.py", []),
        ("pauses.py", []),
        ("page_tracking.py", []),
        ("store_report.py", ["--only", "sizes"]),
        ("training.py", []),
    ],
)
def test_a_benchmark_runs_and_writes_its_figures(
    script: str, more: list[str], tmp_path: Path
) -> None:
    figures = tmp_path / "figures.json"
    command = [sys.executable, Path(__file__).with_name(script), "--quick", "--json", figures]
    done = subprocess.run([*command, *more], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| --- |" in done.stdout
    assert json.loads(figures.read_text())["rows"]
