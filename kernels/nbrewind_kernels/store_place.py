"""Where a notebook's store is."""

from __future__ import annotations

import os
from pathlib import Path

STORE_FOLDER = ".nbrewind"


def store_path(notebook: Path, given: Path | None = None) -> Path:
    """The store of a notebook: given, else from `NBREWIND_STORE`, else beside it."""
    if given is None and os.environ.get("NBREWIND_STORE"):
        given = Path(os.environ["NBREWIND_STORE"])
    return (given.expanduser() if given else notebook.resolve().parent / STORE_FOLDER).absolute()
