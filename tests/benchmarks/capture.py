"""What a look at state costs: `python tests/benchmarks/capture.py [--quick]`.

In process, without kernels. For many small objects and for large buffers: the look after
a cell that only read the value, and after one that changed it, as multiples of what no
detector can do without: one `pickle.dumps`, one XXH3 pass, one copy. Both sides are
timed in turn; ratios are medians over the rounds.
"""

from __future__ import annotations

import pickle
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from tables import keep, options, show
from xxhash import xxh3_128_digest

from nbrewind.state.capture import Examination
from nbrewind.state.entities import EntityTable
from nbrewind.state.pickling import Scope
from nbrewind.state.sharing import Sharing
from nbrewind.store.leaves import LeafHasher

_MILLION = 1_000_000


def _records(count: int) -> list[dict[str, Any]]:
    return [{"id": i, "name": f"item {i}", "score": i / 7} for i in range(count // 5)]


def _nested(count: int) -> list[list[int]]:
    return [[i, i + 1, i + 2] for i in range(1000, 1000 + count // 4)]


def _texts(count: int) -> list[str]:
    return [f"text number {i}" for i in range(count)]


def _touch(value: list[Any]) -> None:
    value[0], value[-1] = value[-1], value[0]


def _touch_array(value: Any) -> None:
    value[len(value) // 2] += 1.0


def _touch_everything(value: Any) -> None:
    value += 1.0


def row(
    name: str,
    value: Any,
    change: Callable[[Any], None],
    yardsticks: dict[str, Callable[[Any], object]],
    rounds: int,
) -> dict[str, Any]:
    """One line of the table."""
    hasher = LeafHasher()
    namespace = {"value": value}
    scope = Scope(namespace, EntityTable())

    def look(*, changed: bool) -> None:
        exam = Examination(scope, hasher)
        dump = exam.look(value)
        if changed:
            # Another mutable value was touched too: do they share anything?
            Sharing({"other": exam.look([0]), "value": dump}).components()
            exam.version(dump)

    look(changed=True)
    read, wrote = [], []
    others: dict[str, list[float]] = {key: [] for key in yardsticks}
    for _ in range(rounds):
        for key, function in yardsticks.items():
            others[key].append(_seconds(lambda f=function: f(value)))
        read.append(_seconds(lambda: look(changed=False)))
        change(value)
        wrote.append(_seconds(lambda: look(changed=True)))
    result: dict[str, Any] = {"value": name}
    for what, mine in (("read", read), ("changed", wrote)):
        for key, theirs in others.items():
            ratio = statistics.median([m / t for m, t in zip(mine, theirs, strict=True)])
            result[f"{what} / {key}"] = round(ratio, 2)
    result["ms, changed"] = round(1e3 * statistics.median(wrote), 1)
    return result


def _seconds(function: Callable[[], object]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def main() -> None:
    """Print one table for objects and one for buffers."""
    given = options("Cost of looking at values, in process.")
    rounds = given.rounds or (2 if given.quick else 9)
    count = 5_000 if given.quick else _MILLION
    size = _MILLION if given.quick else 1_000 * _MILLION
    dumps = {"pickle.dumps": lambda value: pickle.dumps(value, 5)}
    objects = [
        row(f"{count} objects: {make.__name__[1:]}", make(count), _touch, dumps, rounds)
        for make in (_records, _nested, _texts)
        if given.only in make.__name__
    ]
    show(f"Small objects, medians of {rounds} rounds", objects)
    passes = {"xxh3": lambda value: xxh3_128_digest(value), "copy": lambda value: value.copy()}
    array = np.random.default_rng(0).random(size // 8)
    buffers = [
        row(f"{size / 1e6:.0f} MB: {name}", array, change, passes, rounds)
        for name, change in (("one element", _touch_array), ("every element", _touch_everything))
        if given.only in name
    ]
    show(f"\nLarge buffers, medians of {rounds} rounds", buffers)
    keep([*objects, *buffers], given.json)


if __name__ == "__main__":
    main()
