"""L4, L6: a store that cannot be written says so, keeps what it has and shows nothing half."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nbrewind.errors import StoreNotWritable
from nbrewind.store import Store, open_store
from nbrewind.testing.store_conformance import commit, ref_body

BIG = random.Random(0).randbytes(6_000_000)


def files(root: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in [root, *root.rglob("*")]
    }


def big_commit(store: Store) -> None:
    writer = store.begin()
    writer.put_blob(BIG)
    writer.commit(ref_body(writer.put("record", b"big")))


def attempt(action: Callable[[Store], None], store: Store) -> str:
    """What the store complains of while an action is tried; empty if it succeeds."""
    try:
        action(store)
    except StoreNotWritable as exc:
        return str(exc)
    return ""


def failing(call: Callable[..., object], number: int, nth: int) -> Callable[..., object]:
    """`call`, except that from its `nth` use on it fails."""
    uses = iter(range(nth))

    def fail(*args: object, **kwargs: object) -> object:
        if next(uses, None) is None:
            raise OSError(number, os.strerror(number))
        return call(*args, **kwargs)

    return fail


@pytest.mark.case(53)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize(
    ("function", "uses"), [("writev", 5), ("fsync", 6), ("rename", 1), ("link", 1), ("mkdir", 2)]
)
def test_a_fault_at_any_step_shows_nothing_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, uses: int, number: int
) -> None:
    faults = 0
    for nth in range(uses):
        path = tmp_path / str(nth)
        before = commit(open_store(path), b"before", lineage="b" * 32)
        store = open_store(path)
        with monkeypatch.context() as patch:
            patch.setattr(os, function, failing(getattr(os, function), number, nth))
            complaint = attempt(big_commit, store)
        if complaint:
            faults += 1
            assert str(path) in complaint
            assert open_store(path, read_only=True).refs() == [before]
        assert not list((path / "tmp").rglob("*.pack"))
        assert not list((path / "tmp").rglob("*.ref"))
        big_commit(store)
        assert len(open_store(path).refs()) >= 2
    assert faults >= 1


def test_a_failed_fsync_is_answered_by_one_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    tried: list[int] = []
    real = os.fsync

    def once(fd: int) -> None:
        inode = os.fstat(fd).st_ino
        assert inode not in tried, "fsync was retried on the same file"
        tried.append(inode)
        if len(tried) == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        monkeypatch.setattr(os, "fsync", real)

    writer = store.begin()
    blob = writer.put_blob(BIG)
    oid = writer.put("record", b"record")
    monkeypatch.setattr(os, "fsync", once)
    writer.commit(ref_body(oid))
    assert len(tried) == 2
    assert open_store(tmp_path).get_blob(blob) == BIG


def test_an_fsync_that_keeps_failing_is_final(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    writer = store.begin()
    oid = writer.put("record", b"content")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(os.fsync, errno.EIO, 0))
        with pytest.raises(StoreNotWritable, match="input/output error"):
            writer.commit(ref_body(oid))
    assert open_store(tmp_path).refs() == []


def test_where_links_are_refused_refs_are_created_exclusively(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", failing(os.link, errno.EPERM, 0))
    assert [commit(open_store(tmp_path), str(i).encode()).body.seq for i in range(3)] == [0, 1, 2]
    assert all(ref.trusted for ref in open_store(tmp_path).refs())


@pytest.mark.case(53)
def test_a_link_whose_answer_was_lost_has_succeeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link

    def twice(source: str, target: str) -> None:
        real(source, target)
        real(source, target)

    store = open_store(tmp_path)
    commit(store, b"makes the key")
    monkeypatch.setattr(os, "link", twice)
    assert commit(store, b"content").body.seq == 1
    assert len(open_store(tmp_path).refs()) == 2


@pytest.mark.parametrize("function", ["link", "rename"])
@pytest.mark.parametrize("number", [errno.EEXIST, errno.EIO, errno.ETIMEDOUT, errno.ENOENT])
def test_what_was_done_although_its_answer_is_an_error_counts_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, number: int
) -> None:
    store = open_store(tmp_path)
    commit(store, b"makes the key")
    real = getattr(os, function)

    def answer_lost(source: str, target: str) -> None:
        real(source, target)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, function, answer_lost)
    assert commit(store, b"content").body.seq == 1
    assert [ref.body.seq for ref in open_store(tmp_path).refs()] == [1, 0]


def test_a_backup_that_links_files_does_not_make_anothers_number_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = open_store(tmp_path / "s"), open_store(tmp_path / "s")
    (tmp_path / "backup").mkdir()
    real = os.link

    def link(source: str, target: str) -> None:
        if not os.path.exists(target):
            monkeypatch.setattr(os, "link", real)
            real(source, tmp_path / "backup" / "copy")  # two links now
            assert commit(second, b"of another").body.seq == 0
        real(source, target)

    monkeypatch.setattr(os, "link", link)
    assert commit(first, b"ours").body.seq == 1
    assert len(open_store(tmp_path / "s").refs()) == 2


def test_a_read_only_store_is_opened_without_writing(tmp_path: Path) -> None:
    ref = commit(open_store(tmp_path / "store"), b"content")
    shutil.rmtree(tmp_path / "store" / "tmp")
    before = files(tmp_path)
    store = open_store(tmp_path / "store", read_only=True)
    assert store.refs() == [ref]
    assert store.get(ref.body.record) == b"content"
    assert store.info().refs == 1
    with pytest.raises(StoreNotWritable, match="read-only"):
        store.begin()
    store.close()
    assert files(tmp_path) == before


def test_a_directory_without_permission_is_not_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(tmp_path)
    monkeypatch.setattr(os, "access", lambda *args: False)
    with pytest.raises(StoreNotWritable, match="permission denied"):
        open_store(tmp_path)
    open_store(tmp_path, read_only=True)


def test_a_store_cannot_be_made_where_a_file_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreNotWritable):
        open_store(tmp_path / "file" / "store")


def test_without_a_place_for_keys_nothing_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("NBREWIND_CONFIG_DIR", str(tmp_path / "file" / "keys"))
    store = open_store(tmp_path / "store")
    with pytest.raises(StoreNotWritable, match="NBREWIND_CONFIG_DIR"):
        store.begin()


def can_mount(path: str = "/mnt") -> bool:
    """Whether a file system can be mounted here, found out without doing it."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or not shutil.which("unshare"):
        return False
    trial = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", path]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0


FULL_DISK = """
import os, sys
from nbrewind.errors import StoreNotWritable
from nbrewind.store import open_store
from nbrewind.testing.store_conformance import commit, ref_body
store = open_store(sys.argv[1])
ref = commit(store, b"fits")
for attempt in range(3):
    try:
        writer = store.begin()
        writer.put_blob(os.urandom(4_000_000))
        writer.commit(ref_body(writer.put("record", b"large")))
    except StoreNotWritable as exc:
        assert "full" in str(exc), exc
    else:
        raise SystemExit("a full disk took it")
assert commit(store, b"fits too").body.seq == 1
fresh = open_store(sys.argv[1])
assert [fresh.get(r.body.record) for r in fresh.refs()] == [b"fits too", b"fits"]
assert fresh.info().damaged == ()
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny"
    path.mkdir()
    return path


@pytest.mark.skipif(not can_mount(), reason="file systems cannot be mounted here")
def test_a_full_disk_keeps_what_it_has_and_takes_what_fits(tiny: Path) -> None:
    from .programs import ROOT

    script = f'mount -t tmpfs -o size=2m none "{tiny}" && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", FULL_DISK, tiny],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
