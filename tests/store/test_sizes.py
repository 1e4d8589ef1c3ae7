"""What a change costs in stored bytes: as much as changed, and little more."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from nbrewind.model.blobs import LEAF_BYTES
from nbrewind.store import open_store
from nbrewind.store.local import LocalStore
from nbrewind.testing.store_conformance import ref_body

SIZE = 64 * LEAF_BYTES
"""A hundred leaves would round one per cent to a leaf; so do the tests below."""
GOLDEN = Path(__file__).resolve().parents[1] / "data" / "golden"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return open_store(tmp_path / "store")


def added(store: LocalStore, data: bytes | bytearray, *, stream: bool = False) -> int:
    """The bytes by which a store grew for one more execution."""
    before = store.info().bytes
    writer = store.begin()
    (writer.put_stream if stream else writer.put_blob)(data)
    writer.commit(ref_body(writer.put("record", random.randbytes(16))))
    return store.info().bytes - before


def test_a_buffer_costs_its_bytes(store: LocalStore) -> None:
    assert added(store, random.Random(0).randbytes(SIZE)) <= 1.001 * SIZE


def test_changed_leaves_cost_their_bytes(store: LocalStore) -> None:
    rng = random.Random(1)
    data = bytearray(rng.randbytes(100 * LEAF_BYTES))
    added(store, data)
    data[37 * LEAF_BYTES + 5] ^= 1  # one leaf of a hundred
    assert added(store, data) <= 0.012 * len(data)


def test_what_is_appended_costs_its_bytes(store: LocalStore) -> None:
    rng = random.Random(2)
    data = rng.randbytes(100 * LEAF_BYTES)
    added(store, data)
    assert added(store, data + rng.randbytes(len(data) // 10)) <= 0.105 * len(data)


@pytest.mark.parametrize("at", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("change", [b"x", b"a few bytes more", None])
def test_an_insertion_into_a_stream_costs_few_chunks(
    store: LocalStore, at: float, change: bytes | None
) -> None:
    rng = random.Random(3)
    data = rng.randbytes(SIZE)
    place = int(at * SIZE)
    edited = data[: place - 9] if change is None else data[:place] + change
    edited += data[place:]
    assert added(store, data, stream=True) <= 1.005 * SIZE
    assert added(store, edited, stream=True) <= 4 * LEAF_BYTES <= 0.07 * SIZE


def test_what_is_appended_to_a_stream_costs_its_bytes(store: LocalStore) -> None:
    rng = random.Random(4)
    data = rng.randbytes(100 * LEAF_BYTES)
    added(store, data, stream=True)
    assert added(store, data + rng.randbytes(len(data) // 10), stream=True) <= 0.105 * len(data)


def test_a_table_with_a_row_more_costs_few_chunks(store: LocalStore) -> None:
    rng = random.Random(5)
    rows = [f"{number},{rng.random()},{rng.choice('abc')}\n" for number in range(200_000)]
    first = added(store, "".join(rows).encode(), stream=True)
    rows.insert(60_000, "a,new,row\n")
    assert added(store, "".join(rows).encode(), stream=True) <= 0.05 * first


def test_a_store_of_format_1_is_written_as_it_was_begun(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "store-format-1" / "store", tmp_path / "store")
    config = (tmp_path / "store" / "CONFIG").read_bytes()
    data = random.Random(6).randbytes(3 * LEAF_BYTES + 1)
    with open_store(tmp_path / "store") as store:
        writer = store.begin()
        stream = writer.put_stream(data)
        assert stream == writer.put_blob(data)
        writer.commit(ref_body(writer.put("record", b"r")))
        assert store.info().format == 1
    with open_store(tmp_path / "store") as store:
        assert store.get_blob(stream) == data
    assert (tmp_path / "store" / "CONFIG").read_bytes() == config
