"""Printing what a benchmark found, as a table for people and as JSON for comparisons."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def options(description: str) -> argparse.Namespace:
    """The options that all benchmarks have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--rounds", type=int, default=0, help="pairs of runs")
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    return parser.parse_args()


def show(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print rows of the same keys as a Markdown table."""
    keys = list(rows[0]) if rows else []
    print(f"{title}\n")  # noqa: T201
    for cells in (keys, ["---"] * len(keys), *([row[key] for key in keys] for row in rows)):
        print("| " + " | ".join(map(str, cells)) + " |")  # noqa: T201
    sys.stdout.flush()


def keep(rows: Sequence[dict[str, Any]], file: Path | None) -> None:
    """Write rows, of whatever keys, to `file` if there is one."""
    if file is not None:
        system = {"python": platform.python_version(), "machine": platform.machine()}
        file.write_text(json.dumps({**system, "rows": list(rows)}, indent=1))
