"""Where checkpoints go if nobody says."""

from __future__ import annotations

import os

STORE_VARIABLE = "NBREWIND_STORE"


def default_place() -> str:
    """`NBREWIND_STORE`, or the folder `.nbrewind` where the process works."""
    return os.environ.get(STORE_VARIABLE) or ".nbrewind"
