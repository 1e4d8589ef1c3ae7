"""`nbrewind log`, `show` and `graph`: what was recorded."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nbrewind.cli.options import Json, Notebook, Store
from nbrewind.cli.output import cut, seconds, size, table, write_json
from nbrewind.cli.status import analysed, code_cells
from nbrewind.cli.store import open_for_reading

if TYPE_CHECKING:
    from nbrewind.model.records import ExecutionRecord, Variable
    from nbrewind.model.refs import StoredRef


class GraphFormat(StrEnum):
    """Languages graphs are written in."""

    MERMAID = "mermaid"
    DOT = "dot"


def log(
    notebook: Notebook,
    store: Store = None,
    limit: Annotated[
        int, typer.Option("-n", "--limit", min=0, help="Show at most so many; 0 shows all.")
    ] = 30,
    json: Json = None,
) -> None:
    """List the recorded executions of a notebook's cells, newest first."""
    from itertools import islice

    from nbrewind_analysis.history import history, ids_shown, stored_bytes
    from nbrewind_kernels.notebooks import read_notebook

    name = read_notebook(notebook).path.name
    opened = open_for_reading(notebook, store)
    try:
        found = list(islice(history(opened, name), limit or None))
        levels = [opened.level(ref) for ref, _ in found] if json is not None else []
    finally:
        opened.close()
    if json is not None:
        entries = [_entry(ref, record) for ref, record in found]
        write_json([e | {"level": n} for e, n in zip(entries, levels, strict=True)], json)
        return
    if not found:
        typer.echo(f"nothing recorded of {name} yet; `nbrewind audit` records it")
        return
    digits = ids_shown([ref for ref, _ in found])
    rows = [
        (
            ref.body.record.hex()[:digits],
            _when(record.started),
            seconds(record.seconds),
            size(stored_bytes(record)),
            record.status if ref.trusted else f"{record.status}, untrusted",
            cut(_line(record.source), 40),
        )
        for ref, record in found
    ]
    table(
        [("record", "started", "took", "state", "status", "cell"), *rows], right=frozenset({2, 3})
    )


def show(
    record: Annotated[
        str,
        typer.Argument(
            metavar="RECORD", help="A record's id, or its first digits.", show_default=False
        ),
    ],
    notebook: Annotated[
        Path | None,
        typer.Argument(
            metavar="[NOTEBOOK]",
            help="A notebook whose store is meant. [default: the store of this folder]",
            show_default=False,
        ),
    ] = None,
    store: Store = None,
    json: Json = None,
) -> None:
    """Show one record: what its cell read, wrote and left behind."""
    from nbrewind_analysis.history import find_record, read_record

    opened = open_for_reading(notebook, store)
    try:
        ref = find_record(opened, record)
        found = read_record(opened, ref)
    finally:
        opened.close()
    if json is not None:
        write_json(found, json)
        return
    for line in _description(ref, found):
        typer.echo(line)


def graph(
    notebook: Notebook,
    store: Store = None,
    format: Annotated[
        GraphFormat, typer.Option("--format", help="The language of the graph.")
    ] = GraphFormat.MERMAID,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write to FILE.", show_default=False),
    ] = None,
) -> None:
    """Draw which cell feeds which, as the newest records of its cells saw it."""
    from nbrewind_analysis.dataflow import dataflow, dot, mermaid
    from nbrewind_analysis.history import history

    cells = code_cells(notebook)
    opened = open_for_reading(notebook, store)
    digests = {cell.index: analysed(cell).digest for cell in cells}
    newest: dict[str, ExecutionRecord] = {}
    try:
        for ref, record in history(opened):
            if ref.trusted and record.status == "ok":
                newest.setdefault(record.source_digest, record)
    finally:
        opened.close()
    records = {index: newest[digest] for index, digest in digests.items() if digest in newest}
    flow = dataflow(cells, records)
    text = mermaid(flow) if format is GraphFormat.MERMAID else dot(flow)
    if output is None:
        typer.echo(text, nl=False)
    else:
        from nbrewind.cli.output import write_file

        write_file(output, text.encode("utf-8", "backslashreplace"), "-o")


def _entry(ref: StoredRef, record: ExecutionRecord) -> dict[str, object]:
    from nbrewind_analysis.history import stored_bytes

    return {
        "record": ref.body.record.hex(),
        "started": record.started,
        "seconds": record.seconds,
        "status": record.status,
        "trusted": ref.trusted,
        "bytes": stored_bytes(record),
        "cell_id": record.cell_id,
        "source": record.source,
    }


def _description(ref: StoredRef, record: ExecutionRecord) -> list[str]:
    trust = "trusted" if ref.trusted else "NOT trusted"
    reads, writes = record.reads, record.writes
    lines = [
        f"record    {ref.body.record.hex()}",
        f"signed    {ref.key.hex()} ({trust})",
        f"notebook  {record.notebook}" + (f", cell {record.cell_id}" if record.cell_id else ""),
        f"started   {_when(record.started)} on {record.host}",
        f"took      {seconds(record.seconds)}, processor {seconds(record.cpu_seconds)}, "
        f"memory {size(record.peak_bytes)}",
        f"status    {record.status}" + (f": {record.error}" if record.error else ""),
        *([f"flags     {', '.join(record.flags)}"] if record.flags else []),
        "",
        *(f"    {line}" for line in record.source.splitlines()),
    ]
    stored = {
        name: (variable, group.manifest is not None)
        for group in writes.groups
        for name, variable in group.variables.items()
    }
    sections: list[tuple[str, list[str]]] = [
        (
            "read" + (" (may have read every name)" if reads.dynamic else ""),
            [f"{name}  {_short(version)}" for name, version in sorted(reads.versions.items())],
        ),
        ("wrote", [_written(name, stored.get(name)) for name in sorted(writes.written)]),
        ("deleted", list(writes.deleted)),
        ("files", [f"{f.path}  {_change(f.read, f.write)}" for f in record.files]),
        ("ambient state", [f"{a.provider}  {_change(a.read, a.write)}" for a in record.ambient]),
        ("local modules", [f"{m.name}  {_short(m.version)}  {m.path}" for m in record.modules]),
        ("imports", _packages(record.effects.imports)),
        ("other effects", list(record.effects.others)),
        (
            "environment",
            [
                f"Python {record.environment.python} on {record.environment.machine}",
                *(f"{n} {v}" for n, v in sorted(record.environment.distributions.items())),
            ],
        ),
    ]
    for title, entries in sections:
        if entries:
            lines += ["", title, *(f"    {entry}" for entry in entries)]
    return lines


def _written(name: str, found: tuple[Variable, bool] | None) -> str:
    if found is None:
        return name
    variable, kept = found
    where = size(variable.size) if kept else "not stored"
    return f"{name}  {_short(variable.own)}  {variable.type or 'object'}, {where}"


def _packages(modules: tuple[str, ...]) -> list[str]:
    """Packages in the order they were first imported, and how many modules of each."""
    counts: dict[str, int] = {}
    for module in modules:
        package = module.partition(".")[0]
        counts[package] = counts.get(package, 0) + 1
    return [f"{name}  {count} module{'s'[: count > 1]}" for name, count in counts.items()]


def _change(read: str | None, write: str | None) -> str:
    parts = [f"read {_short(read)}" if read else "", f"wrote {_short(write)}" if write else ""]
    return ", ".join(part for part in parts if part)


def _short(version: str) -> str:
    return version[:13]


def _when(started: float) -> str:
    return datetime.fromtimestamp(started).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _line(source: str) -> str:
    from nbrewind_analysis.notebook_cell import NotebookCell

    return NotebookCell(0, "", source).line
