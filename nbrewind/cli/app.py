"""The command tree, and what happens to errors.

Exit codes: 0 done; 1 a cell raised or something could not be done; 2 the request
cannot be understood; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from nbrewind import __version__
from nbrewind.cli import (
    ckpt,
    demo,
    history,
    keeping,
    kernel,
    records,
    report,
    running,
    status,
    store,
    trust,
)
from nbrewind.errors import NBRewindError, NotebookError, UsageError

app = typer.Typer(
    name="nbrewind",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("audit")(running.audit)
app.command("replay")(running.replay)
app.command("status")(status.status)
app.command("log")(history.log)
app.command("show")(history.show)
app.command("report")(report.report)
app.command("graph")(history.graph)
app.add_typer(kernel.app, name="kernel")
store.app.command("gc")(keeping.gc)
store.app.command("check")(keeping.check)
store.app.command("prune")(keeping.prune)
store.app.command("pin")(records.pin)
store.app.command("unpin")(records.unpin)
store.app.command("pins")(records.pins)
store.app.command("trash")(records.trash)
store.app.command("restore")(records.restore)
app.add_typer(store.app, name="store")
app.add_typer(ckpt.app, name="ckpt")
app.add_typer(trust.app, name="trust")
app.command("demo")(demo.demo)

_debug = False


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"nbrewind {__version__}")
        raise typer.Exit


@app.callback()
def root(
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show Python tracebacks of errors (or NBREWIND_DEBUG=1)."),
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Make a notebook cost only what changed: audit it, edit it, replay it."""
    global _debug
    _debug = debug


def run() -> NoReturn:
    """Run the command line and exit."""
    try:
        app()
    except NBRewindError as error:
        if _debug or os.environ.get("NBREWIND_DEBUG"):
            raise
        typer.echo(f"nbrewind: {error}", err=True)
        sys.exit(2 if isinstance(error, UsageError | NotebookError) else 1)
    sys.exit(0)
