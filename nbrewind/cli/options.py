"""Arguments and options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class EnvPolicy(StrEnum):
    """What a changed package means for the cells that used it."""

    RERUN = "rerun"
    ACCEPT = "accept"


Notebook = Annotated[
    Path, typer.Argument(metavar="NOTEBOOK", help="The notebook file.", show_default=False)
]
Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="PLACE",
        help="Where records and checkpoints are kept: a directory, s3://BUCKET/PREFIX, or several "
        "with commas between them, fastest first. "
        "[default: NBREWIND_STORE, else .nbrewind beside the notebook]",
        show_default=False,
    ),
]
Json = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE",
        help="Write the report as JSON to FILE, or to standard output for '-'.",
        show_default=False,
    ),
]
Environment = Annotated[
    EnvPolicy,
    typer.Option(
        "--env",
        help="Packages that changed since a cell was recorded: run it again, or accept its record.",
    ),
]
