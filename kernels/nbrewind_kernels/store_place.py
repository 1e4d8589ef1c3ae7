"""Where a notebook's store is."""

from __future__ import annotations

import os
from pathlib import Path

from nbrewind.store import places

STORE_FOLDER = ".nbrewind"


def store_place(notebook: Path, given: str | None = None) -> str:
    """The place of a notebook's store: given, else from `NBREWIND_STORE`, else beside it."""
    chosen = given or os.environ.get("NBREWIND_STORE", "")
    return places.absolute(chosen) if chosen else str(notebook.resolve().parent / STORE_FOLDER)
