"""Whether a pickle stream contains an opcode, without reading the stream from its start.

Reading all opcodes in Python takes fifty times as long as pickling. So the opcode's byte is
searched for, and what stands before it tells whether it can be one: an opcode begins where
another one ends. Answers err on the side of yes.
"""

from __future__ import annotations

import pickle
import pickletools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

_DEPTH = 4
"""Opcodes before the one in question that must fit; each lets through one wrong byte in ten."""
_MOST = 1_000
"""Candidates looked at in one piece."""
_MEMOIZE = pickle.MEMOIZE[0]
_LONG1 = re.compile(re.escape(pickle.LONG1))
_LONG4 = re.compile(re.escape(pickle.LONG4) + rb"(?=[\x00-\xff]{3}\x00)")
"""Integers of more than 255 bytes, and less than 16 MiB."""

_BY_SIZE: dict[int, set[int]] = defaultdict(set)
"""Opcodes of known size, by their bytes with argument."""
for _opcode in pickletools.opcodes:
    if _opcode.arg is None or _opcode.arg.n >= 0:
        _BY_SIZE[1 + (_opcode.arg.n if _opcode.arg else 0)].add(ord(_opcode.code))


def memoizing(opcode: bytes) -> re.Pattern[bytes]:
    """What to search for where the result of an opcode is remembered at once.

    One byte with a look at the next is found several times faster than two bytes.
    """
    return re.compile(b"%b(?=%b)" % (re.escape(opcode), re.escape(pickle.MEMOIZE)))


def may_hold(pattern: re.Pattern[bytes], pieces: Iterable[bytes]) -> bool:
    """Whether a stream may contain an opcode.

    Args:
        pattern: finds places where the opcode may be.
        pieces: the stream as the pickler wrote it: each piece begins with an opcode, or is
            the content of one object.
    """
    for piece in pieces:
        for number, match in enumerate(pattern.finditer(piece)):
            if number == _MOST or _may_end(piece, match.start(), _DEPTH):
                return True
    return False


def _may_end(piece: bytes, end: int, depth: int) -> bool:
    """Whether opcodes can end at a place of a piece."""
    if end == 0 or depth == 0 or piece[end - 1] == _MEMOIZE:  # texts end with that
        return True
    for size, opcodes in _BY_SIZE.items():
        if end >= size and piece[end - size] in opcodes and _may_end(piece, end - size, depth - 1):
            return True
    return (
        any(
            at + 2 + piece[at + 1] == end
            for at in _places(_LONG1, piece, max(0, end - 257), end - 1)
        )
        or any(
            at + 5 + int.from_bytes(piece[at + 1 : at + 5], "little") == end
            for at in _places(_LONG4, piece, 0, end)
        )
        or len(piece) >= 1 << 24
    )


def _places(pattern: re.Pattern[bytes], piece: bytes, first: int, end: int) -> Iterator[int]:
    return (match.start() for match in pattern.finditer(piece, first, max(first, end)))
