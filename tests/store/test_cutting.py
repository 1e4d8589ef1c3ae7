"""Where streams are cut: as the specification says, by every implementation, and robustly."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from blake3 import blake3

from nbrewind.store.config import STREAM_CUTS
from nbrewind.store.cutting import CutRule, cut
from nbrewind.store.leaves import LeafHasher
from nbrewind.store.local import open_store
from tests.store.programs import finish, start

SMALL = CutRule(least=256, usual=1024, most=4096, strict_bits=12, loose_bits=8)

CONTENTS = {
    "noise": random.Random(0).randbytes(400_000),
    "zeros": bytes(200_000),
    "text": " ".join(str(number) for number in range(60_000)).encode(),
    "period": bytes(range(97)) * 3_000,
}


def by_the_book(data: bytes, rule: CutRule) -> list[int]:
    """The lengths of the chunks, byte by byte as in docs/spec/store-format.md."""
    table = blake3(b"nbrewind gear 1").digest(1024)
    gear = [int.from_bytes(table[at : at + 4], "little") for at in range(0, 1024, 4)]
    if len(data) <= rule.usual:
        return [len(data)]
    lengths = []
    value = length = 0
    for byte in data:
        value = (value << 1) % 2**32 ^ gear[byte]
        length += 1
        zeros = 32 - value.bit_length()
        wanted = rule.strict_bits if length < rule.usual else rule.loose_bits
        if (length >= rule.least and zeros >= wanted) or length == rule.most:
            lengths.append(length)
            length = 0
    return [*lengths, length] if length else lengths


@pytest.fixture(params=["numpy", "integers"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numpy":
        pytest.importorskip("numpy")
    else:
        monkeypatch.delitem(sys.modules, "numpy", raising=False)


def lengths(data: bytes, rule: CutRule) -> list[int]:
    chunks = cut(memoryview(data), rule)
    assert b"".join(chunks) == data
    return [chunk.nbytes for chunk in chunks]


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("name", CONTENTS)
def test_cuts_are_those_of_the_specification(name: str) -> None:
    data = CONTENTS[name]
    assert lengths(data, SMALL) == by_the_book(data, SMALL)
    assert lengths(data, STREAM_CUTS) == by_the_book(data, STREAM_CUTS)


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 1056, 65536 + 1, 8192 * 5 + 1])
def test_streams_of_any_length_are_cut(size: int) -> None:
    data = CONTENTS["noise"][:size]
    assert lengths(data, SMALL) == (by_the_book(data, SMALL) if size else [])


def test_numpy_is_not_imported_for_it() -> None:
    program = (
        "import sys, os; from nbrewind.store.cutting import cut; "
        "from nbrewind.store.config import STREAM_CUTS; "
        "cut(memoryview(os.urandom(200_000)), STREAM_CUTS); print('numpy' in sys.modules)"
    )
    assert finish(start(program)) == ["False"]


def test_a_half_imported_numpy_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", type(sys)("numpy"))
    data = CONTENTS["noise"]
    assert lengths(data, SMALL) == by_the_book(data, SMALL)


@pytest.mark.parametrize("name", ["noise", "text"])
@pytest.mark.parametrize("at", [0, 1, 100_000, 299_999])
@pytest.mark.parametrize("change", [b"x", b"inserted " * 20, None])
def test_few_chunks_change_with_an_insertion_or_a_deletion(
    name: str, at: int, change: bytes | None
) -> None:
    data = CONTENTS[name]
    edited = data[:at] + (data[at + 7 :] if change is None else change + data[at:])
    before = {bytes(chunk) for chunk in cut(memoryview(data), SMALL)}
    after = [bytes(chunk) for chunk in cut(memoryview(edited), SMALL)]
    assert len(after) > 100
    assert sum(chunk not in before for chunk in after) <= 4


def test_the_usual_length_is_usual() -> None:
    chunks = cut(memoryview(random.Random(1).randbytes(8_000_000)), STREAM_CUTS)
    sizes = [chunk.nbytes for chunk in chunks[:-1]]
    assert all(STREAM_CUTS.least <= size <= STREAM_CUTS.most for size in sizes)
    assert 0.7 < sum(sizes) / len(sizes) / STREAM_CUTS.usual < 1.4
    assert STREAM_CUTS.most not in sizes


def test_without_numpy_nobody_waits_for_the_cuts_of_a_long_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "numpy", raising=False)
    data = random.Random(0).randbytes(5 * 1024 * 1024)
    with open_store(tmp_path / "store") as store:
        writer = store.begin()
        assert writer.put_stream(data).chunks == LeafHasher().leaves(data)
        writer.abort()
