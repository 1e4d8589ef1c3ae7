"""A notebook's prospect: the forecast for its cells from a store, without a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nbrewind.model.reports import StatusReport
from nbrewind.store.abc import Store
from nbrewind_analysis.book import RecordBook
from nbrewind_analysis.cells import analyse_cell
from nbrewind_analysis.choice import CellHint
from nbrewind_analysis.forecast import PlannedCell, forecast
from nbrewind_analysis.surroundings import DiskSurroundings
from nbrewind_analysis.validity import EnvironmentPolicy, Situation


@dataclass(frozen=True, slots=True)
class CodeCell:
    """A code cell of a notebook file."""

    source: str
    id: str = ""
    policy: str = "auto"
    """`never`, `always` or `auto`, from the cell's metadata."""


def forecast_notebook(
    cells: Sequence[CodeCell],
    store: Store | None,
    root: Path,
    environment: EnvironmentPolicy = "rerun",
    notebook: str = "",
) -> StatusReport:
    """What a replay in a fresh kernel would do.

    Args:
        cells: the code cells, in order.
        store: where the records are; None if there is none.
        root: the notebook's folder.
        environment: what to make of changed distributions.
        notebook: the notebook's path as its records have it.
    """
    from IPython.core.inputtransformer2 import TransformerManager

    transform = TransformerManager().transform_cell
    plan = []
    for index, code in enumerate(cells):
        cell = analyse_cell(code.source, transform)
        hint = CellHint(notebook, code.id, index, cell.directive or code.policy)
        plan.append(PlannedCell(cell, hint))
    now = Situation(DiskSurroundings(root, store))
    return forecast(plan, RecordBook(store), now, environment, notebook)
