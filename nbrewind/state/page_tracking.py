"""Keys of large buffers, without reading what the system says was not written.

A `PageTracker` computes what `LeafHasher.keys` does. It remembers the keys of large buffers by
address, has their pages protected before it reads them, and at the next look hashes only leaves
on whose pages something was written. The claim is about memory, not about objects: whatever lies
at an address now, if its pages were not written, it is what was hashed.

All of it is a matter of speed. Where it does not work or does not pay, everything is hashed.
"""

from __future__ import annotations

import ctypes
import logging
import os
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from nbrewind.model.blobs import LEAF_BYTES
from nbrewind.model.spans import stopwatch
from nbrewind.state import direct_writers
from nbrewind.state.audit import unheard
from nbrewind.state.page_costs import Costs, measure
from nbrewind.state.written_pages import PAGE, Run, WrittenPages
from nbrewind.store.leaves import LeafHasher, LeafKey, LeafKeys, flat

log = logging.getLogger(__name__)

MODE_VARIABLE = "NBREWIND_PAGE_TRACKING"
"""`auto`: where it pays; `always`: wherever it can be done; anything else: not at all."""
LEAST_VARIABLE = "NBREWIND_PAGE_TRACKING_BYTES"
_LEAST_BYTES = 16 * 2**20

_MOST_REGIONS = 256
_SAMPLE = 64
"""One of so many leaves that are taken for unwritten is hashed all the same."""

Known = list[LeafKey | None]
"""The keys of a buffer's leaves, as far as they need no hashing."""


