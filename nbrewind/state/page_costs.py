"""What it costs on this machine to follow pages, against hashing everything."""

from __future__ import annotations

import ctypes
import mmap
import time
from collections.abc import Callable
from dataclasses import dataclass

from nbrewind.model.blobs import LEAF_BYTES
from nbrewind.state.written_pages import PAGE, WrittenPages

_PROBE_PAGES = 512
_ROUNDS = 3
_WORTHWHILE = 0.7
"""What following may cost, over hashing everything: both are estimates."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds for each page."""

    scan: float
    """Asking whether it was written."""
    protect: float
    """Protecting it again after it was."""
    fault: float
    """What the first write to it takes longer: that is the user's cell."""

    def are_worthwhile(
        self, size: int, written: float, changed: float, hash_seconds: float
    ) -> bool:
        """Whether following memory costs clearly less than hashing it at every look.

        Args:
            size: Bytes of the memory.
            written: Pages that are written between two looks, as expected.
            changed: Leaves in which they are.
            hash_seconds: Of one byte.
        """
        again = min(size, changed * LEAF_BYTES)
        followed = (
            self.scan * size / PAGE
            + self.fault * written
            + self.protect * again / PAGE
            + hash_seconds * again
        )
        return followed < _WORTHWHILE * hash_seconds * size


def measure(pages: WrittenPages) -> Costs:
    """Measure it, on two megabytes, in some milliseconds.

    Raises:
        OSError: this process may not have its pages followed.
    """
    size = _PROBE_PAGES * PAGE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with mmap.mmap(-1, size, flags=flags) as memory:
        anchor = ctypes.c_char.from_buffer(memory)
        start = ctypes.addressof(anchor)
        ctypes.memset(start, 1, size)
        pages.register(start, start + size)
        best = [float("inf")] * 4
        for _ in range(_ROUNDS):
            steps: tuple[Callable[[], object], ...] = (
                lambda: pages.protect(start, start + size),
                lambda: pages.protected(start, start + size),
                lambda: ctypes.memset(start, 2, size),
                lambda: ctypes.memset(start, 3, size),
            )
            best = [min(known, _seconds(step)) for known, step in zip(best, steps, strict=True)]
        del anchor
    protect, scan, first, again = (seconds / _PROBE_PAGES for seconds in best)
    return Costs(scan=scan, protect=protect, fault=max(0.0, first - again))


def _seconds(step: Callable[[], object]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start
