"""A value that changed many times can be put together again, and is then read from there."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from nbrewind.model.blobs import LEAF_BYTES, BlobRef
from nbrewind.store import locality, open_store
from nbrewind.store.copying import copy_objects
from nbrewind.store.local import LocalStore
from nbrewind.store.locality import scatter, scattered
from nbrewind.store.runs import Part, choose, plan
from nbrewind.store.session import make_session
from nbrewind.testing.store_conformance import ref_body

LEAVES = 40


def commit(store: LocalStore, data: bytes | bytearray) -> BlobRef:
    writer = store.begin()
    blob = writer.put_blob(data)
    writer.commit(ref_body(writer.put("record", os.urandom(8))))
    return blob


def compressible(rng: random.Random) -> bytes:
    return (rng.randbytes(1000) * (LEAF_BYTES // 1000 + 1))[:LEAF_BYTES]


@pytest.fixture
def old(tmp_path: Path) -> tuple[LocalStore, BlobRef, bytes]:
    """A store with a value each leaf of which was written by another commit."""
    rng = random.Random(0)
    data = bytearray()
    store = open_store(tmp_path / "store")
    for _ in range(LEAVES):
        data += compressible(rng)
        blob = commit(store, data)
    return store, blob, bytes(data)


def pieces(store: LocalStore, blob: BlobRef) -> int:
    places = choose([store.places(oid) for oid in blob.chunks])
    return len(plan([Part(place, memoryview(bytes(place.entry.size))) for place in places]))


def test_what_was_stored_at_once_is_not_scattered(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    blob = commit(store, random.Random(1).randbytes(LEAVES * LEAF_BYTES))
    assert scatter([store.places(oid)[0] for oid in blob.chunks]) == 1
    assert scattered(store, [blob.chunks]) == []


def test_what_grew_piece_by_piece_is_scattered_until_it_is_copied(
    old: tuple[LocalStore, BlobRef, bytes], tmp_path: Path
) -> None:
    store, blob, data = old
    assert pieces(store, blob) == LEAVES
    places = scattered(store, [blob.chunks], most=1.2)
    assert [place.entry.oid for place in places] == list(blob.chunks)
    session = make_session(str(tmp_path / "store" / "tmp"))
    copy_objects(store, session, places, lambda names: None)
    for reader in (store, open_store(tmp_path / "store")):
        assert pieces(reader, blob) <= 3
        assert scattered(reader, [blob.chunks], most=1.2) == []
        assert reader.get_blob(blob) == data


def test_a_chunk_of_several_values_is_copied_once(old: tuple[LocalStore, BlobRef, bytes]) -> None:
    store, blob, _ = old
    shorter = blob.chunks[: LEAVES - 5]
    places = scattered(store, [blob.chunks, shorter, blob.chunks + blob.chunks], most=1.2)
    assert [place.entry.oid for place in places] == list(blob.chunks)


def test_small_values_stay_where_they_are(
    old: tuple[LocalStore, BlobRef, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, blob, _ = old
    assert scattered(store, [blob.chunks[:8]], most=1.0) == []
    monkeypatch.setattr(locality, "_WORTHWHILE_BYTES", 0)
    assert len(scattered(store, [blob.chunks[:8]], most=1.0)) == 8


def test_a_value_that_is_lost_is_left_out(old: tuple[LocalStore, BlobRef, bytes]) -> None:
    store, blob, _ = old
    assert scattered(store, [(*blob.chunks, bytes(32))], most=1.0) == []


def test_an_empty_value_is_not_scattered(old: tuple[LocalStore, BlobRef, bytes]) -> None:
    assert scatter([]) == 1
    assert scattered(old[0], [()]) == []
