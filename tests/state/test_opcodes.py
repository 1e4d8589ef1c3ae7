"""Opcodes are found in a stream wherever they are."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest

from nbrewind.state.opcodes import may_hold, memoizing

_FROZEN = memoizing(pickle.FROZENSET)


class _Pieces:
    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, piece: bytes) -> None:
        self.pieces.append(bytes(piece))


def _pieces(value: Any) -> list[bytes]:
    file = _Pieces()
    pickle.Pickler(file, 5).dump(value)
    return file.pieces


_LAST: dict[str, Any] = {
    "nothing": frozenset(),
    "none": frozenset([None]),
    "truth": frozenset([True]),
    "small number": frozenset([77]),
    "number": frozenset([0x4D00]),
    "negative number": frozenset([-77]),
    "large number": frozenset([1 << 70]),
    "larger number": frozenset([1 << 900]),
    "huge number": frozenset([1 << 90_000]),
    "float": frozenset([1.5]),
    "text": frozenset(["text"]),
    "long text": frozenset(["text" * 30_000]),
    "bytes": frozenset([b"\x8b" * 300]),
    "tuple": frozenset([(1, 2, 3, 4)]),
    "empty tuple": frozenset([()]),
    "another": frozenset([frozenset([1])]),
    "object": frozenset([complex(1, 2)]),
    "global": frozenset([int]),
}


@pytest.mark.parametrize("name", _LAST)
def test_a_frozen_set_is_found_whatever_its_last_element_is(name: str) -> None:
    shared = "text"
    for before in ([], [shared] * 300, [*range(70_000)], [i / 7 for i in range(20_000)]):
        assert may_hold(_FROZEN, _pieces([*before, _LAST[name]]))
        assert may_hold(_FROZEN, _pieces([*before, shared, frozenset([shared, *_LAST[name]])]))


def test_a_frozen_set_is_found_among_random_numbers() -> None:
    numbers = random.Random(0)
    for _ in range(300):
        size = 1 << numbers.randrange(1, 70)
        target = frozenset(numbers.randrange(-size, size) for _ in range(numbers.randrange(4)))
        around = [numbers.randrange(-size, size) for _ in range(numbers.randrange(200))]
        assert may_hold(_FROZEN, _pieces([around, target, around]))


def test_bytes_of_numbers_are_not_mistaken_for_an_opcode() -> None:
    for numbers in ([*range(200_000)], [[i, i + 1] for i in range(100_000)], [0x9491] * 900):
        pieces = _pieces(numbers)
        assert any(map(_FROZEN.search, pieces))
        assert not may_hold(_FROZEN, pieces)
