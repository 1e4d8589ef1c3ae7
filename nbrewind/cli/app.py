"""The command tree."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True, add_completion=True)


@app.callback()
def root() -> None:
    """Make a notebook cost only what changed."""


def run() -> None:
    """Run the command line and exit."""
    app()
