"""A value that changed many times can be put together again, and is then read from there."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from nbrewind.errors import NotCollected
from nbrewind.model.blobs import LEAF_BYTES, BlobRef, ObjectId
from nbrewind.store import gc, locality, open_store
from nbrewind.store.catalog import Location
from nbrewind.store.copying import copy_objects
from nbrewind.store.gc import collect
from nbrewind.store.local import LocalStore
from nbrewind.store.locality import MOST_SCATTERED, scatter, together
from nbrewind.store.runs import Part, choose, plan
from nbrewind.store.session import make_session
from nbrewind.testing.store_conformance import ref_body

from .collecting import AT_ONCE, run_cell, value_of

LEAVES = 40


def scattered(
    store: LocalStore, values: Sequence[Sequence[ObjectId]], most: float = MOST_SCATTERED
) -> list[Location]:
    """What is to be copied if all packs stay."""
    sizes = {
        pack: sum(place.entry.stored for place in places)
        for pack, places in store.packs()[0].items()
    }
    return together(values, store.copies_of, sizes, sizes, bound=0.5, most=most).copy


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


VERSIONS = 200


def versions(path: Path) -> bytes:
    """A store with every version of a value that changes one leaf at a time; returns the last."""
    rng = random.Random(3)
    data = bytearray(rng.randbytes(LEAVES * LEAF_BYTES))
    with open_store(path) as store:
        for number in range(VERSIONS):
            leaf = rng.randrange(LEAVES)
            data[leaf * LEAF_BYTES : (leaf + 1) * LEAF_BYTES] = rng.randbytes(LEAF_BYTES)
            run_cell(store, "x", bytes(data), created=float(number))
    return bytes(data)


def cost(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Reads, and bytes read, to have the newest value back."""
    done: list[int] = []
    preadv = os.preadv

    def observed(fd: int, pieces: list[memoryview], at: int) -> int:
        done.append(sum(piece.nbytes for piece in pieces))
        return preadv(fd, pieces, at)

    with open_store(path, read_only=True) as store, monkeypatch.context() as patch:
        patch.setattr(os, "preadv", observed)
        value_of(store, store.refs()[0])
    return len(done), sum(done)


def test_the_200th_version_is_read_like_the_first_after_a_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = versions(tmp_path / "old")
    with open_store(tmp_path / "fresh") as fresh:
        run_cell(fresh, "x", data)
    best = cost(tmp_path / "fresh", monkeypatch)
    assert cost(tmp_path / "old", monkeypatch)[0] > 2 * best[0]
    with open_store(tmp_path / "old") as store:
        done = collect(store, apply=True, patience=AT_ONCE)
        assert done.gathered >= LEAVES
        after = cost(tmp_path / "old", monkeypatch)
        assert all(a <= 1.3 * b for a, b in zip(after, best, strict=True)), (after, best)
        assert value_of(store, store.refs()[0]) == data
        again = collect(store, apply=True, patience=AT_ONCE)
        assert (again.gathered, again.copied, again.condemned, again.trashed) == (0, 0, 0, 0)
        assert len(store.refs()) == VERSIONS
        assert all(value_of(store, ref) for ref in store.refs()[::20])


def test_copies_stay_although_the_packs_they_were_made_from_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(4)
    first, second = (rng.randbytes(LEAVES * LEAF_BYTES) for _ in range(2))
    with open_store(tmp_path) as store:
        refs = [run_cell(store, "a", first), run_cell(store, "b", second)]
        mixed = b"".join(
            (first, second)[at % 2][at * LEAF_BYTES : (at + 1) * LEAF_BYTES] for at in range(LEAVES)
        )
        refs.append(run_cell(store, "c", mixed))
        monkeypatch.setattr(locality, "_PIECE_BYTES", LEAF_BYTES)  # as on a slower disk
        done = collect(store, apply=True, patience=AT_ONCE)
        assert (done.gathered, done.condemned) == (LEAVES + 1, 0)
        for _ in range(3):
            again = collect(store, apply=True, patience=AT_ONCE)
            assert (again.gathered, again.copied, again.condemned) == (0, 0, 0)
        refs.append(run_cell(store, "c", b"something else"))  # the copies make nothing faster now
        assert collect(store, apply=True, patience=AT_ONCE).purged == 1
        assert [value_of(store, ref) for ref in refs[:3]] == [first, second, mixed]


def test_a_full_disk_keeps_nothing_from_being_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions(tmp_path)

    def full(*args: object) -> list[ObjectId]:
        raise OSError(errno.ENOSPC, "full")

    with open_store(tmp_path) as store:
        monkeypatch.setattr(gc, "copy_objects", full)
        monkeypatch.setattr(gc, "SMALL_BYTES", 10**9)
        done = collect(store, apply=True, patience=AT_ONCE)
        assert (done.gathered, done.merged, done.applied) == (0, 0, True)


def test_damage_that_copying_meets_is_told(tmp_path: Path) -> None:
    versions(tmp_path)
    with open_store(tmp_path) as store:
        place = min(
            (p for places in store.packs()[0].values() for p in places if p.entry.stored > 10**5),
        )
        with open(store.pack_path(place.pack), "r+b") as file:
            file.seek(place.entry.offset + 9)
            file.write(b"damage")
        with pytest.raises(NotCollected, match="damaged"):
            collect(store, apply=True, patience=AT_ONCE)
        assert not list((tmp_path / "epochs").glob("*"))
