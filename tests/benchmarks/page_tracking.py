"""What following pages saves: `python tests/benchmarks/page_tracking.py [--quick]`.

In process. Of a buffer some pages are written, as one stretch or here and there; then it is
looked at. *Detection* is the look, of a tracker over one that hashes everything; *writing* is
what the user's own code takes longer for the same writes; *both* is what matters. *chosen* tells
what the cost model would do. The sides take turns; times are medians.
"""

from __future__ import annotations

import mmap
import statistics
import time
from typing import Any

import numpy as np
from tables import keep, options, show

from nbrewind.model.blobs import LEAF_BYTES
from nbrewind.state.page_costs import measure
from nbrewind.state.page_tracking import PageTracker
from nbrewind.state.written_pages import PAGE, WrittenPages
from nbrewind.store.leaves import LeafHasher

_PARTS = (0.0, 0.001, 0.01, 0.1, 1.0)


class Side:
    """A buffer, and what looks at it."""

    def __init__(self, size: int, mode: str) -> None:
        self.data = np.frombuffer(
            mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8
        )
        self.data[:] = 1
        self.tracker = PageTracker(LeafHasher(), mode)
        self.writing: list[float] = []
        self.looking: list[float] = []

    def round(self, pages: Any, value: int) -> None:
        """Write to some pages, and look."""
        start = time.perf_counter()
        self.data.reshape(-1, PAGE)[pages] = value
        written = time.perf_counter()
        self.tracker.keys(memoryview(self.data))
        self.writing.append(written - start)
        self.looking.append(time.perf_counter() - written)

    @property
    def medians(self) -> tuple[float, float]:
        """Seconds of writing and of looking, without the first two rounds."""
        return statistics.median(self.writing[2:]), statistics.median(self.looking[2:])


def row(size: int, part: float, rounds: int, *, scattered: bool) -> dict[str, Any]:
    """One line of the table."""
    count = int(size // PAGE * part)
    pages: Any = slice(0, count)
    leaves = -(-count * PAGE // LEAF_BYTES)
    if scattered:
        pages = np.random.default_rng(0).permutation(size // PAGE)[:count]
        leaves = len(np.unique(pages * PAGE // LEAF_BYTES))
    hashed, followed = Side(size, "off"), Side(size, "always")
    for number in range(rounds + 2):
        for side in (hashed, followed):
            side.round(pages, number)
    (plain_writing, plain), (writing, looking) = hashed.medians, followed.medians
    system = WrittenPages()
    costs = measure(system)
    system.close()
    pays = costs.are_worthwhile(size, count, leaves, min(hashed.looking) / size)
    for side in (hashed, followed):
        side.tracker.close()
    return {
        "written": f"{100 * part:g} %" + (", scattered pages" if scattered else ""),
        "ms, hashed": round(1e3 * plain, 2),
        "ms, followed": round(1e3 * looking, 2),
        "detection": round(looking / plain, 3),
        "writing": round(writing / plain_writing, 2) if count else "",
        "both": round((writing + looking) / (plain_writing + plain), 2),
        "us / fault": round(1e6 * costs.fault, 2),
        "chosen": "follow" if pays else "hash",
    }


def main() -> None:
    """Print and keep the table."""
    given = options("Following pages instead of hashing.")
    try:
        WrittenPages().close()
    except OSError as problem:
        show(f"Pages cannot be followed here: {problem}", [{"written": "nothing to measure"}])
        keep([{"written": str(problem)}], given.json)
        return
    size = (16 if given.quick else 500) * 2**20
    rounds = given.rounds or (3 if given.quick else 9)
    rows = [row(size, part, rounds, scattered=False) for part in _PARTS]
    rows += [row(size, part, rounds, scattered=True) for part in (0.001, 0.01)]
    show(f"A buffer of {size / 1e6:.0f} MB", rows)
    keep(rows, given.json)


if __name__ == "__main__":
    main()
