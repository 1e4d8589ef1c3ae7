"""Several users, hosts and folders: one store for a group, moved, copied, under another name."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from pathlib import Path

import pytest

from nbrewind.errors import NBRewindError, StoreNotWritable
from nbrewind.store import object_id, open_store
from nbrewind.store.check import check_store
from nbrewind.store.sharing import share
from nbrewind.testing.store_conformance import commit, ref_body

from .programs import COMMIT_MANY, finish, start

AS_HOST = """
import os
from nbrewind.store import session
session.host_name = lambda: "host" + os.environ["NUMBER"]
session._boot = lambda: "boot-" + os.environ["NUMBER"]
"""


def modes(root: Path) -> dict[str, tuple[bool, int]]:
    return {
        str(path.relative_to(root)): (path.is_dir(), stat.S_IMODE(path.stat().st_mode))
        for path in [root, *root.rglob("*")]
    }


def test_what_is_made_in_a_shared_store_is_the_groups_whatever_the_umask(tmp_path: Path) -> None:
    import grp

    group = grp.getgrgid(os.getegid()).gr_name
    before = os.umask(0o077)
    try:
        commit(open_store(tmp_path / "s"), b"before")
        share(str(tmp_path / "s"), group)
        store = open_store(tmp_path / "s")
        writer = store.begin()
        writer.put_blob(os.urandom(500_000))
        commit(store, b"after", lineage="b" * 32)
        found = modes(tmp_path / "s")
        commit(open_store(tmp_path / "alone"), b"alone")
    finally:
        os.umask(before)
    assert len(found) > 15
    for path, (folder, mode) in found.items():
        wanted = stat.S_ISGID | stat.S_IRWXG if folder else stat.S_IRGRP
        assert mode & wanted == wanted, (path, oct(mode))
        assert not mode & stat.S_IRWXO, (path, oct(mode))
    assert not any(mode & 0o077 for _, mode in modes(tmp_path / "alone").values())


def test_a_group_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    open_store(tmp_path / "s")
    with pytest.raises(StoreNotWritable, match="no group 'of nobody'"):
        share(str(tmp_path / "s"), "of nobody")


@pytest.mark.case(53)
def test_hosts_that_know_nothing_of_each_other_write_one_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = []
    for number in range(8):
        monkeypatch.setenv("NUMBER", str(number % 5))  # some of them are one host
        processes.append(start(AS_HOST + COMMIT_MANY, tmp_path / "s", f"w{number}", 5, 0.3))
    acknowledged = {f"w{n}": finish(process)[1:] for n, process in enumerate(processes)}
    with open_store(tmp_path / "s") as store:
        for name, numbers in acknowledged.items():
            refs = store.refs(name)
            assert sorted(ref.body.seq for ref in refs) == sorted(map(int, numbers))
            for ref in refs:
                content = store.get(ref.body.record)
                for at in range(32, len(content), 32):
                    assert object_id(store.get(content[at : at + 32])) == content[at : at + 32]
        assert {ref.body.seq for ref in store.refs()} == set(range(40))
        assert check_store(store).sound


def test_a_copy_of_a_store_is_a_store_of_its_own(tmp_path: Path) -> None:
    first = open_store(tmp_path / "s")
    kept = commit(first, b"content")
    shutil.copytree(tmp_path / "s", tmp_path / "copy")
    second = open_store(tmp_path / "copy")
    assert [commit(store, b"later").body.seq for store in (first, second)] == [1, 1]
    for store in (first, second):
        assert store.get(kept.body.record) == b"content"
        assert check_store(store).sound


def test_a_store_that_is_moved_while_open_takes_nothing_more_and_loses_nothing(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path / "s")
    kept = commit(store, b"content")
    failures: list[Exception] = []
    writer = store.begin()
    oid = writer.put("record", b"under way")
    os.rename(tmp_path / "s", tmp_path / "moved")
    writer.commit_later(ref_body(oid), failures.append)
    store.settle()
    with pytest.raises(StoreNotWritable):
        commit(store, b"too late")
    with contextlib.suppress(NBRewindError):  # its file may be open still
        assert store.get(kept.body.record) == b"content"
    assert all(isinstance(failure, StoreNotWritable) for failure in failures)
    assert len(failures) == 1
    store.close()
    with open_store(tmp_path / "moved") as moved:
        assert moved.get(kept.body.record) == b"content"
        assert len(moved.refs()) == 1
        assert check_store(moved).sound
    assert not (tmp_path / "s").exists()
