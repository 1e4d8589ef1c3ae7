"""`nbrewind store pin|unpin|pins|trash|restore`: single records, by the names that people see."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from nbrewind.cli.options import Json, Store
from nbrewind.cli.output import check_json, seconds, table, write_json
from nbrewind.cli.store import Place, open_directory
from nbrewind.errors import UsageError

if TYPE_CHECKING:
    from nbrewind.model.refs import RefBody
    from nbrewind.store.pins import Pin
    from nbrewind.store.restoring import PrunedRef

Record = Annotated[
    str,
    typer.Argument(
        metavar="RECORD",
        help="A record as `nbrewind log` or `store prune` name it, or the id of a cell: its newest "
        "record.",
    ),
]

_SHOWN = 6
"""Digits of a record's id from which it is taken for one."""


@dataclass(frozen=True, kw_only=True)
class TrashReport:
    """One record in trash, for programs."""

    lineage: str
    seq: int
    notebook: str
    cell_id: str
    created: float
    """Seconds since the epoch, UTC."""
    trashed: int
    """When it was moved there, the same by the file system's clock."""
    missing: int
    """Objects it needs that are gone for good: it can be restored if there are none."""


def pin(
    record: Record,
    notebook: Place = None,
    store: Store = None,
    note: Annotated[str, typer.Option("--note", help="Why, for people.")] = "",
    json: Json = None,
) -> None:
    """Keep a record and all it needs, whatever is pruned."""
    from nbrewind.store import durable
    from nbrewind.store.pins import add_pin

    check_json(json)
    opened = open_directory("pin records", notebook, store, write=True)
    try:
        body = _named(record, (ref.body for ref in opened.refs()))
        with durable.writing(opened.location):
            made = add_pin(opened.location, body, note)
    finally:
        opened.close()
    _tell_pins([made], "pinned", json)


def unpin(record: Record, notebook: Place = None, store: Store = None, json: Json = None) -> None:
    """Remove a pin: the record is kept or pruned like any other."""
    from nbrewind.store import durable
    from nbrewind.store.pins import read_pins, remove_pin

    check_json(json)
    opened = open_directory("unpin records", notebook, store, write=True)
    try:
        chosen = [
            one
            for one in read_pins(opened.location)
            if _is_meant(record, one.lineage, one.seq, one.record, one.cell_id)
        ]
        if not chosen:
            raise UsageError(f"no pin is of {record}: see `nbrewind store pins`")
        with durable.writing(opened.location):
            for one in chosen:
                remove_pin(opened.location, one.place)
    finally:
        opened.close()
    _tell_pins(chosen, "unpinned", json)


def pins(notebook: Place = None, store: Store = None, json: Json = None) -> None:
    """List the pinned records."""
    from nbrewind.store.pins import PinReport, read_pins

    check_json(json)
    opened = open_directory("list pins", notebook, store, write=False)
    opened.close()
    found = read_pins(opened.location)
    if json is not None:
        write_json([PinReport.of(one) for one in found], json)
        return
    if not found:
        typer.echo("nothing is pinned")
        return
    rows = [(f"{one.lineage[:8]}/{one.seq}", one.notebook, one.cell_id, one.note) for one in found]
    table([("record", "notebook", "cell", "note"), *rows])


def trash(notebook: Place = None, store: Store = None, json: Json = None) -> None:
    """List the pruned records that are still in trash.

    `nbrewind store restore` makes them part of the store again, until `nbrewind store gc --apply`
    has removed them, or what they need, for good.
    """
    from nbrewind.store.restoring import pruned_refs

    check_json(json)
    opened = open_directory("look into trash", notebook, store, write=False)
    try:
        found = pruned_refs(opened)
    finally:
        opened.close()
    if json is not None:
        write_json([*map(_trash_report, found)], json)
        return
    if not found:
        typer.echo("no record is in trash")
        return
    now = time.time()
    rows = [
        (
            f"{one.body.lineage[:8]}/{one.body.seq}",
            one.body.notebook,
            one.body.cell_id,
            f"{seconds(max(0.0, now - one.trashed.since))} ago",
            f"no: {one.missing} objects are gone" if one.missing else "yes",
        )
        for one in found
    ]
    table([("record", "notebook", "cell", "pruned", "can be restored"), *rows])


def restore(
    record: Annotated[
        str,
        typer.Argument(
            metavar="RECORD",
            help="A record as `nbrewind store trash` names it, the id of a cell (its newest record "
            "in trash), or `all` that can be restored.",
        ),
    ],
    notebook: Place = None,
    store: Store = None,
    json: Json = None,
) -> None:
    """Take back what was pruned, as long as it is in trash."""
    from nbrewind.store import restoring

    check_json(json)
    opened = open_directory("restore records", notebook, store, write=True)
    try:
        found = restoring.pruned_refs(opened)
        if record == "all":
            chosen = [one for one in found if not one.missing]
        else:
            body = _named(record, (one.body for one in found), "`nbrewind store trash`")
            chosen = [one for one in found if one.body is body]
        for one in chosen:
            restoring.restore(opened, one)
            if json != "-":
                typer.echo(f"restored {one.body.lineage}/{one.body.seq}")
    finally:
        opened.close()
    if json is not None:
        write_json([*map(_trash_report, chosen)], json)


def _tell_pins(chosen: list[Pin], what: str, json: str | None) -> None:
    from nbrewind.store.pins import PinReport

    if json is not None:
        write_json([PinReport.of(one) for one in chosen], json)
    if json != "-":
        for one in chosen:
            typer.echo(f"{what} {one.lineage}/{one.seq}")


def _trash_report(pruned: PrunedRef) -> TrashReport:
    body = pruned.body
    return TrashReport(
        lineage=body.lineage,
        seq=body.seq,
        notebook=body.notebook,
        cell_id=body.cell_id,
        created=body.created,
        trashed=pruned.trashed.since,
        missing=pruned.missing,
    )


def _named(record: str, bodies: Iterable[RefBody], where: str = "`nbrewind log`") -> RefBody:
    """The newest one meant; `bodies` are newest first."""
    for body in bodies:
        if _is_meant(record, body.lineage, body.seq, body.record, body.cell_id):
            return body
    raise UsageError(f"no record is {record}: see {where}")


def _is_meant(text: str, lineage: str, seq: int, record: bytes, cell_id: str) -> bool:
    start, slash, number = text.partition("/")
    if slash and start and number.isdigit():
        return lineage.startswith(start) and seq == int(number)
    shown = len(text) >= _SHOWN and record.hex().startswith(text)
    return bool(text) and (shown or text == cell_id)
