"""Several processes write one store at once, without locks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nbrewind.errors import ObjectMissing
from nbrewind.model.refs import StoredRef
from nbrewind.store import Store, object_id, open_store
from nbrewind.testing.store_conformance import commit, ref_body

from .programs import COMMIT_MANY, MAKE_KEY, OPEN, finish, start


def chunks(store: Store, ref: StoredRef) -> list[bytes]:
    content = store.get(ref.body.record)
    return [content[at : at + 32] for at in range(32, len(content), 32)]


@pytest.mark.case(53)
def test_processes_of_one_lineage_get_distinct_numbers_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store"
    processes = [start(COMMIT_MANY, path, f"w{i}", 20, 0.6) for i in range(3)]
    acknowledged = {f"w{i}": finish(p)[1:] for i, p in enumerate(processes)}
    store = open_store(path)
    for name, numbers in acknowledged.items():
        refs = store.refs(name)
        assert sorted(ref.body.seq for ref in refs) == sorted(map(int, numbers))
        for ref in refs:
            assert ref.trusted
            for chunk in chunks(store, ref):
                assert object_id(store.get(chunk)) == chunk
    assert {ref.body.seq for ref in store.refs()} == set(range(60))
    assert store.info().damaged == ()
    assert os.listdir(path / "tmp") == [] or all(
        os.listdir(path / "tmp" / session) == [] for session in os.listdir(path / "tmp")
    )


def test_processes_that_create_a_store_at_once_all_succeed(tmp_path: Path) -> None:
    path = tmp_path / "store"
    for process in [start(OPEN, path) for _ in range(4)]:
        assert finish(process) == []
    commit(open_store(path), b"works")
    assert not [name for name in os.listdir(path) if ".tmp-" in name]


def test_processes_that_make_a_key_at_once_agree_on_it(keys: Path) -> None:
    made = {key for process in [start(MAKE_KEY) for _ in range(4)] for key in finish(process)}
    assert len(made) == 1
    assert os.listdir(keys) == ["signing.key"]


@pytest.mark.case(53)
@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_killed_writer_leaves_nothing_half_readable(tmp_path: Path, after: int) -> None:
    path = tmp_path / "store"
    process = start(COMMIT_MANY, path, "w", 10_000, 5)
    assert process.stdout is not None
    acknowledged = [process.stdout.readline() for _ in range(after + 1)][1:]
    process.kill()
    acknowledged += process.stdout.readlines()
    process.wait()
    process.stdout.close()

    store = open_store(path)
    assert os.listdir(path / "tmp") == []
    found = {ref.body.seq: ref for ref in store.refs("w")}
    assert {int(line) for line in acknowledged if line.endswith("\n")} <= found.keys()
    for ref in found.values():
        for chunk in chunks(store, ref):
            assert object_id(store.get(chunk)) == chunk
    assert store.info().damaged == ()
    assert commit(store, b"goes on").body.seq == len(found)


def test_a_live_session_is_left_alone(tmp_path: Path) -> None:
    first = open_store(tmp_path / "store")
    writer = first.begin()
    oid = writer.put("record", os.urandom(100_000))
    open_store(tmp_path / "store")
    writer.commit(ref_body(oid))
    assert first.has([oid])


def test_a_forked_child_writes_beside_its_parent(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    commit(store, b"before")
    child = os.fork()
    if child == 0:
        try:
            commit(store, b"child", source_digest="child")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    commit(store, b"parent")
    store.refresh()
    assert [ref.body.seq for ref in store.refs("child")] == [1]
    assert sorted(ref.body.seq for ref in store.refs()) == [0, 1, 2]


def test_a_pack_that_is_removed_is_missing_not_an_error(tmp_path: Path) -> None:
    reader = open_store(tmp_path / "store")
    oid = commit(open_store(tmp_path / "store"), b"content").body.record
    reader.refresh()
    assert reader.has([oid])
    for pack in (tmp_path / "store" / "packs").rglob("*.pack"):
        pack.unlink()
    with pytest.raises(ObjectMissing):
        reader.get(oid)
    assert not reader.has([oid])
    assert commit(reader, b"content").body.seq == 1
    assert reader.get(oid) == b"content"
