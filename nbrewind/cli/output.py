"""Writing for people (tables of text) and for programs (JSON)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from nbrewind.errors import UsageError


def write_json(value: Any, where: str) -> None:
    """Write a struct as JSON to a file, or to standard output for `-`.

    Raises:
        UsageError: the file cannot be written.
    """
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
    if where == "-":
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
        return
    write_file(Path(where), text, "--json")


def write_file(path: Path, data: bytes, option: str) -> None:
    """Put a file in place in one step.

    Raises:
        UsageError: it cannot be written; the message names the option it came from.
    """
    from nbrewind_kernels.notebooks import replace_file

    try:
        replace_file(path, data)
    except OSError as error:
        raise UsageError(
            f"{option} {path}: cannot be written: {error.strerror or error}"
        ) from error


def check_json(where: str | None) -> None:
    """Find out before the work whether its report can be written.

    Raises:
        UsageError: it cannot.
    """
    if where and where != "-":
        folder = Path(where).absolute().parent
        if not folder.is_dir() or Path(where).is_dir():
            raise UsageError(f"--json {where}: there is no such folder, or it is one; name a file")


def table(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> None:
    """Print rows in aligned columns; the first row is the heading.

    Args:
        rows: all of one length.
        right: columns that are aligned to the right.
    """
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        cells = [
            text.rjust(width) if at in right else text.ljust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        typer.echo("  ".join(cells).rstrip())


def cut(text: str, width: int) -> str:
    """A text in at most `width` characters."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def seconds(value: float | None) -> str:
    """A duration for people."""
    if value is None:
        return ""
    if value < 100:
        return f"{value:.2f} s"
    if value < 7200:
        return f"{value / 60:.1f} min"
    return f"{value / 3600:.1f} h"


def size(value: int) -> str:
    """A number of bytes for people."""
    number = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"
