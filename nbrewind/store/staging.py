"""Memory in which payloads wait to be written, used again and again.

A copy into fresh memory costs many times what one into memory in use costs: the system
hands out every page zeroed, when it is first touched. So blocks are kept.
"""

from __future__ import annotations

from collections import deque

BLOCK_BYTES = 4 * 1024 * 1024
_MOST_FREE = 16
"""Blocks kept for the next commits; a burst may use more for a while."""


class Staging:
    """The blocks of one store. Safe to use from several threads."""

    def __init__(self) -> None:
        self._free: deque[bytearray] = deque()

    def take(self) -> bytearray:
        """A block that nobody else uses; its content is arbitrary."""
        try:
            return self._free.pop()
        except IndexError:
            return bytearray(BLOCK_BYTES)

    def give(self, block: bytearray) -> None:
        """The block is not used any more."""
        if len(self._free) < _MOST_FREE:
            self._free.append(block)


class Copies:
    """Copies that live until `release`."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self._blocks: list[bytearray] = []
        self._used = BLOCK_BYTES

    def copy(self, data: memoryview) -> memoryview | bytes:
        """A copy of flat bytes."""
        if data.nbytes > BLOCK_BYTES:
            return bytes(data)
        if self._used + data.nbytes > BLOCK_BYTES:
            self._blocks.append(self._staging.take())
            self._used = 0
        place = memoryview(self._blocks[-1])[self._used : self._used + data.nbytes]
        place[:] = data
        self._used += data.nbytes
        return place

    def release(self) -> None:
        """Nobody refers to the copies any more."""
        while self._blocks:
            self._staging.give(self._blocks.pop())
        self._used = BLOCK_BYTES
