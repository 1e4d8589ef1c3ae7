"""Shared memory in which a session's objects wait for its flusher.

Blocks of one size lie in segments, each an anonymous file that both processes map. A
segment's pages are allocated before it is mapped, so that a full memory is an error of
ours and not the end of the process. First touch of a fresh page costs many times a copy
into a warm one: freed blocks are used again, the last freed first, and the next segment is
prepared in the background before it is needed.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
from collections.abc import Callable, Iterable

BLOCK_BYTES = 4 * 1024 * 1024
SEGMENT_BLOCKS = 8
SEGMENT_BYTES = SEGMENT_BLOCKS * BLOCK_BYTES
LEAST_BYTES = 2 * SEGMENT_BYTES
"""The smallest arena of use."""
_SPARE_SEGMENTS = 4
"""Segments without a block in use that are kept for what comes next."""

BUDGET_VARIABLE = "NBREWIND_STAGING_BYTES"

Piece = tuple[int, int, int]
"""Part of an object: number of its block, offset in it, length."""


def is_available() -> bool:
    """Whether this system has anonymous files that processes can share, and lets us make them."""
    if not hasattr(os, "memfd_create") or not hasattr(os, "posix_fallocate"):
        return False
    try:
        os.close(_make_file(mmap.PAGESIZE))
    except OSError:
        return False
    return True


def _make_file(size: int) -> int:
    fd = os.memfd_create("nbrewind-staging", os.MFD_CLOEXEC)
    try:
        os.posix_fallocate(fd, 0, size)
    except BaseException:
        os.close(fd)
        raise
    return fd


def budget() -> int:
    """Bytes that may wait: as the environment says, else a quarter of the free memory."""
    with contextlib.suppress(KeyError, ValueError):
        return max(LEAST_BYTES, int(os.environ[BUDGET_VARIABLE]))
    return max(LEAST_BYTES, _free_memory() // 4)


def _free_memory() -> int:
    free = [1 << 30]
    with contextlib.suppress(OSError, ValueError, LookupError):
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        free = [int(fields["MemAvailable"].split()[0]) * 1024]
    # A job or a container has less than its machine.
    with contextlib.suppress(OSError, ValueError):
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
            limit = int(file.read())
        with open("/sys/fs/cgroup/memory.current", encoding="ascii") as file:
            free.append(max(0, limit - int(file.read())))
    return min(free)


class Segment:
    """Consecutive blocks. The process that made it passes `fd` on to the other."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        populate = getattr(mmap, "MAP_POPULATE", 0)
        self.memory = mmap.mmap(fd, SEGMENT_BYTES, flags=mmap.MAP_SHARED | populate)
        self.view = memoryview(self.memory)

    def close(self) -> None:
        """Unmap it. What still refers to its blocks keeps the memory."""
        self.view.release()
        with contextlib.suppress(BufferError):
            self.memory.close()
        os.close(self.fd)


def make_segment() -> Segment:
    """A segment in fresh memory; raises `OSError` if there is not enough."""
    fd = _make_file(SEGMENT_BYTES)
    try:
        return Segment(fd)
    except BaseException:
        os.close(fd)
        raise


class ArenaFullError(Exception):
    """No block is free, and no more may be made."""


