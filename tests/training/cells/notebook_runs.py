"""Runs of notebooks by the command, for the tests of this folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_notebook


def command(
    verb: str, path: Path, cells: list[str], *, fails: bool = False, **environ: str
) -> tuple[dict[str, Any], list[str]]:
    """Run a notebook by the command; its report, and what its cells show on standard output."""
    made = [new_code_cell(source, id=f"c{index}") for index, source in enumerate(cells)]
    nbformat.write(new_notebook(cells=made), path)
    done = subprocess.run(
        [sys.executable, "-m", "nbrewind", verb, str(path), "--json", "-"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, **environ},
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    shown = []
    for cell in nbformat.read(path, 4).cells:
        texts = [
            output.get("text") or output.get("data", {}).get("text/plain", "")
            for output in cell.outputs
            if output.get("name") != "stderr"
        ]
        shown.append("\n".join(sorted("".join(texts).splitlines())))
    return json.loads(done.stdout[done.stdout.index("{") :]), shown


def actions(report: dict[str, Any]) -> list[str]:
    """What was done with each cell."""
    return [cell["action"] for cell in report["cells"]]
