"""`nbrewind store`: what a store holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nbrewind.cli.options import Json, Store
from nbrewind.cli.output import size, write_json

if TYPE_CHECKING:
    from nbrewind.store.abc import Store as AnyStore

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
    lines = [
        ("store", found.location),
        ("format", str(found.format)),
        ("size", f"{size(found.bytes)} in {found.packs} packs"),
        ("objects", objects or "none"),
        ("records", f"{found.refs}: {found.trusted_refs} trusted, {found.untrusted_refs} not"),
        *(("damaged", sentence) for sentence in found.damaged),
    ]
    for name, value in lines:
        typer.echo(f"{name:<8}  {value}")
    if found.untrusted_refs:
        typer.echo("see `nbrewind trust list`: untrusted records are never reused")
