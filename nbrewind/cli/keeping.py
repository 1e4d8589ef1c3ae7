"""`nbrewind store gc|check|prune`: keeping a store sound and small."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from nbrewind.cli.options import Json, Store
from nbrewind.cli.output import check_json, seconds, size, table, write_json
from nbrewind.cli.store import Place, find_store, open_directory
from nbrewind.errors import UsageError

Apply = Annotated[
    bool,
    typer.Option(
        "--apply/--dry-run",
        help="Do it, or only tell what would be done.",
    ),
]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_DAY = 24 * 3600.0


def gc(
    notebook: Place = None,
    store: Store = None,
    apply: Apply = False,
    grace: Annotated[
        float, typer.Option("--grace", metavar="DAYS", help="From condemned to trash.", min=0)
    ] = 14,
    trash: Annotated[
        float, typer.Option("--trash", metavar="DAYS", help="From trash to removed.", min=0)
    ] = 7,
    json: Json = None,
) -> None:
    """Remove what no record, pin or running session needs.

    In steps, each by a run of its own: what nothing needs is condemned; after the days of grace
    it is moved to trash, where it can still be read; after some more days it is removed. Run it
    with --apply now and then, by cron for instance; kernels may be at work.
    """
    from nbrewind.store.gc import Patience, collect

    check_json(json)
    opened = open_directory("collect garbage", notebook, store, write=apply)
    try:
        patience = Patience(grace=grace * _DAY, trash=trash * _DAY)
        report = collect(opened, apply=apply, patience=patience)
    finally:
        opened.close()
    if json is not None:
        write_json(report, json)
        if json == "-":
            return
    kept = f"{report.live_objects} objects, {size(report.live_bytes)}, in {report.packs} packs"
    lines = [
        ("needed", kept),
        ("condemned", f"{report.condemned} packs, {size(report.condemned_bytes)}"),
        ("merged", f"{report.merged} of them, because they are small"),
        ("rewritten", f"{report.copied} objects of them that are needed"),
        ("gathered", f"{report.gathered} objects of values that are slow to read"),
        ("to trash", f"{report.trashed} packs, {size(report.trashed_bytes)}"),
        ("removed", f"{report.purged} packs, {size(report.purged_bytes)}"),
        ("waiting", f"{report.waiting} packs condemned before"),
        *(("at work", session) for session in report.sessions),
        *(("gone", session) for session in report.fenced),
    ]
    for name, value in lines:
        typer.echo(f"{name:<9}  {value}")
    if not apply:
        typer.echo("nothing was changed: with --apply the next step is taken")


def check(
    notebook: Place = None,
    store: Store = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Move what is damaged to quarantine/, after writing anew what is right in it.",
        ),
    ] = False,
    json: Json = None,
) -> None:
    """Read and verify everything in a store. Exit code 1 if something is damaged.

    Nothing damaged is ever read back, checked or not: a check finds it before it is needed.
    After a repair the exit code tells whether all damage was dealt with; what was lost is told
    once, and its cells are executed again.
    """
    from nbrewind.store import config
    from nbrewind.store.check import check_store

    check_json(json)
    place = find_store(notebook, store)
    aside = config.restore(place) if repair and Path(place).is_dir() else ""
    opened = open_directory("check everything", notebook, store, write=repair)
    try:
        report = check_store(opened, repair=repair)
        if aside:
            report.damage.append("CONFIG was damaged: it was written anew")
            report.quarantined.append(aside)
        left = check_store(opened).damage if repair and not report.sound else report.damage
    finally:
        opened.close()
    if json is not None:
        write_json(report, json)
    if json != "-":
        for sentence in report.damage:
            typer.echo(sentence)
        typer.echo(f"{report.objects} objects in {report.packs} packs are right")
        if repair:
            typer.echo(
                f"{report.salvaged} objects were written anew, {report.lost} are lost, "
                f"{len(report.quarantined)} files were moved to quarantine"
            )
        elif not report.sound:
            typer.echo("`nbrewind store check --repair` saves what can be saved")
    if left:
        raise typer.Exit(1)


def prune(
    notebook: Place = None,
    store: Store = None,
    keep_last: Annotated[
        int | None,
        typer.Option(
            "--keep-last",
            metavar="N",
            help="Keep the newest N records of each cell.",
            min=1,
            show_default=False,
        ),
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option(
            "--max-size",
            metavar="SIZE",
            help="Keep records that need no more than this in all, 500M or 2G for instance; those "
            "go first that cost least time to make again for the bytes they free.",
            show_default=False,
        ),
    ] = None,
    apply: Apply = False,
    json: Json = None,
) -> None:
    """Choose old records to be removed.

    Pinned records stay, and for each cell of NOTEBOOK the newest record that can be reused. The
    records go to trash; `nbrewind store gc --apply` removes what only they needed.
    """
    from nbrewind.store.retention import prune as run

    check_json(json)
    if keep_last is None and max_size is None:
        raise UsageError("say which records to keep: --keep-last N, --max-size SIZE, or both")
    budget = None if max_size is None else _bytes(max_size)
    current = _digests(notebook) if notebook is not None else set()
    opened = open_directory("prune records", notebook, store, write=apply)
    try:
        report = run(opened, keep_last=keep_last, max_bytes=budget, current=current, apply=apply)
    finally:
        opened.close()
    if json is not None:
        write_json(report, json)
    if json != "-":
        if report.pruned:
            rows = [
                (f"{one.lineage[:8]}/{one.seq}", one.cell_id, seconds(one.seconds), one.reason)
                for one in report.pruned
            ]
            table([("record", "cell", "took", "why"), *rows], right=frozenset({2}))
        verb = "moved to trash" if apply else "would go; nothing was changed, see --apply"
        typer.echo(f"{len(report.pruned)} of {report.records} records {verb}")
        typer.echo(f"the records need {size(report.bytes_after)} instead of {size(report.bytes)}")
        if report.too_large:
            typer.echo("that is more than asked for: the rest is pinned or of the current notebook")
    if report.too_large:
        raise typer.Exit(1)


def _digests(notebook: Path) -> set[str]:
    """Source digests of a notebook's cells as they are."""
    from nbrewind.cli.status import analysed, code_cells

    if not notebook.exists():
        raise UsageError(
            f"there is no notebook {notebook}: leave it out, or name one that is there"
        )
    return {analysed(cell).digest for cell in code_cells(notebook)}


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)b?", text.strip().lower())
    if match is None:
        raise UsageError(f"--max-size {text}: a number of bytes is meant, 500M or 2G for instance")
    return int(float(match[1]) * _UNITS[match[2]])
