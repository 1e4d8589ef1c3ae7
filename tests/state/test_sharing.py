"""Names that share mutable state are found, and where they share it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from nbrewind.state import memo
from nbrewind.state.capture import Examination
from nbrewind.state.entities import EntityTable
from nbrewind.state.pickling import Scope
from nbrewind.state.restoring import PYTHON, Restore
from nbrewind.state.sharing import Sharing
from nbrewind.store.leaves import LeafHasher


def _sharing(values: Mapping[str, Any]) -> tuple[list[tuple[str, ...]], dict[str, str]]:
    exam = Examination(Scope(dict(values), EntityTable()), LeafHasher())
    sharing = Sharing({name: exam.look(value) for name, value in values.items()})
    return sharing.components(), sharing.pairs(tuple(sorted(values)))


def _values() -> dict[str, Any]:
    item = [1]
    nan = float("nan")
    many = [[i] for i in range(3000)]
    cyclic: list[Any] = [item]
    cyclic.append(cyclic)
    return {
        "alone": [[1], {}],
        "texts": ["one", "two"],
        "holder": {"item": item},
        "cyclic": cyclic,
        "nans": [nan, 1.5],
        "nan": nan,
        "library_nan": [math.nan],
        "many": many,
        "most": many[300:2999],
        "running": (i for i in [many[5]]),
    }


def test_mutable_objects_and_nans_tie_names_together_and_immutable_ones_do_not() -> None:
    values = _values()
    values["same_texts"] = list(values["texts"])
    values["other_nan"] = [math.nan]
    assert _sharing(values)[0] == [
        ("alone",),
        ("cyclic", "holder"),
        ("library_nan",),
        ("many", "most", "running"),
        ("nan", "nans"),
        ("other_nan",),
        ("same_texts",),
        ("texts",),
    ]


def test_how_two_names_share_is_told_apart() -> None:
    a, b = [1], [1]
    values = [[a, b], [a, b]], [[a, b], [b, a]], [[a, b], [a, [1]]]
    tables = [_sharing({"x": x, "y": y})[1]["x\0y"] for x, y in values]
    assert len({*tables}) == 3
    c, d = [1], [1]
    assert _sharing({"x": [c, d], "y": [d, c]})[1]["x\0y"] == tables[1]


def test_sharing_is_the_same_where_the_collector_shows_no_memo(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = _values()
    shown = _sharing(values)
    assert memo._memo_is_visible()
    monkeypatch.setattr(memo, "_memo_is_visible", lambda: False)
    assert _sharing(values) == shown


def test_a_class_that_cannot_be_hashed_is_no_obstacle_to_sharing() -> None:
    class Meta(type):
        __hash__ = None  # type: ignore[assignment]

    class Odd(metaclass=Meta):
        pass

    odd = Odd()
    assert _sharing({"x": [odd], "y": {"odd": odd}})[0] == [("x", "y")]


def test_a_stream_goes_on_after_its_sharing_was_looked_at() -> None:
    removed = {*range(100)}
    removed -= {*range(1, 99)}  # a table that loading would not make: its layout is written too
    shared = [removed]
    space: dict[str, Any] = {"x": [shared, removed], "y": [shared]}
    table = EntityTable()
    exam = Examination(Scope(space, table), LeafHasher())
    dumps = {name: exam.look(value) for name, value in space.items()}
    assert Sharing(dumps).pairs(("x", "y"))
    finished = exam.finish(dumps["x"])
    assert not finished.problem
    (loaded,) = Restore({}, table).load(finished.stream, [], {}, PYTHON).values
    assert loaded == space["x"]
    assert loaded[0][0] is loaded[1]
