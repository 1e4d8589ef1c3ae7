"""What a replay with nothing to do costs: `python tests/benchmarks/noop_replay.py [--quick]`.

The same number of cells is replayed, and run empty by plain nbclient. Starting a kernel
is not the question, so a short and a long notebook are run and the difference is divided
by the difference in cells. State of two sizes shows that none is loaded.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from tables import keep, options, show

from nbrewind_kernels.driver import RunRequest, run_notebook

_SMALL = "state = [list(range(10)) for _ in range(5)]"
_LARGE = "import numpy as np\nstate = [np.random.default_rng(i).random({length}) for i in range(5)]"


def notebook(first: str, cells: int, path: Path) -> Path:
    """A notebook whose cells all depend on the first one's state."""
    sources = [first, *(f"n{i % 10} = len(state[{i % 5}]) + {i}" for i in range(cells))]
    nbformat.write(new_notebook(cells=[new_code_cell(source) for source in sources]), path)
    return path


def replay_seconds(path: Path) -> float:
    """Seconds that a replay takes in which every cell is reused.

    Raises:
        RuntimeError: a cell was executed.
    """
    began = time.perf_counter()
    result = run_notebook(RunRequest(path, "replay"))
    seconds = time.perf_counter() - began
    actions = {report.action for report in result.report.cells}
    if actions != {"reused"}:
        raise RuntimeError(f"a replay with nothing to do {sorted(actions)}")
    return seconds


def empty_seconds(cells: int, folder: Path) -> float:
    """Seconds that nbclient takes for as many cells that do nothing."""
    empty = new_notebook(cells=[new_code_cell("pass") for _ in range(cells + 1)])
    client = NotebookClient(empty, kernel_name="python3", resources={"metadata": {"path": folder}})
    began = time.perf_counter()
    client.execute()
    return time.perf_counter() - began


def row(name: str, first: str, few: int, many: int, rounds: int) -> dict[str, object]:
    """One line of the table."""
    with tempfile.TemporaryDirectory(prefix="nbrewind-benchmark-") as folder:
        short = notebook(first, few, Path(folder, "short.ipynb"))
        long = notebook(first, many, Path(folder, "long.ipynb"))
        for path in (short, long):
            run_notebook(RunRequest(path, "audit"))
        stored = sum(f.stat().st_size for f in Path(folder, ".nbrewind").rglob("*.pack"))
        replayed, empty = [], []
        for _ in range(rounds):
            for figures, fast, slow in (
                (replayed, lambda: replay_seconds(short), lambda: replay_seconds(long)),
                (
                    empty,
                    lambda: empty_seconds(few, Path(folder)),
                    lambda: empty_seconds(many, Path(folder)),
                ),
            ):
                started = fast()
                figures.append(1e3 * (slow() - started) / (many - few))
    added = [r - e for r, e in zip(replayed, empty, strict=True)]
    return {
        "state": name,
        "MB stored": round(stored / 1e6, 1),
        "cells": many,
        "ms per cell, nbclient, empty": round(statistics.median(empty), 2),
        "ms per cell, replay": round(statistics.median(replayed), 2),
        "ms added per cell": round(statistics.median(added), 2),
    }


def main() -> None:
    """Replay with little and with much state."""
    given = options("Cost of a replay with nothing to do.")
    few, many = (5, 25) if given.quick else (20, 220)
    rounds = given.rounds or (1 if given.quick else 5)
    states = {"small": _SMALL, "large": _LARGE.format(length=10_000 if given.quick else 5_000_000)}
    rows = [
        row(name, first, few, many, rounds) for name, first in states.items() if given.only in name
    ]
    show(f"Replay with nothing to do, medians of {rounds} pairs of runs", rows)
    keep(rows, given.json)


if __name__ == "__main__":
    main()
