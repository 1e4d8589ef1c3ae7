"""Boxes and pieces against sets of indices."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from nbrewind.training.boxes import Box, Piece, uncovered


def boxes(dims: int = 2, most: int = 6) -> st.SearchStrategy[Box]:
    sides = st.tuples(*[st.integers(0, most)] * dims)
    return st.builds(Box, sides, st.tuples(*[st.integers(0, most)] * dims))


def points(box: Box) -> set[tuple[int, ...]]:
    return set(product(*(range(s.start, s.stop) for s in box.slices)))


@given(boxes(), boxes())
def test_what_is_in_both(one: Box, other: Box) -> None:
    both = one & other
    assert points(one) & points(other) == (points(both) if both else set())


@given(boxes(3, 4), st.lists(boxes(3, 4), max_size=4))
def test_what_is_left_is_disjoint_and_complete(whole: Box, parts: list[Box]) -> None:
    left = uncovered(whole, parts)
    found = [point for box in left for point in points(box)]
    assert len(found) == len(set(found))
    assert set(found) == points(whole) - {point for part in parts for point in points(part)}


@given(boxes(), st.tuples(st.integers(0, 5), st.integers(0, 5)), boxes())
def test_a_part_of_a_piece_says_where_it_is_in_the_local_tensor(
    whole: Box, at: tuple[int, int], box: Box
) -> None:
    piece = Piece(Box(at, whole.lengths), whole)
    part = piece.within(box)
    common = points(whole) & points(box)
    if part is None:
        assert not common
        return
    assert points(part.whole) == common
    shift = tuple(map(int.__sub__, at, whole.offsets))
    assert points(part.local) == {tuple(map(int.__add__, p, shift)) for p in common}


def test_a_scalar_is_one_element() -> None:
    scalar = Box.whole(())
    assert scalar.size == 1
    assert scalar & scalar == scalar
    assert uncovered(scalar, [scalar]) == []
    assert uncovered(scalar, []) == [scalar]
