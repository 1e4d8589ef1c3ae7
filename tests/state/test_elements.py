"""Columns of text: what counts as equal, and what is left to pickle."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbrewind.state.capture import Examination
from nbrewind.state.elements import pack_elements
from nbrewind.state.entities import EntityTable
from nbrewind.state.pickling import Scope
from nbrewind.store.leaves import LeafHasher

_HASHER = LeafHasher()


def _column(values: list[Any]) -> Any:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _fingerprint(value: Any) -> bytes:
    return Examination(Scope({}, EntityTable()), _HASHER).look(value).fingerprint


def test_equal_columns_are_equal_whichever_of_their_strings_are_one_object() -> None:
    one = "".join(["te", "xt"])
    shared = _column([one] * 1000)
    apart = _column(["".join(["te", "xt"]) for _ in range(1000)])
    assert _fingerprint(shared) == _fingerprint(apart)


def test_a_changed_element_is_seen_wherever_it_is() -> None:
    column = _column([f"text {i}" for i in range(3000)])
    before = _fingerprint([column])
    for place in (0, 1500, 2999):
        kept, column[place] = column[place], "another"
        assert _fingerprint([column]) != before
        column[place] = kept
    assert _fingerprint([column]) == before


def test_elements_that_may_hold_others_are_left_to_pickle() -> None:
    class Meta(type):
        __hash__ = None  # type: ignore[assignment]

    class Odd(metaclass=Meta):
        pass

    class Text(str):
        pass

    elements: list[Any] = [[], (1,), Text("x"), Odd()]
    for element in elements:
        assert pack_elements(_column(["x", element])) is None
