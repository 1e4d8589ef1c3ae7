"""L4: commits that end later end in their order, all or none of each, and say if they did not."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from nbrewind.errors import StoreNotWritable
from nbrewind.model.blobs import ObjectId
from nbrewind.store import open_store
from nbrewind.store.local import LocalStore
from nbrewind.testing.store_conformance import ref_body

from .programs import ROOT


class Disk:
    """Stands still until it is let go, then works, or fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go = threading.Event()
        self.failures = 0
        real = os.fsync

        def fsync(fd: int) -> None:
            self.go.wait(60)
            if self.failures:
                self.failures -= 1
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(fd)

        monkeypatch.setattr(os, "fsync", fsync)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = open_store(tmp_path / "store")
    writer = store.begin()
    writer.commit(ref_body(writer.put("record", b"first")))
    return store


@pytest.fixture
def disk(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def hand_over(store: LocalStore, number: int, failures: list[Exception]) -> ObjectId:
    writer = store.begin()
    writer.put_blob(b"shared" * 100)
    oid = writer.put("record", b"record %d" % number)
    writer.commit_later(ref_body(oid, seq=number), failures.append)
    return oid


def seqs(store: LocalStore) -> list[int]:
    return [ref.body.seq for ref in open_store(store.location, read_only=True).refs()]


def test_nothing_waits_for_the_disk_and_nothing_is_visible_early(
    store: LocalStore, disk: Disk
) -> None:
    failures: list[Exception] = []
    oids = [hand_over(store, number, failures) for number in range(1, 6)]
    assert store.has(oids)
    assert seqs(store) == [0]
    disk.go.set()
    store.settle()
    assert not failures
    assert seqs(store) == [5, 4, 3, 2, 1, 0]
    fresh = open_store(store.location)
    assert [fresh.get(oid) for oid in oids] == [b"record %d" % n for n in range(1, 6)]


def test_objects_of_a_commit_under_way_are_not_added_again(store: LocalStore, disk: Disk) -> None:
    failures: list[Exception] = []
    hand_over(store, 1, failures)
    writer = store.begin()
    writer.put_blob(b"shared" * 100)
    assert writer.bytes_added == 0
    disk.go.set()


def test_what_was_handed_over_is_read_once_it_is_there(store: LocalStore, disk: Disk) -> None:
    oid = hand_over(store, 1, [])
    threading.Timer(0.05, disk.go.set).start()
    assert store.get(oid) == b"record 1"


def test_a_failure_ends_all_that_may_rely_on_it_and_no_more(store: LocalStore, disk: Disk) -> None:
    failures: list[Exception] = []
    late = store.begin()
    late_oid = late.put("record", b"late")
    for number in range(1, 4):
        hand_over(store, number, failures)
    disk.failures = 100
    disk.go.set()
    store.settle()
    assert len(failures) == 3
    assert all(isinstance(failure, StoreNotWritable) for failure in failures)
    assert "full" in str(failures[0])
    disk.failures = 0
    with pytest.raises(StoreNotWritable, match="before"):
        late.commit(ref_body(late_oid, seq=9))
    assert seqs(store) == [0]
    assert not list(Path(store.location, "tmp").rglob("*.*"))
    hand_over(store, 1, failures)
    store.settle()
    assert seqs(store) == [1, 0]


def test_who_waits_for_a_commit_knows_of_its_failure(store: LocalStore, disk: Disk) -> None:
    failures: list[Exception] = []

    def failed(problem: Exception) -> None:
        time.sleep(0.2)
        failures.append(problem)

    writer = store.begin()
    writer.commit_later(ref_body(writer.put("record", b"1"), seq=1), failed)
    disk.failures = 1
    disk.go.set()
    store.settle()
    assert len(failures) == 1


def test_a_plain_commit_comes_after_those_handed_over(store: LocalStore, disk: Disk) -> None:
    hand_over(store, 1, [])
    disk.go.set()
    writer = store.begin()
    ref = writer.commit(ref_body(writer.put("record", b"plain"), seq=2))
    assert ref.body.seq == 2
    assert seqs(store) == [2, 1, 0]


def test_more_than_may_wait_makes_the_writer_wait(store: LocalStore) -> None:
    failures: list[Exception] = []
    for number in range(1, 151):
        hand_over(store, number, failures)
    store.settle()
    assert not failures
    assert seqs(store) == list(range(150, -1, -1))


PROGRAM = """
import os, sys
from nbrewind.store import open_store
from nbrewind.testing.store_conformance import ref_body
store = open_store(sys.argv[1])
def hand_over(number):
    writer = store.begin()
    oid = writer.put("record", b"record %d" % number)
    writer.commit_later(ref_body(oid, seq=number), print)
for number in range(20):
    hand_over(number)
if sys.argv[2] == "fork":
    child = os.fork()
    if not child:
        hand_over(90)
        store.settle()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
if sys.argv[2] == "late":
    import atexit
    atexit.register(hand_over, 90)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize(("how", "wanted"), [("plain", 20), ("late", 21), ("fork", 21)])
def test_the_end_of_the_process_waits_for_what_was_handed_over(
    tmp_path: Path, how: str, wanted: int
) -> None:
    done = run(tmp_path, how)
    assert done.returncode == 0, done.stderr
    assert not done.stdout
    assert len(open_store(tmp_path).refs()) == wanted


def test_a_killed_process_leaves_whole_commits_only(tmp_path: Path) -> None:
    assert run(tmp_path, "killed").returncode == -9
    store = open_store(tmp_path)
    found = [ref.body.seq for ref in store.refs()]
    assert found == list(range(len(found)))[::-1]
    assert all(store.get(ref.body.record) for ref in store.refs())
    assert store.info().damaged == ()


def run(folder: Path, how: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, folder, how],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_commits_that_propose_one_number_at_once_all_get_one(store: LocalStore, disk: Disk) -> None:
    failures: list[Exception] = []
    wanted = set()
    for number in range(12):
        writer = store.begin()
        lineage = "abc"[number % 3] * 32
        oid = writer.put("record", b"record %d" % number)
        writer.commit_later(ref_body(oid, lineage=lineage, seq=0), failures.append)
        wanted.add((lineage, number // 3, oid))
    disk.go.set()
    store.settle()
    assert not failures
    fresh = open_store(store.location)
    assert wanted <= {(r.body.lineage, r.body.seq, r.body.record) for r in fresh.refs()}
    assert fresh.info().damaged == ()


def test_a_ref_that_cannot_be_linked_keeps_those_after_it_from_being_seen(
    store: LocalStore, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[Exception] = []
    for number in range(1, 6):
        hand_over(store, number, failures)
    real, links = os.link, iter(range(100))

    def link(source: str, target: str) -> None:
        if next(links) == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(source, target)

    monkeypatch.setattr(os, "link", link)
    disk.go.set()
    store.settle()
    assert len(failures) + len(seqs(store)) == 6
    assert seqs(store) == list(range(len(seqs(store))))[::-1]
    assert failures
