"""`nbrewind status`: what a replay would do."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from nbrewind.cli.options import Environment, EnvPolicy, Json, Notebook, Store
from nbrewind.cli.output import check_json, cut, seconds, table, write_json

if TYPE_CHECKING:
    from nbrewind.model.reports import CellStatus, StatusReport
    from nbrewind.store.abc import Store as StoreABC
    from nbrewind_analysis.cells import Cell
    from nbrewind_analysis.notebook_cell import NotebookCell


def code_cells(notebook: Path) -> list[NotebookCell]:
    """The code cells of a notebook that a run would send to the kernel.

    Raises:
        NotebookError: it cannot be read.
    """
    from nbrewind_analysis.notebook_cell import NotebookCell
    from nbrewind_kernels.notebooks import cell_policy, read_notebook, tags_of

    return [
        NotebookCell(
            index=index,
            id=str(cell.get("id", "")),
            source=cell.source,
            policy=cell_policy(cell.source, cell.metadata),
        )
        for index, (_, cell) in enumerate(read_notebook(notebook).code_cells())
        if cell.source.strip() and "skip-execution" not in tags_of(cell)
    ]


def analysed(cell: NotebookCell) -> Cell:
    """What can be told from a cell's text, magics understood as a fresh IPython would."""
    from IPython.core.inputtransformer2 import TransformerManager

    from nbrewind_analysis.cells import analyse_cell

    return analyse_cell(cell.source, TransformerManager().transform_cell)


def status(
    notebook: Notebook,
    store: Store = None,
    json: Json = None,
    env: Environment = EnvPolicy.RERUN,
) -> None:
    """Tell without running anything which cells a replay would reuse, and why not the others."""
    check_json(json)
    report = _forecast(notebook, store, env)
    if json is not None:
        write_json(report, json)
    if json == "-":
        return
    lines = {cell.index: cell.line for cell in code_cells(notebook)}
    rows = [
        (
            str(cell.index),
            cell.status,
            seconds(cell.recorded_seconds),
            cut(lines.get(cell.index, ""), 40),
            _why(cell),
        )
        for cell in report.cells
    ]
    if rows:
        table([("cell", "", "took", "", "why"), *rows], right=frozenset({0, 2}))
    typer.echo(
        f"reusable {report.reusable}, would run {report.would_run}, may run {report.may_run}"
    )


def _why(cell: CellStatus) -> str:
    why = [str(reason) for reason in cell.reasons]
    if cell.resumable_step is not None:
        why.append(f"resumable at step {cell.resumable_step}")
    return "; ".join(why)


def _saved(store: StoreABC, run: str, until: int | None) -> int | None:
    from nbrewind.model.checkpoints import CHECKPOINT_PREFIX

    if not any(True for _ in store.refs(CHECKPOINT_PREFIX + run)):
        return None  # without loading what training needs
    from nbrewind.training.finding import saved_steps

    return saved_steps(store, run, until)


def _forecast(notebook: Path, store: str | None, env: EnvPolicy) -> StatusReport:
    from nbrewind.cli.store import find_store
    from nbrewind.model.reasons import Reason
    from nbrewind.model.reports import CellStatus, StatusReport
    from nbrewind.store.opening import open_store
    from nbrewind.store.places import is_missing_directory
    from nbrewind_analysis.book import RecordBook
    from nbrewind_analysis.choice import CellHint
    from nbrewind_analysis.forecast import PlannedCell, forecast
    from nbrewind_analysis.surroundings import DiskSurroundings
    from nbrewind_analysis.validity import Situation

    cells = code_cells(notebook)
    place = find_store(notebook, store)
    if is_missing_directory(place):
        never = Reason("never-run", detail=f"there is no store at {place}")
        report = StatusReport(
            notebook="",
            reusable=0,
            would_run=len(cells),
            may_run=0,
            cells=[
                CellStatus(index=cell.index, id=cell.id, status="would-run", reasons=[never])
                for cell in cells
            ],
        )
    else:
        opened = open_store(place, create=False, read_only=True)
        try:
            path = notebook.resolve()
            plan = [
                PlannedCell(
                    known, CellHint(path.name, cell.id, ordinal, known.directive or cell.policy)
                )
                for ordinal, (cell, known) in enumerate((cell, analysed(cell)) for cell in cells)
            ]
            situation = Situation(DiskSurroundings(path.parent, opened))
            policy: Literal["rerun", "accept"] = "accept" if env is EnvPolicy.ACCEPT else "rerun"
            book = RecordBook(opened)
            report = forecast(plan, book, situation, policy, str(path), partial(_saved, opened))
        finally:
            opened.close()
        for cell, found in zip(cells, report.cells, strict=True):
            found.index = cell.index  # the forecast does not see empty cells
    report.notebook = str(notebook.resolve())
    return report
