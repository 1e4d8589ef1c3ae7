"""What a look at state costs: `python tests/benchmarks/capture.py [--quick]`.

In process, without kernels. The look after a cell that only read a value, and after one that
changed it, as multiples of what no detector can do without: one `pickle.dumps` of small
objects; of large buffers one XXH3 pass and, if they changed, one copy. After a change the
look also has the value's version, and finds out whether it shares anything with another
value that was touched. All take turns; each figure is the best of all rounds, in processor
time of all threads, which depends less on what else the machine does.
"""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from tables import keep, options, show
from values import FRAMES, OBJECTS, define_in
from xxhash import xxh3_128_digest

from nbrewind.state.capture import Examination
from nbrewind.state.entities import EntityTable
from nbrewind.state.pickling import Scope
from nbrewind.state.sharing import Sharing
from nbrewind.store.leaves import LeafHasher

_MILLION = 1_000_000
_OBJECTS = 300_000


class Looks:
    """Looks at one value, time and again, as a session would."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._other = [[0], [1]]
        self._hasher = LeafHasher()
        self._scope = Scope(vars(sys.modules["__main__"]), EntityTable())

    def read(self) -> None:
        """The look after a cell that may have changed the value."""
        self._look(Examination(self._scope, self._hasher))

    def changed(self) -> None:
        """The look after a cell that did."""
        exam = Examination(self._scope, self._hasher)
        dump = self._look(exam)
        Sharing({"other": exam.look(self._other), "value": dump}).components()
        exam.version(exam.finish(dump))

    def _look(self, exam: Examination) -> Any:
        dump = exam.look(self._value)
        if dump.problem:
            raise RuntimeError(dump.problem)
        return dump


def best(rounds: int, **functions: Callable[[], object]) -> dict[str, float]:
    """The least processor time of each function, in milliseconds; they take turns."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            began = time.process_time()
            function()
            times[name].append(1e3 * (time.process_time() - began))
    return {name: min(found) for name, found in times.items()}


def object_row(name: str, value: Any, rounds: int) -> dict[str, Any]:
    """One line of the tables of objects."""
    looks = Looks(value)
    looks.changed()
    found = best(
        rounds, dumps=lambda: pickle.dumps(value, 5), read=looks.read, changed=looks.changed
    )
    return {
        "value": name,
        "ms, pickle.dumps": round(found["dumps"], 2),
        "ms, read": round(found["read"], 2),
        "read / dumps": round(found["read"] / found["dumps"], 2),
        "changed / dumps": round(found["changed"] / found["dumps"], 2),
    }


def buffer_row(name: str, array: Any, change: Callable[[], None], rounds: int) -> dict[str, Any]:
    """One line of the table of buffers."""
    looks = Looks(array)
    looks.changed()
    copy = array.copy()
    found = best(
        rounds,
        xxh3=lambda: xxh3_128_digest(array),
        memcpy=lambda: np.copyto(copy, array),
        read=looks.read,
        change=change,
        changed=looks.changed,
    )
    return {
        "value": name,
        "ms, xxh3": round(found["xxh3"], 1),
        "ms, memcpy": round(found["memcpy"], 1),
        "read / xxh3": round(found["read"] / found["xxh3"], 2),
        "(changed - read) / memcpy": round((found["changed"] - found["read"]) / found["memcpy"], 2),
    }


def main() -> None:
    """Print a table for objects, one for frames and one for buffers."""
    given = options("Cost of looking at values, in process.")
    define_in(sys.modules["__main__"])
    rounds = given.rounds or (2 if given.quick else 7)
    count = 5_000 if given.quick else _OBJECTS
    objects = [
        object_row(name, make(count), rounds)
        for name, make in OBJECTS.items()
        if given.only in name
    ]
    show(f"{count} objects, best of {rounds} rounds", objects)
    rows = 5_000 if given.quick else 2 * _MILLION
    frames = [
        object_row(f"frame, {name}", make(rows), rounds)
        for name, make in FRAMES.items()
        if given.only in f"frame, {name}"
    ]
    show(f"\nFrames of {rows} rows, best of {rounds} rounds", frames)
    size = _MILLION if given.quick else 1_000 * _MILLION
    array = np.random.default_rng(0).random(size // 8)

    def change_one() -> None:
        array[len(array) // 2] += 1.0

    def change_all() -> None:
        np.add(array, 1.0, out=array)

    changes = {"one element": change_one, "every element": change_all}
    buffers = [
        buffer_row(f"buffer, {name} changed", array, change, rounds)
        for name, change in changes.items()
        if given.only in f"buffer, {name} changed"
    ]
    show(f"\n{size / 1e6:.0f} MB, best of {rounds} rounds", buffers)
    keep([*objects, *frames, *buffers], given.json)


if __name__ == "__main__":
    main()
