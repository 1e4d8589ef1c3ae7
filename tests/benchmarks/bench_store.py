"""What the store costs: `python tests/benchmarks/bench_store.py [--quick] [--only NAME]`.

In process, without kernels, in a folder below the working directory unless `TMPDIR` says
otherwise: it must not be a file system in memory. Four tables, of ratios from one run:

- commits, in bytes per second, over one plain sequential write and `fsync` of the same bytes;
- stored bytes over changed bytes;
- restoring the last version of a value that changed 200 times, over restoring it from a store
  that has nothing else; files are dropped from the page cache before, where that can be done;
- opening a store of 10,000 executions, and looking things up in it.

The sides take turns; times are medians.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from tables import keep, options, show

from nbrewind.model.blobs import LEAF_BYTES, BlobRef
from nbrewind.store import open_store
from nbrewind.store.local import LocalStore
from nbrewind.testing.store_conformance import ref_body

_MEGABYTE = 1_000_000
_VERSIONS = 200


def put(store: LocalStore, data: Any, name: str = "s", *, stream: bool = False) -> BlobRef:
    """Commit an execution with one value, later."""
    writer = store.begin()
    blob = (writer.put_stream if stream else writer.put_blob)(data)
    record = writer.put("record", msgspec.msgpack.encode(blob))

    def failed(problem: Exception) -> None:
        raise problem

    writer.commit_later(ref_body(record, source_digest=name, created=1e9), failed)
    return blob


# Throughput.

CONTENTS: dict[str, Callable[[int], np.ndarray[Any, Any]]] = {
    "random bytes": lambda size: np.frombuffer(random.randbytes(size), np.uint8),
    "random doubles": lambda size: np.random.default_rng(0).random(size // 8),
    "doubles that wander": lambda size: np.cumsum(
        np.random.default_rng(0).normal(size=size // 8) * 1e-3
    ),
    "text": lambda size: np.frombuffer(
        "".join(f"{i},{i * 0.37:.6f},row\n" for i in range(size // 20)).encode(), np.uint8
    ),
}


def plain(path: Path, data: memoryview) -> None:
    """What commits are compared with."""
    with open(path, "xb", buffering=0) as file:
        for at in range(0, data.nbytes, 4 * 1024 * 1024):
            file.write(data[at : at + 4 * 1024 * 1024])
        os.fsync(file.fileno())


def throughput_row(
    folder: Path, name: str, data: Any, rounds: int, *, stream: bool
) -> dict[str, Any]:
    """One line of the table of commits; the value is cut into eight, one for each execution."""
    view = memoryview(data).cast("B")
    part = view.nbytes // 8
    times: dict[str, list[float]] = {"plain": [], "store": []}
    for number in range(rounds):
        path = folder / f"plain-{number}"
        began = time.perf_counter()
        plain(path, view)
        times["plain"].append(time.perf_counter() - began)
        path.unlink()
        with open_store(folder / f"store-{name}-{stream}-{number}") as store:
            began = time.perf_counter()
            for at in range(0, 8 * part, part):
                put(store, view[at : at + part], stream=stream)
            store.settle()
            times["store"].append(time.perf_counter() - began)
    medians = {side: statistics.median(found) for side, found in times.items()}
    ratios = [a / b for a, b in zip(times["plain"], times["store"], strict=True)]
    return {
        "commits": f"{name}{', a stream' if stream else ''}",
        "MB/s, plain": round(view.nbytes / medians["plain"] / _MEGABYTE),
        "MB/s, store": round(view.nbytes / medians["store"] / _MEGABYTE),
        "store / plain": round(statistics.median(ratios), 2),
    }


# Stored bytes.


def stored_rows(folder: Path, leaves: int) -> Iterator[dict[str, Any]]:
    """The lines of the table of sizes."""
    rng = random.Random(1)
    data = rng.randbytes(leaves * LEAF_BYTES)
    few = bytearray(data)
    for leaf in rng.sample(range(leaves), max(1, leaves // 100)):
        few[leaf * LEAF_BYTES + 7] ^= 1
    middle = len(data) // 2
    changes: dict[str, tuple[bytes | bytearray, bool]] = {
        "1 % of a buffer's leaves": (few, False),
        "10 % appended to a buffer": (data + rng.randbytes(len(data) // 10), False),
        "10 % appended to a stream": (data + rng.randbytes(len(data) // 10), True),
        "10 bytes inserted in a stream": (data[:middle] + b"0123456789" + data[middle:], True),
    }
    for name, (changed, stream) in changes.items():
        with open_store(folder / f"sizes-{name[:12]}-{stream}") as store:
            put(store, data, stream=stream)
            before = store.info().bytes
            put(store, changed, stream=stream)
            added = store.info().bytes - before
        yield {"change": name, "added / whole": f"{100 * added / len(data):.2f} %"}


# Restoring.


def many_versions(folder: Path, leaves: int) -> bytes:
    """Fill two stores, `old` with 200 versions of a value and `new` with the last; returns it."""
    rng = random.Random(2)
    data = bytearray(rng.randbytes(leaves * LEAF_BYTES))
    with open_store(folder / "old") as store:
        for _ in range(_VERSIONS - 1):
            put(store, data)
            for leaf in rng.sample(range(leaves), max(1, leaves // 100)):
                start = leaf * LEAF_BYTES
                data[start : start + LEAF_BYTES] = rng.randbytes(LEAF_BYTES)
        put(store, data, "last")
    with open_store(folder / "new") as store:
        put(store, data, "last")
    return bytes(data)


def drop(folder: Path) -> None:
    """Forget the content of files, where the system can be told."""
    if hasattr(os, "posix_fadvise"):
        for path in folder.rglob("*"):
            if path.is_file():
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


RESTORE = """
import sys, time
import msgspec
from nbrewind.model.blobs import BlobRef
from nbrewind.store import open_store
began = time.perf_counter()
store = open_store(sys.argv[1])
(ref,) = store.refs("last")
blob = msgspec.msgpack.decode(store.get(ref.body.record), type=BlobRef)
found = time.perf_counter()
store.get_blob(blob)
print(found - began, time.perf_counter() - found)
"""


def restore_rows(folder: Path, leaves: int, rounds: int) -> Iterator[dict[str, Any]]:
    """The lines of the table of restored values."""
    many_versions(folder, leaves)
    for name in ("from disk", "from the page cache"):
        times: dict[str, list[tuple[float, float]]] = {"old": [], "new": []}
        for _ in range(rounds):
            for side, found in times.items():
                if name == "from disk":
                    drop(folder / side)
                lookup, read = run(RESTORE, folder / side)
                found.append((lookup, read))
        reads = {
            side: statistics.median(read for _, read in found) for side, found in times.items()
        }
        totals = {side: statistics.median(map(sum, found)) for side, found in times.items()}
        yield {
            "restored": f"version {_VERSIONS}, {name}",
            "ms, only version": round(1e3 * totals["new"], 1),
            "ms, last of many": round(1e3 * totals["old"], 1),
            "reading": round(reads["old"] / reads["new"], 2),
            "with opening": round(totals["old"] / totals["new"], 2),
        }


def run(program: str, *arguments: object) -> list[float]:
    """The numbers that a program prints, run as a process of its own."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return [float(word) for word in subprocess.check_output(command, text=True).split()]


