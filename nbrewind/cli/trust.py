"""`nbrewind trust`: whose records are reused on this machine."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from nbrewind.cli.options import Store
from nbrewind.cli.output import table
from nbrewind.cli.store import Place, open_for_reading
from nbrewind.errors import StoreError, TrustError

app = typer.Typer(
    help="Decide whose records are reused. Loading a record runs code its author chose.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Key = Annotated[
    str,
    typer.Argument(metavar="KEY", help="A public key: its hex digits, or the first of them."),
]


@app.command("add")
def add(
    key: Key,
    notebook: Annotated[
        Path | None,
        typer.Argument(
            metavar="[NOTEBOOK]",
            help="A notebook in whose store the key is looked up if KEY is not whole.",
            show_default=False,
        ),
    ] = None,
    store: Store = None,
    comment: Annotated[str, typer.Option("--comment", help="Whose key it is.")] = "",
) -> None:
    """Trust a key: records signed with it are reused from now on."""
    from nbrewind.store.trust import trust_key

    whole = _whole(key, _keys_here(notebook, store))
    trust_key(whole, comment)
    typer.echo(f"trusted {whole}")


@app.command("list")
def list_(notebook: Place = None, store: Store = None) -> None:
    """List the keys that signed a store, and the keys trusted here."""
    from nbrewind.store.trust import keys_of, trusted_keys

    rows: list[tuple[str, str, str, str]] = []
    with suppress(StoreError):
        opened = open_for_reading(notebook, store)
        try:
            for key, use in keys_of(opened).items():
                how = "own key" if use.own else "trusted" if use.trusted else "NOT trusted"
                rows.append((key, how, str(use.count), use.comment))
        finally:
            opened.close()
    shown = {row[0] for row in rows}
    rows += [
        (key, "own key" if comment == "own key" else "trusted", "", comment)
        for key, comment in trusted_keys().items()
        if key not in shown
    ]
    if rows:
        table([("key", "", "records here", "comment"), *rows], right=frozenset({2}))
    else:
        typer.echo("no keys yet: yours is made when a notebook is first recorded")


@app.command("remove")
def remove(key: Key) -> None:
    """Stop trusting a key."""
    from nbrewind.store.trust import trusted_keys, untrust_key

    whole = _whole(key, trusted_keys())
    if not untrust_key(whole):
        raise TrustError(f"{whole} is not among the trusted keys; see `nbrewind trust list`")
    typer.echo(f"removed {whole}")


def _keys_here(notebook: Path | None, store: str | None) -> set[str]:
    from nbrewind.store.trust import keys_of

    try:
        opened = open_for_reading(notebook, store)
    except StoreError:
        return set()
    try:
        return set(keys_of(opened))
    finally:
        opened.close()


def _whole(key: str, known: set[str] | dict[str, str]) -> str:
    """The one known key that starts with `key`; `key` itself if none does."""
    found = [k for k in known if k.startswith(key.lower())]
    if len(found) > 1:
        raise TrustError(f"{key} fits {len(found)} keys; give more of its digits")
    return found[0] if found else key
