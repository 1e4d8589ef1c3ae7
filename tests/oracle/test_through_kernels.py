"""Law L1 through real kernels and the command: audit, edit, replay, against plain nbclient.

Generated notebooks are packed into bigger ones, so that many cases share one kernel.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import nbformat
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from nbrewind.testing.notebooks import edits
from nbrewind.testing.templates import write_modules

RUN_KEYS = {"notebook", "kernel", "seconds", "executed", "reused", "saved_seconds", "cells"}
CELL_KEYS = {"index", "id", "action", "reasons", "seconds", "recorded_seconds", "reads", "writes"}
REASON_KINDS = {
    *("never-run", "source-changed", "input-changed", "ambient-changed", "file-changed"),
    *("module-changed", "environment-changed", "session-effect", "sharing-changed"),
    *("not-stored", "previous-error", "unsafe", "untrusted", "forced"),
}
NO_FILES: Mapping[str, str] = MappingProxyType({})
PACKED = 4
"""Generated cases per notebook; each starts from a namespace without the names before it."""

CLEAR = (
    "for _name in [n for n in globals() if n in set('abcdfgxyzCD') | {'make', 'deco', 'sorted'}]:\n"
    "    del globals()[_name]\nimport random; random.seed(0)\n"
    "import numpy as np; np.random.seed(0)\nimport pathlib, os\n"
    "for _name in ('p.txt', 'q.txt'): pathlib.Path(_name).unlink(missing_ok=True)"
)


def drawn(first_seed: int, count: int) -> list[tuple[list[str], list[str]]]:
    """Generated notebooks with edits, always the same for the same seed."""
    found: list[tuple[list[str], list[str]]] = []

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @seed(first_seed)
    @given(edits())
    def keep(case: tuple[list[str], list[str]]) -> None:
        found.append(case)

    keep()
    return found


def packed(number: int) -> tuple[list[str], list[str]]:
    """Some generated cases as one notebook, before and after their edits."""
    before, after = [], []
    for one, other in drawn(number, PACKED * 4)[-PACKED:]:
        before += [CLEAR, *one]
        after += [CLEAR, *other]
    return before, after


def write(path: Path, cells: list[str]) -> None:
    made = [
        # As a user who expects that something may fail.
        new_code_cell(source, id=f"c{index}", metadata={"tags": ["raises-exception"]})
        for index, source in enumerate(cells)
    ]
    nbformat.write(new_notebook(cells=made), path)


def put(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)


def plainly(path: Path, cells: list[str], folder: Path, files: Mapping[str, str]) -> Any:
    """The notebook as plain nbclient and ipykernel leave it."""
    folder.mkdir()
    put(folder, files)
    write_modules(folder)
    write(folder / "plain.ipynb", cells)
    notebook = nbformat.read(folder / "plain.ipynb", 4)
    client = NotebookClient(
        notebook, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    return client.execute()


def command(*arguments: str | Path, cwd: Path) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "-m", "nbrewind", *map(str, arguments), "--json", "-"],
        cwd=cwd,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ran.returncode == 0, ran
    made: dict[str, Any] = json.loads(ran.stdout)
    return made


def outputs(notebook: Any) -> list[Any]:
    """What a reader of the notebook sees, without addresses."""
    return [
        [cell.execution_count, [_shown(output) for output in cell.outputs]]
        for cell in notebook.cells
    ]


def _shown(output: Any) -> Any:
    plain = {k: v for k, v in output.items() if k not in ("traceback", "metadata")}
    return json.loads(re.sub(r"0x[0-9a-f]+", "0x", json.dumps(plain)))


def check(report: dict[str, Any], path: Path, kernel: str, cells: list[str]) -> None:
    """The contract of the command's JSON."""
    assert report.keys() >= RUN_KEYS
    assert (report["notebook"], report["kernel"]) == (str(path), kernel)
    assert [cell["index"] for cell in report["cells"]] == list(range(len(cells)))
    actions = [cell["action"] for cell in report["cells"]]
    assert set(actions) <= {"executed", "reused", "failed", "not-run"}
    assert report["reused"] == actions.count("reused")
    for cell in report["cells"]:
        assert cell.keys() >= CELL_KEYS
        assert {reason["kind"] for reason in cell["reasons"]} <= REASON_KINDS
        assert cell["reasons"] or cell["action"] != "executed", (cell, cells[cell["index"]])


def compare(
    before: list[str],
    after: list[str],
    folder: Path,
    files: Mapping[str, str] = NO_FILES,
    edited_files: Mapping[str, str] = NO_FILES,
) -> dict[str, Any]:
    """Audit, edit, replay and replay again; returns the report of the first replay."""
    place = folder / "ours"
    place.mkdir()
    put(place, files)
    write_modules(place)
    path = place / "notebook.ipynb"
    write(path, before)
    check(command("audit", path, cwd=place), path, "nbrewind-audit", before)
    audited = nbformat.read(path, 4)
    assert outputs(audited) == outputs(plainly(path, before, folder / "before", files))
    put(place, edited_files)
    write(path, after)
    expected = outputs(plainly(path, after, folder / "after", {**files, **edited_files}))
    replayed = command("replay", path, cwd=place)
    check(replayed, path, "nbrewind-replay", after)
    assert outputs(nbformat.read(path, 4)) == expected
    command("replay", path, cwd=place)
    assert outputs(nbformat.read(path, 4)) == expected
    return replayed


@pytest.mark.parametrize("number", range(2))
def test_replay_by_the_command_shows_what_nbclient_shows(number: int, tmp_path: Path) -> None:
    compare(*packed(number), tmp_path)


def test_scripts_and_modules_run_their_users_again(tmp_path: Path) -> None:
    # jupyter-book#1633, MyST-NB#299, quarto-cli#6793, marimo#6501
    cells = [
        "%load_ext autoreload\n%autoreload 2",
        "%run script.py 3",
        "made, f(1)",
        "import one, two",
        "two.n",
        "%%writefile gen.py\nN = 5",
        "import gen",
        "gen.N",
        "k = 1",
        "f(2) + one.n",
    ]
    files = {
        "script.py": "import one, sys\nmade = sys.argv[1:]\ndef f(v): return one.n * v\n",
        "one.py": "n = 1",
        "two.py": "n = 2",
    }
    report = compare(cells, cells, tmp_path, files, {"one.py": "n = 10"})
    ran = [cell["index"] for cell in report["cells"] if cell["action"] == "executed"]
    # Autoreload is a session effect; what it does is due before anything else runs.
    assert ran == [0, 1, 2, 3, 9]


@pytest.mark.long
@pytest.mark.parametrize("number", range(2, 16))
def test_replay_by_the_command_shows_what_nbclient_shows_in_many_cases(
    number: int, tmp_path: Path
) -> None:
    compare(*packed(number), tmp_path)