# Scale.

LOOK_UP = """
import statistics, sys, time
from nbrewind.store import open_store
began = time.perf_counter()
store = open_store(sys.argv[1])
opened = time.perf_counter() - began
times = []
for number in range(0, int(sys.argv[2]), max(1, int(sys.argv[2]) // 100)):
    began = time.perf_counter()
    (ref,) = store.refs(str(number))
    store.get(ref.body.record)
    times.append(time.perf_counter() - began)
print(opened, statistics.median(times), max(times[1:]))
"""


def scale_rows(
    folder: Path, executions: int, objects: int, rounds: int
) -> Iterator[dict[str, Any]]:
    """The lines of the table of a large store."""
    path = folder / "scale"
    # Nothing here outlives this run: what is measured is reading.
    synchronise, os.fsync = os.fsync, lambda fd: None
    try:
        with open_store(path) as store:
            for number in range(executions):
                writer = store.begin()
                for _ in range(objects - 1):
                    writer.put("chunk", os.urandom(256))
                record = writer.put("record", os.urandom(512))
                writer.commit(
                    ref_body(
                        record,
                        source_digest=str(number),
                        lineage=f"{number % 20:032x}",
                        created=1e9 + number,
                    )
                )
    finally:
        os.fsync = synchronise
    open_store(path).close()
    inodes = sum(1 for _ in path.rglob("*"))
    for name in ("from disk", "from the page cache"):
        found = []
        for _ in range(rounds):
            if name == "from disk":
                drop(path)
            found.append(run(LOOK_UP, path, executions))
        opened, median, worst = (statistics.median(column) for column in zip(*found, strict=True))
        yield {
            "store": f"{executions} executions, {executions * objects} objects, {name}",
            "ms, opening": round(1e3 * opened, 1),
            "ms, lookup": round(1e3 * median, 2),
            "ms, slowest lookup": round(1e3 * worst, 2),
            "inodes / execution": round(inodes / executions, 2),
        }


def main() -> None:
    """Print the four tables."""
    given = options("Cost of the store, in process.")
    quick = given.quick
    rounds = given.rounds or (1 if quick else 5)
    size = (4 if quick else 256) * _MEGABYTE
    rows: list[dict[str, Any]] = []

    def table(name: str, title: str, found: Callable[[Path], Iterator[dict[str, Any]]]) -> None:
        if given.only in name:
            with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", ".")) as folder:
                here = list(found(Path(folder)))
            show(title, here)
            rows.extend(here)

    def throughput(folder: Path) -> Iterator[dict[str, Any]]:
        for name, make in CONTENTS.items():
            data = make(size)
            for stream in (False, True):
                yield throughput_row(folder, name, data, rounds, stream=stream)

    table("throughput", f"{size // _MEGABYTE} MB in eight executions", throughput)
    leaves = 20 if quick else 400
    table(
        "sizes",
        f"\nGrowth of a store with {leaves * LEAF_BYTES // _MEGABYTE} MB",
        lambda folder: stored_rows(folder, leaves),
    )
    leaves = 16 if quick else 256
    table(
        "restore",
        f"\n{leaves * LEAF_BYTES // _MEGABYTE} MB, 1 % of it changed at a time",
        lambda folder: restore_rows(folder, leaves, rounds),
    )
    table(
        "scale",
        "\nA large store",
        lambda folder: scale_rows(folder, 300 if quick else 10_000, 10, rounds),
    )
    keep(rows, given.json)


if __name__ == "__main__":
    main()
