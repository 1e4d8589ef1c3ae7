"""What somebody who mistyped a name may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean shard?`, or nothing."""
    close = get_close_matches(name, [*known], 1, 0.6)
    return f"; did you mean {close[0]}?" if close else ""
