"""Values are read in few reads, in order, and right even where some of what is read is not."""

from __future__ import annotations

import itertools
import os
import random
import resource
from pathlib import Path

import pytest

from nbrewind.errors import ObjectDamaged
from nbrewind.model.blobs import LEAF_BYTES, BlobRef
from nbrewind.store import open_store, pack_reader
from nbrewind.store.catalog import Location
from nbrewind.store.local import LocalStore
from nbrewind.store.packs import Entry
from nbrewind.store.runs import RUN_BYTES, Part, choose, plan
from nbrewind.testing.store_conformance import ref_body


def part(pack: int, offset: int, size: int = 1000) -> Part:
    entry = Entry(bytes(32), 0, 1, 0, offset, size, size)
    return Part(Location(bytes([pack]) * 32, entry), memoryview(bytearray(size)))


def offsets(parts: list[Part]) -> list[list[tuple[int, int]]]:
    return [[(p.place.pack[0], p.place.entry.offset) for p in run] for run in plan(parts)]


def test_neighbours_are_read_together_in_order() -> None:
    assert offsets([part(1, 3000), part(2, 0), part(1, 0), part(1, 1060)]) == [
        [(1, 0), (1, 1060), (1, 3000)],
        [(2, 0)],
    ]


def test_far_objects_are_read_apart() -> None:
    assert offsets([part(1, 0), part(1, 100_000)]) == [[(1, 0)], [(1, 100_000)]]


def test_one_object_twice_is_read_twice() -> None:
    assert offsets([part(1, 0), part(1, 0)]) == [[(1, 0)], [(1, 0)]]


def test_runs_end() -> None:
    runs = plan([part(1, at * LEAF_BYTES, LEAF_BYTES) for at in range(40)])
    assert [len(run) for run in runs] == [RUN_BYTES // LEAF_BYTES] * 10
    assert max(len(run) for run in plan([part(1, 10 * at, 10) for at in range(5000)])) <= 256


def test_copies_are_chosen_from_few_packs() -> None:
    def copies(*packs: int) -> list[Location]:
        return [part(pack, 0).place for pack in packs]

    chosen = choose([copies(1, 9), copies(2, 9), copies(9), copies(3)])
    assert [place.pack[0] for place in chosen] == [9, 9, 9, 3]


@pytest.fixture
def changed(tmp_path: Path) -> tuple[Path, BlobRef, bytes]:
    """A store with the last of many versions of a value, each of which changed three leaves."""
    rng = random.Random(0)
    data = bytearray(rng.randbytes(30 * LEAF_BYTES) + b"text " * 100_000)
    with open_store(tmp_path / "store") as store:
        for version in range(25):
            for leaf in rng.sample(range(30), 3):
                data[leaf * LEAF_BYTES : (leaf + 1) * LEAF_BYTES] = rng.randbytes(LEAF_BYTES)
            blob = commit(store, data, version)
    return tmp_path / "store", blob, bytes(data)


def commit(store: LocalStore, data: bytes | bytearray, version: int = 0) -> BlobRef:
    writer = store.begin()
    blob = writer.put_blob(data)
    writer.commit(ref_body(writer.put("record", str(version).encode())))
    return blob


def reads_of(
    store: LocalStore, blob: BlobRef, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[int, int]]:
    """The (inode, offset) of each read that getting a blob needs."""
    done: list[tuple[int, int]] = []
    preadv = os.preadv

    def observed(fd: int, pieces: list[memoryview], at: int) -> int:
        done.append((os.fstat(fd).st_ino, at))
        return preadv(fd, pieces, at)

    store.has(blob.chunks)  # the indexes are read
    with monkeypatch.context() as patch:
        patch.setattr(os, "preadv", observed)
        store.get_blob(blob)
    return done


def test_a_value_stored_at_once_is_read_in_large_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = random.Random(1).randbytes(40 * LEAF_BYTES)
    blob = commit(open_store(tmp_path / "store"), data)
    assert len(reads_of(open_store(tmp_path / "store"), blob, monkeypatch)) <= 11


def test_a_value_of_many_versions_is_read_once_from_each_pack(
    changed: tuple[Path, BlobRef, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, blob, data = changed
    store = open_store(path)
    reads = reads_of(store, blob, monkeypatch)
    assert store.get_blob(blob) == data
    # Of a pack's runs, one thread may read the first while another reads the next.
    by_pack = [list(group) for _, group in itertools.groupby(sorted(reads), lambda read: read[0])]
    assert len(reads) <= 32
    assert len(by_pack) >= 10


def test_damage_in_a_run_costs_the_damaged_object_only(
    changed: tuple[Path, BlobRef, bytes],
) -> None:
    path, blob, data = changed
    store = open_store(path)
    pack, entry = store.places(blob.chunks[5])[0]
    with open(store.pack_path(pack), "r+b") as file:
        file.seek(entry.offset + 99)
        file.write(b"damage")
    with pytest.raises(ObjectDamaged, match=blob.chunks[5].hex()[:16]):
        store.get_blob(blob)
    assert [store.has([oid]) for oid in blob.chunks].count(False) == 1
    commit(store, data)
    assert store.get_blob(blob) == data
    assert open_store(path).get_blob(blob) == data


@pytest.mark.parametrize("loss", ["truncated", "missing"])
def test_another_copy_is_read_where_a_pack_is_lost(
    changed: tuple[Path, BlobRef, bytes], loss: str, tmp_path: Path
) -> None:
    path, blob, data = changed
    other = open_store(tmp_path / "other")
    commit(other, data)
    for pack in (tmp_path / "other" / "packs").rglob("*.pack"):
        target = path / "packs" / pack.parent.name / pack.name
        target.parent.mkdir(exist_ok=True)
        pack.rename(target)
    store = open_store(path)
    assert all(len(store.places(oid)) == 2 for oid in blob.chunks)
    victim = store.pack_path(choose([store.places(oid) for oid in blob.chunks])[3].pack)
    if loss == "missing":
        os.unlink(victim)
    else:
        os.truncate(victim, LEAF_BYTES)
    assert store.get_blob(blob) == data


def test_files_are_closed(changed: tuple[Path, BlobRef, bytes]) -> None:
    path, blob, _ = changed
    before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()
    store = open_store(path)
    store.get_blob(blob)
    store.close()
    if before:
        # Files of tests before this one may be closed meanwhile.
        assert set(os.listdir("/proc/self/fd")) <= before


def test_few_files_stay_open(
    changed: tuple[Path, BlobRef, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, blob, data = changed
    monkeypatch.setattr(pack_reader, "_OPEN_PACKS", 3)
    store = open_store(path)
    assert store.get_blob(blob) == data
    assert len(store._reader._open) == 3


def test_packs_are_closed_where_the_session_may_open_no_more_files(
    changed: tuple[Path, BlobRef, bytes],
) -> None:
    path, blob, data = changed
    store = open_store(path)
    store.has(blob.chunks)
    spare = os.open(os.devnull, os.O_RDONLY)
    os.close(spare)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare + 6, hard))
    try:
        content = store.get_blob(blob)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert content == data
