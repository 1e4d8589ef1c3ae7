"""The memo of a C pickler: which objects are in its stream, and where.

Python shows the memo by copying it, with a tuple and two numbers for each object: several
times the work of pickling them. But it is what the collector sees of a pickler, and whoever
has the pickler write an object once more reads where it was written first.
"""

from __future__ import annotations

import functools
import gc
import pickle
from collections.abc import Callable
from typing import Any

_GET, _LONG_GET = pickle.BINGET[0], pickle.LONG_BINGET[0]
_ARGUMENT = {pickle.PROTO[0]: 1, pickle.FRAME[0]: 8, _GET: 1, _LONG_GET: 4}
"""Bytes that follow an opcode in a list of references."""


class Pieces:
    """The file a pickler wants: what it writes goes to `write`, piece by piece."""

    __slots__ = ("write",)

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self.write = write


def memo_objects(pickler: pickle.Pickler) -> list[Any]:
    """The objects in the memo, in no order, and some that a pickler has as attributes."""
    if _memo_is_visible():
        return gc.get_referents(pickler)
    return [obj for _, obj in pickler.memo.copy().values()]


def references_in(pieces: list[bytes]) -> list[int]:
    """Positions that the references in a stream of nothing else point to."""
    stream = b"".join(pieces)
    found: list[int] = []
    at = 0
    while at < len(stream):
        opcode = stream[at]
        size = _ARGUMENT.get(opcode, 0)
        if size and opcode in (_GET, _LONG_GET):
            found.append(int.from_bytes(stream[at + 1 : at + 1 + size], "little"))
        at += 1 + size
    return found


@functools.cache
def _memo_is_visible() -> bool:
    """Whether the collector is shown what is in a pickler's memo (CPython shows it)."""
    written: list[bytes] = []
    pickler = pickle.Pickler(Pieces(written.append), 5)
    parts: list[Any] = [[], {}]
    pickler.dump(parts)
    met = set(map(id, gc.get_referents(pickler)))
    return met.issuperset(map(id, (parts, *parts)))
