"""A restored set iterates, and goes on to grow, exactly as the original does."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbrewind.errors import NotStorable
from nbrewind.state.set_order import frozen_orders, lay_out, layouts, make_frozen
from nbrewind.testing.oracle import compare

ELEMENTS = st.one_of(
    st.text("abcdef", max_size=3),
    st.integers(-40, 400),
    st.integers(0, 2**64).map(lambda n: n * 32),
    st.tuples(st.text("ab", max_size=2), st.integers(0, 9)),
)
STEPS = st.lists(st.tuples(st.sampled_from("aaadxucm"), st.lists(ELEMENTS, max_size=30)))


def history(steps: list[tuple[str, list[object]]]) -> set[object]:
    """A set with a past: elements come and go, one by one and many at once."""
    made: set[object] = set()
    for step, elements in steps:
        if step == "a":
            for element in elements:
                made.add(element)
        elif step == "d":
            for element in elements:
                made.discard(element)
        elif step == "x":
            made ^= set(elements)
        elif step == "u":
            made |= set(elements)
        elif step == "m":
            made -= set(elements)
        else:
            made = made.copy()
    return made


@settings(deadline=None, max_examples=300)
@given(STEPS, st.lists(ELEMENTS, max_size=60))
def test_a_restored_set_grows_as_the_original_would(
    steps: list[tuple[str, list[object]]], later: list[object]
) -> None:
    original = history(steps)
    try:
        (layout,) = layouts([original]) or [None]
    except NotStorable:
        return
    restored = pickle.loads(pickle.dumps(original))
    if layout is not None:
        lay_out((restored, *pickle.loads(pickle.dumps(layout[1:]))))
    assert list(restored) == list(original)
    for element in later:
        for target in (original, restored):
            target.discard(element) if element in target else target.add(element)
        assert list(restored) == list(original)


@settings(deadline=None, max_examples=300)
@given(STEPS)
def test_a_restored_frozen_set_has_the_order_it_had(steps: list[tuple[str, list[object]]]) -> None:
    for original in (frozenset(history(steps)), frozenset(list(history(steps)))):
        try:
            orders = frozen_orders([original])
        except NotStorable:
            continue
        order = orders.get(id(original))
        restored = pickle.loads(pickle.dumps(original)) if order is None else make_frozen(order)
        assert list(restored) == list(original)
        assert restored == original


def test_nearly_all_sets_of_words_can_be_restored() -> None:
    failed = 0
    for size in range(2, 200):
        words = {f"{size * 7919 * n:x}" for n in range(size)}
        for made in (words, words.copy(), words - {min(words)}, frozenset(words)):
            try:
                layouts([made]) if isinstance(made, set) else frozen_orders([made])
            except NotStorable:
                failed += 1
    assert failed <= 8


MANY = "w = {'the', 'mat', 'sat', 'on', 'cat', 'a', 'and', 'hat', 'did', 'go'}"


@pytest.mark.parametrize(
    "cells",
    [
        ["t = {'the', 'mat'}", "t.add('sat')", "k = {}", "print(t, k)"],
        [MANY, "w.discard('mat'); w.add('rat'); w |= {'b', 'c'}", "k = {}", "print(w, k)"],
        [
            MANY,
            "box = [w, frozenset(w), (frozenset(w), 1)]",
            "k = {}",
            "print(box, box[0] is w, k)",
        ],
        [
            "f = frozenset('some words of a text'.split()); g = [f, f]",
            "k = {}",
            "print(g, g[0] is g[1], k)",
        ],
        [MANY, "k = {}", "for n in range(k, 40): w.add(f'{n}')", "print(w)"],
        [
            "class S(set): pass",
            "s = S('the mat sat on a cat'.split()); s.n = 1",
            "k = {}",
            "print(s, s.n, k)",
        ],
        [
            "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass P:\n    x: str",
            "s = {P(c) for c in 'abcdefghij'}; s.discard(P('c'))",
            "k = {}",
            "print(s, k)",
        ],
        [
            "n = float('nan'); s = {n, 'a', 'b', 'c'}; f = frozenset(s)",
            "k = {}",
            "print(len(s), n in s, n in f, k)",
        ],
    ],
)
def test_what_shows_the_order_of_a_set_shows_it_after_a_replay(
    cells: list[str], tmp_path: Path
) -> None:
    replay = compare(
        [c.format(1) if "k = {}" in c else c for c in cells],
        [c.format(2) if "k = {}" in c else c for c in cells],
        tmp_path,
    )
    assert len(replay.executed) == (2 if "add" not in cells[-2] else 3)
