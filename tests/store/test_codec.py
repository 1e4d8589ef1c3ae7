"""Compression where it pays, and none where it does not."""

from __future__ import annotations

import itertools
import math
import random
import zlib
from array import array
from collections.abc import Callable

import pytest

from nbrewind.model.blobs import LEAF_BYTES
from nbrewind.store import codec
from nbrewind.store.leaves import split

COUNT = 2 * LEAF_BYTES // 8

_rng = random.Random(11)


def _walk() -> list[float]:
    return list(itertools.accumulate(_rng.gauss(0, 1e-3) for _ in range(COUNT)))


CONTENTS: dict[str, tuple[Callable[[], bytes], float]] = {
    "zeros": (lambda: bytes(8 * COUNT), 0.01),
    "doubles that wander": (lambda: array("d", _walk()).tobytes(), 0.83),
    "floats that wander": (lambda: array("f", _walk()).tobytes(), 0.85),
    "sine": (lambda: array("d", (math.sin(i / 1000) for i in range(COUNT))).tobytes(), 0.77),
    "whole doubles": (
        lambda: array("d", map(float, _rng.choices(range(1000), k=COUNT))).tobytes(),
        0.2,
    ),
    "counted ids": (lambda: array("q", range(COUNT)).tobytes(), 0.02),
    "random ids": (lambda: array("q", _rng.choices(range(10**6), k=COUNT)).tobytes(), 0.38),
    "text": (lambda: "".join(f"{i},{_rng.random():.6f}\n" for i in range(40_000)).encode(), 0.5),
}
"""How to make each, and the ratio that is reached at least."""

NOISE: dict[str, Callable[[], bytes]] = {
    "bytes": lambda: _rng.randbytes(8 * COUNT),
    "uniform doubles": lambda: array("d", (_rng.random() for _ in range(COUNT))).tobytes(),
    "normal doubles": lambda: array("d", (_rng.gauss(0, 1) for _ in range(COUNT))).tobytes(),
    "normal floats": lambda: array("f", (_rng.gauss(0, 1) for _ in range(2 * COUNT))).tobytes(),
    "compressed": lambda: zlib.compress(
        "".join(f"{i} {_rng.random()}\n" for i in range(60_000)).encode()
    ),
}


def stored(data: bytes) -> list[tuple[int, bytes | memoryview]]:
    parts = split(data)
    encoded = codec.encode_neighbours(parts)
    for (how, payload), part in zip(encoded, parts, strict=True):
        assert codec.decode(how, payload, part.nbytes) == part
    return encoded


@pytest.mark.parametrize("name", CONTENTS)
def test_what_can_be_compressed_is(name: str) -> None:
    make, ratio = CONTENTS[name]
    data = make()
    assert sum(len(payload) for _, payload in stored(data)) <= ratio * len(data)


@pytest.mark.parametrize("name", NOISE)
def test_noise_is_not_copied(name: str) -> None:
    data = NOISE[name]()
    for (how, payload), part in zip(stored(data), split(data), strict=True):
        assert how == codec.RAW
        assert isinstance(payload, memoryview)
        assert payload.obj is part.obj


def test_only_samples_of_noise_are_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    ratio = codec._ratio
    monkeypatch.setattr(codec, "_ratio", lambda part: (seen.append(len(part)), ratio(part))[1])
    codec.encode_neighbours(split(_rng.randbytes(4 * LEAF_BYTES)))
    assert sum(seen) <= 0.03 * 4 * LEAF_BYTES


def test_zeros_next_to_noise_are_compressed() -> None:
    noise, zeros = _rng.randbytes(LEAF_BYTES), bytes(LEAF_BYTES)
    sizes = [len(payload) for _, payload in stored(noise + zeros + noise + zeros)]
    assert sizes[0] == sizes[2] == LEAF_BYTES
    assert max(sizes[1], sizes[3]) < 1000


def test_noise_next_to_text_is_stored_raw() -> None:
    text = (b"all work and no play " * LEAF_BYTES)[:LEAF_BYTES]
    almost = _rng.randbytes(LEAF_BYTES - 6000) + bytes(6000)
    codecs = [how for how, _ in stored(text + almost + text)]
    assert codecs == [codec.ZSTD, codec.RAW, codec.ZSTD]


@pytest.mark.parametrize("size", [*range(12), 127, 128, 129, 1023, 1024, 8191, 8193])
def test_content_of_any_length_comes_back(size: int) -> None:
    for data in (bytes(size), bytes(range(256)) * 33, _rng.randbytes(size)):
        for how in codec.CODECS:
            chosen, payload = codec.encode_as(how, memoryview(data[:size]))
            assert codec.decode(chosen, payload, len(data[:size])) == data[:size]