class Arena:
    """The blocks of one session. Safe to use from several threads.

    Args:
        limit: Bytes that blocks may take.
        announce: Called with number and segment when one is made, before it is used.
    """

    def __init__(self, limit: int, announce: Callable[[int, Segment], None]) -> None:
        self.limit = limit
        self._announce = announce
        self._segments: dict[int, Segment] = {}
        self._free: list[int] = []
        self._made = 0
        self._lock = threading.Lock()
        self._growing = threading.Lock()

    @property
    def segments(self) -> dict[int, Segment]:
        """The segments there are, by number."""
        with self._lock:
            return dict(self._segments)

    @property
    def used(self) -> int:
        """Bytes of the blocks in use."""
        with self._lock:
            return (len(self._segments) * SEGMENT_BLOCKS - len(self._free)) * BLOCK_BYTES

    def take(self) -> int:
        """A block that nobody else uses; its content is arbitrary.

        Raises:
            ArenaFullError: all are in use, and there must not or cannot be more.
        """
        while True:
            with self._lock:
                if self._free:
                    return self._free.pop()
            if not self.grow():
                raise ArenaFullError

    def grow(self) -> bool:
        """Make one more segment; False if that is not possible."""
        with self._growing:
            with self._lock:
                number = self._made
                if (len(self._segments) + 1) * SEGMENT_BYTES > self.limit:
                    return False
            try:
                segment = make_segment()
            except OSError:
                return False
            with self._lock:
                self._made += 1
                self._segments[number] = segment
            self._announce(number, segment)
            first = number * SEGMENT_BLOCKS
            with self._lock:
                # Below the warm ones, which are taken first.
                self._free[:0] = range(first, first + SEGMENT_BLOCKS)
        return True

    def is_short(self) -> bool:
        """Whether the next cell may find no free block."""
        with self._lock:
            return len(self._free) < SEGMENT_BLOCKS

    def give(self, blocks: Iterable[int]) -> None:
        """Blocks are not used any more."""
        with self._lock:
            self._free += blocks

    def shrink(self) -> list[int]:
        """Give idle memory back to the system; returns the numbers of the segments let go."""
        with self._lock:
            counts: dict[int, int] = {}
            for block in self._free:
                counts[block // SEGMENT_BLOCKS] = counts.get(block // SEGMENT_BLOCKS, 0) + 1
            idle = sorted(n for n, count in counts.items() if count == SEGMENT_BLOCKS)
            gone = idle[_SPARE_SEGMENTS:]
            self._free = [b for b in self._free if b // SEGMENT_BLOCKS not in gone]
            segments = [self._segments.pop(number) for number in gone]
        for segment in segments:
            segment.close()
        return gone

    def block(self, number: int) -> memoryview:
        """The memory of a block."""
        segment, place = divmod(number, SEGMENT_BLOCKS)
        start = place * BLOCK_BYTES
        return self._segments[segment].view[start : start + BLOCK_BYTES]

    def close(self) -> None:
        """Give everything back."""
        with self._lock:
            segments = [*self._segments.values()]
            self._segments.clear()
            self._free.clear()
        for segment in segments:
            segment.close()


class Staged:
    """What one commit has in an arena.

    Args:
        arena: Where.
        room: Called when the arena is full; returns when a try may succeed, or False.
    """

    def __init__(self, arena: Arena, room: Callable[[], bool]) -> None:
        self.blocks: list[int] = []
        self.size = 0
        """Bytes staged."""
        self._arena = arena
        self._room = room
        self._used = BLOCK_BYTES

    def add(self, data: memoryview) -> tuple[Piece, ...]:
        """Copy flat bytes; returns where they are. Raises `ArenaFullError`."""
        pieces: list[Piece] = []
        at = 0
        while at < data.nbytes:
            if self._used == BLOCK_BYTES:
                self.blocks.append(self._take())
                self._used = 0
            length = min(BLOCK_BYTES - self._used, data.nbytes - at)
            place = self._arena.block(self.blocks[-1])
            place[self._used : self._used + length] = data[at : at + length]
            pieces.append((self.blocks[-1], self._used, length))
            self._used += length
            at += length
        self.size += data.nbytes
        return tuple(pieces)

    def read(self, pieces: Iterable[Piece]) -> memoryview:
        """The bytes at these places."""
        views = [self._arena.block(block)[at : at + length] for block, at, length in pieces]
        return views[0] if len(views) == 1 else memoryview(b"".join(views))

    def release(self) -> None:
        """Nobody needs them any more."""
        blocks, self.blocks = self.blocks, []
        self._used = BLOCK_BYTES
        self._arena.give(blocks)

    def _take(self) -> int:
        while True:
            try:
                return self._arena.take()
            except ArenaFullError:
                if not self._room():
                    raise
