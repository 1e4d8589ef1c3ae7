"""What the benchmark of looks is given to look at."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import fractions
import random
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd


class Record:
    """What a notebook may define."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = str(number)
        self.share = number / 3


class Slotted:
    """An instance without a dictionary."""

    __slots__ = ("name", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = str(number)


@dataclasses.dataclass
class Item:
    """A data class."""

    number: int
    name: str
    share: float


def define_in(main: types.ModuleType) -> None:
    """Have the classes above count as the notebook's."""
    for kind in (Record, Slotted, Item):
        kind.__module__ = main.__name__
        setattr(main, kind.__name__, kind)


OBJECTS: dict[str, Callable[[int], Any]] = {
    "list of ints": lambda n: list(range(n)),
    "list of floats": lambda n: [i / 7 for i in range(n)],
    "list of floats, some NaN": lambda n: [float("nan") if i % 9 == 0 else i / 7 for i in range(n)],
    "list of texts": lambda n: [f"text number {i}" for i in range(n)],
    "dictionary of texts": lambda n: {f"key {i}": i for i in range(n)},
    "set of texts": lambda n: {f"text number {i}" for i in range(n)},
    "records": lambda n: [{"id": i, "name": f"item {i}", "score": i / 7} for i in range(n // 5)],
    "nested lists": lambda n: [[i, i + 1, i + 2] for i in range(1000, 1000 + n // 4)],
    "tuples": lambda n: [(i, str(i)) for i in range(n // 3)],
    "small sets": lambda n: [{i, i + 1} for i in range(n // 3)],
    "small frozen sets": lambda n: [frozenset((i, i + 1)) for i in range(n // 3)],
    "instances of the notebook's": lambda n: [Record(i) for i in range(n // 4)],
    "instances with slots": lambda n: [Slotted(i) for i in range(n // 4)],
    "data classes": lambda n: [Item(i, str(i), i / 3) for i in range(n // 4)],
    "fractions": lambda n: [fractions.Fraction(i, 7) for i in range(n // 4)],
    "decimals": lambda n: [decimal.Decimal(i) for i in range(n // 4)],
    "dates": lambda n: [
        datetime.datetime(2000, 1, 1) + datetime.timedelta(i) for i in range(n // 4)
    ],
    "namespaces": lambda n: [types.SimpleNamespace(a=i, b=str(i)) for i in range(n // 4)],
    "counters": lambda n: [collections.Counter(a=i) for i in range(n // 4)],
    "numpy numbers": lambda n: list(np.arange(n // 4) * 1.5),
    "arrays of four": lambda n: [np.arange(i, i + 4) for i in range(n // 10)],
    "arrays of a thousand": lambda n: [np.arange(i, i + 1000) for i in range(n // 100)],
    "frames of three columns": lambda n: [
        pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": [1.5, 2.5]}) for _ in range(n // 1000)
    ],
}
"""Makers of values of about `n` objects."""


def _words(rows: int) -> list[str]:
    numbers = random.Random(0)
    return [f"name {numbers.randrange(rows // 20 + 1)}" for _ in range(rows)]


FRAMES: dict[str, Callable[[int], Any]] = {
    "texts": lambda rows: pd.DataFrame({"s": _words(rows), "x": np.arange(rows)}),
    "texts as objects": lambda rows: pd.DataFrame(
        {"s": pd.Series(_words(rows), dtype=object), "x": np.arange(rows)}
    ),
    "texts as objects, some missing": lambda rows: pd.DataFrame(
        {"s": pd.Series([*_words(rows - rows // 9), *[np.nan] * (rows // 9)], dtype=object)}
    ),
    "categories": lambda rows: pd.DataFrame({"s": pd.Categorical(_words(rows))}),
    "numbers": lambda rows: pd.DataFrame({"x": np.arange(rows), "y": np.arange(rows) / 3}),
}
"""Makers of frames by their number of rows."""
