"""`nbrewind report`: where the time of a notebook went."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from nbrewind.cli.options import Json, Notebook, Store
from nbrewind.cli.output import seconds, size, table, write_json
from nbrewind.cli.store import open_for_reading

if TYPE_CHECKING:
    from nbrewind.model.records import ExecutionRecord
    from nbrewind.model.reports import CellTimes, TimeReport

_BAR = 24


def report(notebook: Notebook, store: Store = None, json: Json = None) -> None:
    """Draw where the time of a notebook's last runs went: its code, and recording it."""
    from nbrewind_analysis.history import history
    from nbrewind_kernels.notebooks import read_notebook

    name = read_notebook(notebook).path.name
    opened = open_for_reading(notebook, store)
    try:
        found = _report(name, (record for _, record in history(opened, name)))
    finally:
        opened.close()
    if json is not None:
        write_json(found, json)
        return
    if not found.cells:
        typer.echo(f"nothing recorded of {name} yet; `nbrewind audit` records it")
        return
    _draw(found)


def _report(name: str, records: Iterable[ExecutionRecord]) -> TimeReport:
    from nbrewind.model.reports import CellTimes, TimeReport

    newest: dict[str | int, ExecutionRecord] = {}
    for record in records:
        newest.setdefault(record.cell_id or record.ordinal, record)
    cells = [
        CellTimes(
            ordinal=record.ordinal,
            id=record.cell_id,
            source=record.source,
            seconds=record.seconds,
            capture_seconds=sum(spent for spent, _ in record.stages.values()),
            stages=record.stages,
        )
        for record in sorted(newest.values(), key=lambda record: record.ordinal)
    ]
    totals: dict[str, tuple[float, int]] = {}
    for cell in cells:
        for stage, (spent, worked) in cell.stages.items():
            before = totals.get(stage, (0.0, 0))
            totals[stage] = (before[0] + spent, before[1] + worked)
    return TimeReport(
        notebook=name,
        seconds=sum(cell.seconds for cell in cells),
        capture_seconds=sum(cell.capture_seconds for cell in cells),
        stages=totals,
        cells=cells,
    )


def _draw(found: TimeReport) -> None:
    from nbrewind.model.spans import STAGES
    from nbrewind_kernels.session_report import first_line

    longest = max(cell.seconds + cell.capture_seconds for cell in found.cells) or 1.0
    stages = [stage for stage in STAGES if found.stages.get(stage, (0.0, 0))[0] > 0]
    rows = [
        (
            str(cell.ordinal + 1),
            first_line(cell.source, 32),
            _short(cell.seconds),
            *(_short(cell.stages.get(stage, (0.0, 0))[0]) for stage in stages),
            _bar(cell, longest),
        )
        for cell in found.cells
    ]
    heading = ("", "cell", "code", *stages, f"{_CODE} code  {_CAPTURE} recording")
    table([heading, *rows], right=frozenset({0, *range(2, 3 + len(stages))}))
    share = found.capture_seconds / (found.seconds + found.capture_seconds or 1.0)
    typer.echo(
        f"{found.notebook}: {_short(found.seconds)} of code, "
        f"{_short(found.capture_seconds)} of recording ({share:.0%})"
    )
    for stage, (spent, worked) in found.stages.items():
        if worked and spent > 0:
            typer.echo(f"{stage:<8}  {size(worked)} at {size(int(worked / spent))}/s")


def _short(spent: float) -> str:
    return seconds(spent) if spent >= 1 else f"{spent * 1e3:.1f} ms"


_CODE, _CAPTURE = "█", "░"


def _bar(cell: CellTimes, longest: float) -> str:
    code = round(cell.seconds / longest * _BAR)
    both = round((cell.seconds + cell.capture_seconds) / longest * _BAR)
    return _CODE * code + _CAPTURE * (both - code)
