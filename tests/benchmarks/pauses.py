"""How long a cell waits for its checkpoint: `python tests/benchmarks/pauses.py [--quick]`.

In process: a value changes, and is committed as a kernel does it. *Pause* is the time until
the cell could go on; it is compared with one copy of the changed bytes into memory that is in
use but in no cache, with the same through the session's own threads, and with a commit that
waits for the disk. The sides take turns; times are medians.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tables import keep, options, show

from nbrewind.store.local import LocalStore, open_store
from nbrewind.testing.store_conformance import ref_body


class Change:
    """An array of which a part changes every time."""

    def __init__(self, size: int, part: float) -> None:
        self.data = np.random.default_rng(0).random(size // 8)
        self._part = part

    def happen(self) -> None:
        """Change the first part of it."""
        self.data[: self.size // 8] += 1

    @property
    def size(self) -> int:
        """Bytes that change."""
        return int(self.data.nbytes * self._part)


def commit(store: LocalStore, data: Any, number: int, *, wait: bool) -> tuple[float, float]:
    """Seconds for naming the bytes, and for committing them."""
    start = time.perf_counter()
    leaves = store.hasher.leaves(data)
    named = time.perf_counter()
    writer = store.begin()
    writer.put_blob(data, leaves)
    body = ref_body(writer.put("record", str(number).encode()), seq=number)
    if wait:
        writer.commit(body)
    else:
        writer.commit_later(body, _fail)
    return named - start, time.perf_counter() - named


def _fail(problem: Exception) -> None:
    raise problem


@contextlib.contextmanager
def stores() -> Iterator[dict[str, LocalStore]]:
    """A store for each way to commit."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", ".")) as folder:
        root = Path(folder)
        found = {
            "flusher": open_store(root / "flusher", flusher=contextlib.nullcontext),
            "threads": open_store(root / "threads"),
            "waiting": open_store(root / "waiting"),
        }
        yield found
        for store in found.values():
            store.close()


def row(name: str, size: int, part: float, rounds: int) -> dict[str, Any]:
    """One line of the table."""
    change = Change(size, part)
    targets = [np.ones(size // 8) for _ in range(4)]  # together larger than caches
    taken: dict[str, list[float]] = {}
    with stores() as found:
        for number in range(rounds + 1):
            for way, store in found.items():
                change.happen()
                hashed, committed = commit(store, change.data, number, wait=way == "waiting")
                store.settle()
                if number:  # the first touches fresh memory
                    taken.setdefault(f"{way}, hash", []).append(hashed)
                    taken.setdefault(way, []).append(committed)
                    taken.setdefault(f"{way}, all", []).append(hashed + committed)
            target = targets[number % len(targets)]
            start = time.perf_counter()
            target[: change.size // 8] = change.data[: change.size // 8]
            taken.setdefault("copy", []).append(time.perf_counter() - start)
    medians = {way: statistics.median(times) for way, times in taken.items()}
    copy = medians["copy"]
    return {
        "changed": name,
        "ms, one copy": round(copy * 1e3, 2),
        "ms, pause": round(medians["flusher, all"] * 1e3, 2),
        "pause / copy": round(medians["flusher, all"] / copy, 2),
        "of it hash": round(medians["flusher, hash"] / copy, 2),
        "of it hand-over": round(medians["flusher"] / copy, 2),
        "threads / copy": round(medians["threads, all"] / copy, 2),
        "waiting / pause": round(medians["waiting, all"] / medians["flusher, all"], 1),
    }


def main() -> None:
    """Print and keep the table."""
    given = options("What a cell waits for its checkpoint.")
    size = 4_194_304 if given.quick else 64 * 1024 * 1024
    rounds = given.rounds or (3 if given.quick else 15)
    cases = {"all of it": 1.0, "an eighth": 0.125}
    rows = [row(name, size, part, rounds) for name, part in cases.items() if given.only in name]
    show(f"Pause after a cell that changes an array of {size / 1e6:.0f} MB", rows)
    keep(rows, given.json)


if __name__ == "__main__":
    main()
