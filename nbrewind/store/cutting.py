"""Where streams and files are cut: at places that their content chooses, not their length.

A byte inserted near the start moves everything after it. Cuts at fixed distances would
then all fall elsewhere; cuts that depend on the bytes around them move along, so that all
chunks but the one with the change are those that a store has already.

The rule is FastCDC's, with its normalisation: a rolling ("gear") hash is taken at every
byte; a chunk ends at the first place where the hash is small enough, which must be very
small before the usual length is reached, and less so beyond it. Here the hash at a byte
always covers the 32 bytes that end there, wherever the chunk began, and combines them by
exclusive or: then it can be computed for a whole block at once, by numpy's array
operations or, ten times slower, by those of Python's integers.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from functools import cache, lru_cache
from typing import Any

import msgspec
from blake3 import blake3

from nbrewind.store.workers import run_all

WINDOW = 32
"""Bytes that the hash at a byte depends on: as many as the hash has bits."""

_STEPS = (1, 2, 4, 8, 16)
"""Windows are doubled, from one byte to `WINDOW`."""
_HASH_BYTES = 4
_SLOW_BYTES = 4 * 1024 * 1024
"""What is cut without numpy in 0.1 s."""
_NUMPY_BLOCK = 65536
_INTEGER_BLOCK = 8192
"""Bytes treated together: larger blocks leave the processor's caches."""
_NUMPY_PART = 1024 * 1024
"""Bytes that one thread searches before it takes others."""


class CutRule(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a store's cuts; part of its `CONFIG`."""

    least: int
    """Bytes of the smallest chunk, save the last of a stream."""
    usual: int
    """Bytes from which the looser condition applies; a shorter stream is not cut."""
    most: int
    """Bytes of the largest chunk."""
    strict_bits: int
    """Leading zero bits that the hash at the end of a chunk has, below `usual`."""
    loose_bits: int
    """The same from `usual` on."""


def takes_long(size: int) -> bool:
    """Whether nobody should wait until a stream of `size` bytes is cut."""
    return size > _SLOW_BYTES and not _has_numpy()


def cut(data: memoryview, rule: CutRule) -> list[memoryview]:
    """The chunks of a stream, in order; none for an empty one.

    Args:
        data: The stream, as flat bytes.
        rule: The store's parameters.
    """
    size = data.nbytes
    if size <= rule.usual:
        return [data] if size else []
    found = _places(data, 1 << (8 * _HASH_BYTES - rule.loose_bits))
    loose = [place for place, _ in found]
    limit = 1 << (8 * _HASH_BYTES - rule.strict_bits)
    strict = [place for place, value in found if value < limit]
    chunks: list[memoryview] = []
    start = 0
    while start < size:
        end = (
            _first(strict, start + rule.least, start + rule.usual)
            or _first(loose, start + rule.usual, start + rule.most)
            or min(start + rule.most, size)
        )
        chunks.append(data[start:end])
        start = end
    return chunks


def _first(places: list[int], low: int, high: int) -> int:
    """The first of the sorted `places` in `low ≤ place < high`; 0 if there is none."""
    at = bisect_left(places, low)
    return places[at] if at < len(places) and places[at] < high else 0


def _places(data: memoryview, limit: int) -> list[tuple[int, int]]:
    """Where a chunk could end: places after a byte whose hash is below `limit`, with the hash."""
    if _has_numpy():
        return _places_by_numpy(sys.modules["numpy"], data, limit)
    return _places_by_integers(data, limit)


def _has_numpy() -> bool:
    # Looked up, not imported: in a user's process nothing is loaded that the notebook did not.
    return hasattr(sys.modules.get("numpy"), "flatnonzero")  # or another thread still imports it


def _places_by_numpy(np: Any, data: memoryview, limit: int) -> list[tuple[int, int]]:
    """All places, by several threads: array operations let others run."""
    gear = np.frombuffer(_gear(), "<u4").astype(np.uint32)
    content = np.frombuffer(data, np.uint8)

    def search(start: int) -> list[tuple[int, int]]:
        hashes = np.empty(WINDOW - 1 + _NUMPY_BLOCK, np.uint32)
        shifted = np.empty_like(hashes)
        found: list[tuple[int, int]] = []
        for at in range(start, min(start + _NUMPY_PART, data.nbytes), _NUMPY_BLOCK):
            before = max(0, at - (WINDOW - 1))
            block = content[before : at + _NUMPY_BLOCK]
            h, t = hashes[: block.size], shifted[: block.size]
            np.take(gear, block, out=h, mode="clip")
            for step in _STEPS:
                np.left_shift(h[:-step], step, out=t[step:])
                np.bitwise_xor(h[step:], t[step:], out=h[step:])
            here = np.flatnonzero(h[at - before :] < limit) + (at - before)
            found += zip((here + (before + 1)).tolist(), h[here].tolist(), strict=True)
        return found

    parts = run_all(search, range(0, data.nbytes, _NUMPY_PART))
    return [place for part in parts for place in part]


def _places_by_integers(data: memoryview, limit: int) -> list[tuple[int, int]]:
    """The same without numpy: the hashes of a block are digits of one long integer."""
    planes = [_gear()[number::_HASH_BYTES] for number in range(_HASH_BYTES)]
    found: list[tuple[int, int]] = []
    for at in range(0, data.nbytes, _INTEGER_BLOCK):
        before = max(0, at - (WINDOW - 1))
        block = bytes(data[before : at + _INTEGER_BLOCK])
        width = _HASH_BYTES * len(block)
        content = bytearray(width)
        for number, plane in enumerate(planes):
            content[number::_HASH_BYTES] = block.translate(plane)
        hashes = int.from_bytes(content, "little")
        for step in _STEPS:
            # Each digit moves on by `step` places and is shifted by `step` bits.
            hashes ^= (hashes << (step * (8 * _HASH_BYTES + 1))) & _kept(step, len(block))
        content[:] = (hashes & ((1 << (8 * width)) - 1)).to_bytes(width, "little")
        highest = content[_HASH_BYTES - 1 :: _HASH_BYTES]
        here = highest.find(0, at - before)
        while here >= 0:
            value = int.from_bytes(content[here * _HASH_BYTES : (here + 1) * _HASH_BYTES], "little")
            if value < limit:
                found.append((before + here + 1, value))
            here = highest.find(0, here + 1)
    return found


@cache
def _gear() -> bytes:
    """A random number of 32 bits for each value of a byte; part of the store format."""
    return blake3(b"nbrewind gear 1").digest(256 * _HASH_BYTES)


@lru_cache(maxsize=32)
def _kept(step: int, count: int) -> int:
    """A mask over `count` hashes that clears the bits which came from the neighbour's top."""
    one = ((0xFFFFFFFF << step) & 0xFFFFFFFF).to_bytes(_HASH_BYTES, "little")
    return int.from_bytes(one * count, "little")
