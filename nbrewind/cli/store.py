"""`nbrewind store`: what a store holds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nbrewind.cli.options import Json, Store
from nbrewind.cli.output import size, write_json

if TYPE_CHECKING:
    from nbrewind.store.abc import Store as AnyStore
    from nbrewind.store.info import TierInfo
    from nbrewind.store.local import LocalStore
    from nbrewind.store.tiers.promoter import Step
    from nbrewind.store.tiers.promotion import TierPromoted

app = typer.Typer(help="Look into a store.", no_args_is_help=True, rich_markup_mode=None)

Place = Annotated[
    Path | None,
    typer.Argument(
        metavar="[NOTEBOOK]",
        help="A notebook whose store is meant. [default: the store of this folder]",
        show_default=False,
    ),
]


def find_store(notebook: Path | None, store: str | None) -> str:
    """The place of a notebook's store, or of the current folder's."""
    from nbrewind_kernels.store_place import store_place

    return store_place(notebook if notebook is not None else Path("notebook"), store)


def open_for_reading(notebook: Path | None, store: str | None) -> AnyStore:
    """Open a store without writing anything.

    Raises:
        StoreFormatError: there is none, or it is of a newer format.
    """
    from nbrewind.store.opening import open_store

    return open_store(find_store(notebook, store), create=False, read_only=True)


def open_directory(
    verb: str, notebook: Path | None, store: str | None, *, write: bool
) -> LocalStore:
    """Open a store for what works in one directory only.

    Args:
        verb: What is to be done, as a person would say it.
        notebook: Whose store is meant.
        store: Its place, if that is given.
        write: Whether anything is to be changed.

    Raises:
        UsageError: the store is in a bucket, or a chain of several.
        StoreFormatError: there is none, or it is of a newer format.
        StoreNotWritable: it cannot be written.
    """
    from nbrewind.errors import UsageError
    from nbrewind.store import local
    from nbrewind.store.places import is_bucket, tiers_of

    place = find_store(notebook, store)
    chain = tiers_of(place)
    directories = [tier for tier in chain if not is_bucket(tier)]
    if len(chain) > 1 and directories:
        options = " or ".join(f"--store {tier}" for tier in directories)
        raise UsageError(
            f"{place} is a chain of stores, each of which keeps records of its own: {verb} in one "
            f"of them with {options}"
        )
    if not directories:
        raise UsageError(
            f"{place} is a bucket: to {verb} there, copy the store to a directory with a tool of "
            "the bucket, and give that with --store"
        )
    return local.open_store(place, create=False, read_only=not write)


@app.command("init")
def init(
    notebook: Place = None,
    store: Store = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            metavar="NAME",
            help="Let everybody in this group of users read the store and add to it.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Make a store, or share one that is there. Not needed otherwise: an audit makes it."""
    from nbrewind.errors import UsageError
    from nbrewind.store.local import LocalStore
    from nbrewind.store.opening import open_store
    from nbrewind.store.sharing import share

    opened = open_store(find_store(notebook, store))
    try:
        if group is not None:
            if not isinstance(opened, LocalStore):
                raise UsageError(f"{opened.location} is no directory: who may use it is set there")
            share(opened.location, group)
        typer.echo(f"{opened.location} is ready" + (f" for the group {group}" if group else ""))
    finally:
        opened.close()


@app.command("info")
def info(notebook: Place = None, store: Store = None, json: Json = None) -> None:
    """Show how large a store is and what it holds."""
    opened = open_for_reading(notebook, store)
    try:
        found = opened.info()
    finally:
        opened.close()
    if json is not None:
        write_json(found, json)
        return
    objects = ", ".join(f"{count} {kind}s" for kind, count in sorted(found.objects.items()))
    levels = ", ".join(f"{count} {level}" for level, count in found.levels.items())
    lines = [
        ("store", found.location),
        ("format", str(found.format)),
        ("size", f"{size(found.bytes)} in {found.packs} packs"),
        ("objects", objects or "none"),
        ("records", f"{found.refs}: {found.trusted_refs} trusted, {found.untrusted_refs} not"),
        *([("levels", levels or "none")] if found.tiers else []),
        *(("tier", _tier_line(tier)) for tier in found.tiers),
        *(("damaged", sentence) for sentence in found.damaged),
    ]
    for name, value in lines:
        typer.echo(f"{name:<8}  {value}")
    if found.untrusted_refs:
        typer.echo("see `nbrewind trust list`: untrusted records are never reused")


def _tier_line(tier: TierInfo) -> str:
    if tier.problem:
        return f"{tier.location} ({tier.level}): {tier.problem}"
    behind = f", {tier.missing_refs} still missing" if tier.missing_refs else ""
    return (
        f"{tier.location} ({tier.level}): {tier.refs} records{behind}, {size(tier.bytes)} in "
        f"{tier.packs} packs"
    )


@app.command("promote")
def promote(
    notebook: Place = None,
    store: Store = None,
    wait: Annotated[
        float,
        typer.Option(
            "--wait",
            metavar="SECONDS",
            help="Try again so long if a tier cannot be reached.",
        ),
    ] = 0.0,
    json: Json = None,
) -> None:
    """Copy to every slower tier of a chain of stores what it does not have."""
    from nbrewind.errors import UsageError
    from nbrewind.store.places import tiers_of
    from nbrewind.store.tiers.promoter import steps_of
    from nbrewind.store.tiers.promotion import PromoteReport, TierPromoted

    place = find_store(notebook, store)
    chain = tiers_of(place)
    if len(chain) < 2:
        raise UsageError(f"{place} is a single store: give a chain such as /fast,s3://bucket/x")
    report = PromoteReport(tiers=[])
    for step in steps_of(chain):
        tier = TierPromoted(location=step.target)
        report.tiers.append(tier)
        _promote(step, tier, time.monotonic() + wait)
        step.close()
        if json is None:
            _show_promoted(tier)
    if json is not None:
        write_json(report, json)
    if not report.complete:
        raise typer.Exit(1)


def _promote(step: Step, tier: TierPromoted, deadline: float) -> None:
    """Copy until all is there, or for as long as there is time."""
    from nbrewind.errors import NBRewindError
    from nbrewind.store.remote.retrying import Patience

    pauses = Patience(first=1.0, longest=30.0)
    failures = 0
    while True:
        try:
            done = step.run()
            tier.missing_refs = step.missing_refs()
        except (NBRewindError, OSError) as problem:
            failures += 1
            tier.problem = str(problem)
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, pauses.pause(failures)))
            continue
        tier.problem = ""
        for field in ("refs", "packs", "bytes", "seconds", "refusals"):
            setattr(tier, field, getattr(tier, field) + getattr(done, field))
        tier.width = max(tier.width, done.width)
        tier.conflicts += done.conflicts
        tier.damaged += done.damaged
        return


def _show_promoted(tier: TierPromoted) -> None:
    line = f"{tier.location}: {tier.refs} records, {size(tier.bytes)} in {tier.packs} packs copied"
    typer.echo(f"{line}, {tier.missing_refs} missing" if tier.missing_refs else line)
    for name in tier.conflicts:
        typer.echo(f"  not copied: another record has the number of {name} there")
    for sentence in tier.damaged:
        typer.echo(f"  not copied: {sentence}")
    if tier.problem:
        typer.echo(f"  not complete: {tier.problem}; try again, or see --wait")
