"""Streams that differ although the values are equal, and how to see it.

A pickle stream depends on which of its strings happen to be one object: a list
of two equal strings is written in two ways. No code can rely on that, so where
raw streams differ but could be equal they are compared with the memo of such
immutables dissolved. It costs a pass over the opcodes in Python, hence the bound.
"""

from __future__ import annotations

import contextlib
import io
import pickletools
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nbrewind.state.hidden import FAITHFUL
from nbrewind.state.set_order import may_hold_frozen_sets, may_hold_sets

if TYPE_CHECKING:
    from nbrewind.state.capture import Dump
    from nbrewind.state.restoring import Loaded

LIMIT = 256 * 1024
"""Longest stream, in bytes, that is brought into canonical form to find a value equal."""
LONG_LIMIT = 4 * 1024 * 1024
"""The same, to find out whether a value came back as it was stored."""

_TEXT = frozenset(
    {
        "SHORT_BINUNICODE",
        "BINUNICODE",
        "BINUNICODE8",
        "SHORT_BINBYTES",
        "BINBYTES",
        "BINBYTES8",
    }
)
_SILENT = frozenset({"PROTO", "FRAME"})
_GETS = frozenset({"BINGET", "LONG_BINGET"})

_BEGINNING = b"\x80\x05\x95"
"""How a stream begins: protocol 5, a frame."""

Token = tuple[Any, ...]


def canonical_tokens(stream: bytes, limit: int = LIMIT) -> list[Token]:
    """The opcodes of a stream with references to strings, bytes and globals dissolved.

    Raises:
        ValueError: the stream is damaged, or longer than `limit` bytes.
    """
    if len(stream) > limit:
        raise ValueError("the stream is too long to be compared")
    tokens: list[Token] = []
    memo: list[Token | int] = []
    kept = 0
    for opcode, arg, _ in _opcodes(stream):
        name = opcode.name
        if name in _SILENT:
            continue
        if name in _TEXT:
            tokens.append(("text", type(arg).__name__, arg))
        elif name == "STACK_GLOBAL":
            qualname, module = tokens.pop(), tokens.pop()
            tokens.append(("global", module[-1], qualname[-1]))
        elif name == "MEMOIZE":
            top = tokens[-1]
            if top[0] in ("text", "global"):
                memo.append(top)
            else:
                memo.append(kept)
                tokens.append(("memo", kept))
                kept += 1
        elif name in _GETS:
            found = memo[int(arg or 0)]
            tokens.append(("get", found) if isinstance(found, int) else found)
        else:
            tokens.append((name, type(arg).__name__, arg))
    return tokens


def _opcodes(stream: bytes) -> Iterator[tuple[Any, Any, Any]]:
    """Those of all the pickles in a stream: one, or another with the order of its sets."""
    file = io.BytesIO(stream)
    while file.tell() < len(stream):
        yield from pickletools.genops(file)


def equal_streams(one: bytes, other: bytes, limit: int = LIMIT) -> bool:
    """Whether two streams are the same but for the identity of immutables."""
    if one == other:
        return True
    try:
        return repr(canonical_tokens(one, limit)) == repr(canonical_tokens(other, limit))
    except (ValueError, IndexError, TypeError):
        return False


def is_as_stored(dump: Dump, loaded: Loaded) -> bool:
    """Whether a look at values that were loaded shows what was stored.

    Loading may put attributes in another order, and libraries fill caches: where nothing but
    objects of well-known libraries is involved, there may be more than there was, and two of
    what is immutable. Streams
    that are too long to be compared but by their bytes count as the same: few classes lose
    anything, and their objects are small. So do those with sets, where texts hash otherwise
    than they did.
    """
    if dump.problem:
        return False
    streams = [loaded.stream, dump.stream]
    if streams[0] == streams[1]:
        return dump.hidden == loaded.hidden
    if not loaded.hashes_alike and (may_hold_sets(streams) or may_hold_frozen_sets(streams)):
        return True
    if dump.hidden != loaded.hidden:
        return False
    if max(map(len, streams)) > LONG_LIMIT:
        return True
    try:
        stored, found = (canonical_tokens(stream, LONG_LIMIT) for stream in streams)
    except (ValueError, IndexError, TypeError):
        return False
    if repr(stored) == repr(found):
        return True
    stored, found = _with_nested(stored), _with_nested(found)
    before, after = Counter(map(_without_place, stored)), Counter(map(_without_place, found))
    if before == after:
        return True
    # A dtype that was one object may be two, and what was None may be filled in.
    before.pop("get", None)
    before.pop(_without_place(("NONE", "NoneType", None)), None)
    return before <= after and all(map(_is_of_known_library, found))


def _with_nested(tokens: list[Token]) -> list[Token]:
    """Tokens with those of streams within the stream: indexes of pandas have their own."""
    flat: list[Token] = []
    for token in tokens:
        if token[0] == "text" and token[1] == "bytes" and token[2].startswith(_BEGINNING):
            with contextlib.suppress(ValueError, IndexError, TypeError):  # bytes that look like one
                flat += canonical_tokens(token[2], LONG_LIMIT)
                continue
        flat.append(token)
    return flat


def _without_place(token: Token) -> str:
    return token[0] if token[0] in ("get", "memo") else repr(token)


def _is_of_known_library(token: Token) -> bool:
    if token[0] != "global":
        return True
    package = str(token[1]).partition(".")[0]
    return package in FAITHFUL or package == "nbrewind" or package in sys.stdlib_module_names