@dataclass(slots=True)
class _Region:
    """The memory of a buffer that was hashed."""

    address: int
    size: int
    keys: LeafKeys = ()
    """As of the last look."""
    is_registered: bool = False
    is_refused: bool = False
    is_followed: bool = False
    """Writes since before the last look are noted."""
    head: bytes = b""
    """What lies before the first whole page. That page is not ours alone."""
    tail: bytes = b""
    expected: tuple[float, float] | None = None
    """Pages written and leaves changed between two looks."""

    @property
    def start(self) -> int:
        """Address of the first whole page."""
        return -(-self.address // PAGE) * PAGE

    @property
    def end(self) -> int:
        """Address after the last whole page."""
        return (self.address + self.size) // PAGE * PAGE

    def edges(self, view: memoryview) -> tuple[bytes, bytes]:
        """The bytes before the first and after the last whole page."""
        return bytes(view[: self.start - self.address]), bytes(view[self.end - self.address :])

    def leaf_pages(self, first: int, last: int, known: Known) -> Run:
        """The pages of the leaves from `first` to before `last`, and of none that is known."""
        start = self.address + first * LEAF_BYTES
        end = min(self.address + last * LEAF_BYTES, self.address + self.size)
        # A page of which half belongs to a known leaf has not been written. If it is by now, that
        # must stay visible.
        start = -(-start // PAGE) * PAGE if first and known[first - 1] else start // PAGE * PAGE
        end = end // PAGE * PAGE if last < len(known) and known[last] else -(-end // PAGE) * PAGE
        return max(start, self.start), min(end, self.end)


class PageTracker:
    """Computes the keys of buffers for one process.

    Args:
        hasher: What hashes what has to be hashed.
        mode: Whether and when pages are followed: see `MODE_VARIABLE`.
        least_bytes: Size from which a buffer is worth it.
    """

    def __init__(
        self, hasher: LeafHasher, mode: str = "off", least_bytes: int = _LEAST_BYTES
    ) -> None:
        self._hasher = hasher
        self._is_on = mode in ("auto", "always")
        self._always = mode == "always"
        self._least = max(least_bytes, 2 * PAGE)
        self._regions: dict[tuple[int, int], _Region] = {}
        self._pages: WrittenPages | None = None
        self._costs: Costs | None = None
        self._hash_seconds = float("inf")
        """Of one byte, at best."""
        self._random = random.SystemRandom()
        self.skipped = 0
        """Bytes that did not have to be read, so far."""

    @classmethod
    def configured(cls, hasher: LeafHasher) -> PageTracker:
        """As the environment says; off by default."""
        try:
            least = int(os.environ.get(LEAST_VARIABLE, _LEAST_BYTES))
        except ValueError:
            least = _LEAST_BYTES
        return cls(hasher, os.environ.get(MODE_VARIABLE, "off"), least)

    @property
    def is_on(self) -> bool:
        """Whether pages are followed where that can be done."""
        return self._is_on

    def keys(self, buffer: memoryview) -> LeafKeys:
        """What `LeafHasher.keys` returns for a C-contiguous buffer."""
        if not self._is_on or buffer.nbytes < self._least:
            return self._hasher.keys(buffer)
        with unheard():
            pages = self._ready()
            if pages is None:
                return self._hasher.keys(buffer)
            return self._keys(pages, flat(buffer))

    def close(self) -> None:
        """Follow nothing any more."""
        self._regions.clear()
        self._is_on = False
        if self._pages is not None:
            self._pages.close()
            self._pages = None

    def _ready(self) -> WrittenPages | None:
        """The system's notes on this process; None where there are none."""
        pages = self._pages
        if pages is not None and pages.process != os.getpid():
            # In a fork: the parent's memory is none of ours, and its notes must stay as they are.
            self._regions.clear()
            pages.close()
            self._pages = pages = None
        if pages is None:
            try:
                self._pages = pages = WrittenPages()
                self._costs = measure(pages)
            except OSError as problem:
                self._give_up(f"pages cannot be followed here: {problem}")
                return None
            log.info("pages are followed; seconds for each: %s", self._costs)
        return pages

    def _give_up(self, why: str) -> None:
        self.close()
        log.warning("%s; large buffers are hashed as a whole", why)

    def _keys(self, pages: WrittenPages, view: memoryview) -> LeafKeys:
        region = self._region(address_of(view), view.nbytes)
        known: Known = []
        if region.is_followed:
            known = self._unwritten(pages, region, view)
            if not self._is_on:
                return self._hasher.keys(view)
        # Before anything is read: what is written while it is read counts as written.
        region.is_followed = self._wants(region) and self._follow(pages, region, known, view)
        started = time.perf_counter()
        keys = self._hasher.keys(view, known)
        if not known:
            spent = time.perf_counter() - started
            self._hash_seconds = min(self._hash_seconds, spent / view.nbytes)
            if region.keys:
                changed = sum(map(_differ, region.keys, keys))
                self._expect(region, changed * LEAF_BYTES / PAGE, changed)
        region.keys = keys
        return keys

    def _region(self, address: int, size: int) -> _Region:
        region = self._regions.pop((address, size), None)
        if region is None:
            region = _Region(address, size)
            # Two that overlap would take each other's pages for unwritten.
            for key, other in list(self._regions.items()):
                if other.start < region.end and region.start < other.end:
                    del self._regions[key]
            if len(self._regions) >= _MOST_REGIONS:
                del self._regions[next(iter(self._regions))]
        self._regions[address, size] = region
        return region

    # -- what was written -----------------------------------------------------------------

    def _unwritten(self, pages: WrittenPages, region: _Region, view: memoryview) -> Known:
        with stopwatch.measure("detect"):
            runs = pages.protected(region.start, region.end)
            known = _known(region, runs, view)
        written = (region.end - region.start - sum(end - start for start, end in runs)) / PAGE
        for i in self._sample(known):
            leaf = view[i * LEAF_BYTES : (i + 1) * LEAF_BYTES]
            if self._hasher.keys(leaf) == (known[i],):
                continue
            if self._was_written_since(pages, region, i, view):
                known[i] = None
            else:
                self._give_up("a change was not seen by its page")
                return []
        self._expect(region, written, known.count(None))
        self.skipped += sum(key[0] for key in known if key is not None)
        return known

    def _sample(self, known: Known) -> list[int]:
        found = [i for i, key in enumerate(known) if key is not None]
        return self._random.sample(found, -(-len(found) // _SAMPLE))

    @staticmethod
    def _was_written_since(
        pages: WrittenPages, region: _Region, leaf: int, view: memoryview
    ) -> bool:
        """Whether a leaf was written, by another thread, after it was asked about."""
        return _known(region, pages.protected(region.start, region.end), view)[leaf] is None

    # -- following ------------------------------------------------------------------------

    def _expect(self, region: _Region, written: float, changed: float) -> None:
        before = region.expected or (written, changed)
        region.expected = ((before[0] + written) / 2, (before[1] + changed) / 2)

    def _wants(self, region: _Region) -> bool:
        if region.is_refused:
            return False
        if self._always:
            return True
        if region.expected is None or self._costs is None:
            return False
        written, changed = region.expected
        return self._costs.are_worthwhile(region.size, written, changed, self._hash_seconds)

    def _follow(self, pages: WrittenPages, region: _Region, known: Known, view: memoryview) -> bool:
        """Have writes noted from now on; returns whether they are."""
        if known and None not in known:
            return True
        if direct_writers.may_write():
            return False
        try:
            if not region.is_registered:
                pages.register(region.start, region.end)
                region.is_registered = True
            for first, last in _unknown_runs(known, -(-region.size // LEAF_BYTES)):
                start, end = region.leaf_pages(first, last, known)
                if start < end:
                    pages.protect(start, end)
        except OSError as problem:
            log.debug("memory is not followed: %s", problem)
            # What was registered and is no more is other memory: that may do, at the next look.
            region.is_refused = not region.is_registered
            region.is_registered = False
            return False
        # Those of known leaves were compared already, and could have changed since.
        head, tail = region.edges(view)
        if not known or known[0] is None:
            region.head = head
        if not known or known[-1] is None:
            region.tail = tail
        return True


def _known(region: _Region, runs: Sequence[Run], view: memoryview) -> Known:
    """The keys of the leaves all pages of which are in the runs, and the edges as they were."""
    head, tail = region.edges(view)
    known: Known = [None] * len(region.keys)
    for start, end in runs:
        if start == region.start and head == region.head:
            start = region.address
        first = -(-(start - region.address) // LEAF_BYTES)
        last = (end - region.address) // LEAF_BYTES
        if end == region.end and tail == region.tail:
            last = len(known)
        if first < last:
            known[first:last] = region.keys[first:last]
    return known


def _unknown_runs(known: Known, leaves: int) -> Iterator[tuple[int, int]]:
    """Runs of leaves that are not known: the first, and the one after the last."""
    if not known:
        yield 0, leaves
        return
    at = 0
    for is_known, group in groupby(known, key=bool):
        length = sum(1 for _ in group)
        if not is_known:
            yield at, at + length
        at += length


def _differ(one: LeafKey, other: LeafKey) -> bool:
    return one != other


class _Buffer(ctypes.Structure):
    """`Py_buffer` of the C API."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


def address_of(view: memoryview) -> int:
    """Where the bytes of a C-contiguous buffer lie, also of one that cannot be written to."""
    found = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(found), 0)
    try:
        return int(found.buf or 0)
    finally:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(found))
