"""The example notebooks: edited and replayed, they are what a plain run makes of them (L1, L2)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Literal

import nbformat
import pytest

from nbrewind.model.reports import NotebookReport
from nbrewind_kernels.driver import RunRequest, run_notebook

EXAMPLES = Path(__file__).parent.parent.parent / "examples"

# Each edit is (cell, old text, new text, the cells that must run); edits follow each other.
Edit = tuple[str, str, str, list[str]]
CASES: dict[str, list[Edit]] = {
    "wine": [
        ("pair", '"proline"', '"color_intensity"', ["pair", "scatter"]),
        ("separation", "    groups = ", "    # one group a cultivar\n    groups = ", []),
        ("ranking", "head()", "head(3)", ["ranking"]),  # an equal value: the plot stays
    ],
    "diabetes": [
        ("bins", "20", "30", ["bins", "residuals"]),
        ("ridge", "-2, 4, 7", "-3, 5, 9", ["ridge", "strength"]),  # 10 is still the best
    ],
    "terrain": [
        ("parameters", "drops = 5_000", "drops = 8_000", ["parameters", "experiment", "histogram"]),
        ("write", "index=False", "index=True", ["write", "read"]),
    ],
}


def run(path: Path, mode: Literal["audit", "replay", "plain"]) -> NotebookReport:
    """Run a notebook as the command does."""
    result = run_notebook(RunRequest(path, mode))
    assert result.exit_code == 0, result.failure
    return result.report


def edit(path: Path, cell_id: str, old: str, new: str) -> None:
    """Change the text of one cell."""
    nb = nbformat.read(path, 4)
    cell = next(cell for cell in nb.cells if cell.id == cell_id)
    assert old in cell.source
    cell.source = cell.source.replace(old, new)
    nbformat.write(nb, path)


def shown(path: Path) -> dict[str, list[Any]]:
    """What each cell shows; images included."""
    return {
        cell.id: [dict(output) for output in cell.outputs]
        for cell in nbformat.read(path, 4).cells
        if cell.cell_type == "code"
    }


def executed(report: NotebookReport) -> list[str]:
    assert {cell.action for cell in report.cells} <= {"executed", "reused"}
    return [cell.id for cell in report.cells if cell.action == "executed"]


def test_every_example_has_a_case() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.ipynb")} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_examples_are_kept_clean(name: str) -> None:
    nb = nbformat.read(EXAMPLES / f"{name}.ipynb", 4)
    nbformat.validate(nb)
    for cell in nb.cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None), cell.id


@pytest.mark.parametrize("name", CASES)
def test_edits_execute_what_they_change_and_nothing_else(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.ipynb"
    shutil.copyfile(EXAMPLES / path.name, path)
    audited = run(path, "audit")
    assert len(executed(audited)) == len(audited.cells)
    for cell_id, old, new, expected in CASES[name]:
        edit(path, cell_id, old, new)
        replayed = run(path, "replay")
        reasons = {cell.id: cell.reasons for cell in replayed.cells if cell.reasons}
        assert executed(replayed) == expected, (cell_id, reasons)
    plain = tmp_path / "plain" / path.name
    plain.parent.mkdir()
    shutil.copyfile(path, plain)
    run(plain, "plain")
    assert shown(path) == shown(plain)
    for made in plain.parent.glob("*.csv"):
        assert (tmp_path / made.name).read_bytes() == made.read_bytes()
