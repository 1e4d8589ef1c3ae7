"""Where the time went: traces, and `nbrewind report`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Command, WriteNotebook

CELLS = (
    "import numpy as np\na = np.random.default_rng(0).random(2_000_000)",
    "a += 1",
    "print(float(a.sum()))",
)


def test_a_trace_has_cells_and_stages_of_both_processes(
    nbrewind: Command, write: WriteNotebook, tmp_path: Path
) -> None:
    ran = nbrewind("audit", write(*CELLS), "--trace", "trace.json")
    assert ran.returncode == 0, ran
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    processes = {e["args"]["name"]: e["pid"] for e in events if e["ph"] == "M"}
    spans = [e for e in events if e["ph"] == "X"]
    of = {name: {e["name"] for e in spans if e["pid"] == pid} for name, pid in processes.items()}
    assert {"detect", "hash", "stage", "executed: a += 1"} <= of["kernel"]
    assert {"compress", "write", "fsync"} <= of["flusher"]
    staged = sum(e["args"]["bytes"] for e in spans if e["name"] == "stage" and "args" in e)
    assert staged > 2 * 16_000_000
    assert all(e["dur"] >= 0 for e in spans)


def test_the_variable_that_names_the_trace_is_not_the_notebooks(
    nbrewind: Command, write: WriteNotebook
) -> None:
    notebook = write("import os\nprint(dict(os.environ).get('NBREWIND_TRACE'))")
    assert nbrewind("audit", notebook, "--trace", "trace.json").returncode == 0
    assert "None" in notebook.read_text()


def test_a_trace_that_cannot_be_written_is_said(nbrewind: Command, write: WriteNotebook) -> None:
    ran = nbrewind("audit", write("x = 1"), "--trace", "no/such/folder/trace.json")
    assert ran.returncode == 0
    assert "trace was not written" in ran.stdout + ran.stderr


def test_report_draws_where_the_time_went(nbrewind: Command, write: WriteNotebook) -> None:
    notebook = write(*CELLS)
    assert nbrewind("report", notebook).returncode != 0  # there is no store yet
    assert nbrewind("audit", notebook).returncode == 0
    drawn = nbrewind("report", notebook)
    assert drawn.returncode == 0, drawn
    assert "of recording" in drawn.stdout
    assert "a += 1" in drawn.stdout
    made = json.loads(nbrewind("report", notebook, "--json", "-").stdout)
    assert [cell["ordinal"] for cell in made["cells"]] == [0, 1, 2]
    assert made["stages"]["stage"][1] > 2 * 16_000_000
    assert made["capture_seconds"] > 0
    assert made["seconds"] > 0


def test_report_counts_the_last_run_of_each_cell(nbrewind: Command, write: WriteNotebook) -> None:
    notebook = write("x = 1", "y = 2")
    for _ in range(2):
        assert nbrewind("audit", notebook).returncode == 0
    made = json.loads(nbrewind("report", notebook, "--json", "-").stdout)
    assert len(made["cells"]) == 2
