"""L4: what a session has staged survives it, and survives the process that writes it."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nbrewind.errors import StoreNotWritable
from nbrewind.model.blobs import ObjectId
from nbrewind.model.refs import RefBody
from nbrewind.store import arena, check, flushing, leases, messages
from nbrewind.store.local import LocalStore, open_store
from nbrewind.testing.store_conformance import ref_body

from .programs import finish, start

pytestmark = pytest.mark.skipif(not arena.is_available(), reason="no shared memory without names")

STAGE = """
import os, sys, time
from contextlib import nullcontext
from nbrewind.store.local import open_store
from nbrewind.testing.store_conformance import ref_body

store = open_store(sys.argv[1], flusher=nullcontext)
while not store.flushing.pid:
    time.sleep(0.01)
print(store.flushing.pid, flush=True)
sys.stdin.readline()
for i in range(int(sys.argv[2])):
    writer = store.begin()
    blob = writer.put_blob(os.urandom(700_000))
    content = b"".join([blob.digest, *blob.chunks])
    writer.commit_later(ref_body(writer.put("record", content), seq=i), print)
    print("captured", i, flush=True)
print("all", flush=True)
time.sleep(600)
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    store = open_store(tmp_path / "store", flusher=contextlib.nullcontext)
    yield store
    store.close()


def flusher_of(store: LocalStore) -> int:
    assert store.flushing is not None
    wait_for(lambda: store.flushing is not None and store.flushing.pid)
    return store.flushing.pid


def wait_for(condition: Callable[[], object]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def hand_over(store: LocalStore, number: int, failures: list[Exception]) -> ObjectId:
    writer = store.begin()
    writer.put_blob(random.Random(number).randbytes(600_000))
    writer.put_blob(b"shared" * 100_000)
    oid = writer.put("record", b"record %d" % number)
    writer.commit_later(ref_body(oid, seq=number), failures.append)
    return oid


def bodies(path: Path) -> list[RefBody]:
    return sorted((ref.body for ref in open_store(path).refs()), key=lambda body: body.seq)


def start_staging(path: Path, count: int) -> tuple[subprocess.Popen[str], int]:
    process = start(STAGE, path, count, stdin=subprocess.PIPE)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def test_what_is_captured_survives_the_kernel(tmp_path: Path) -> None:
    process, flusher = start_staging(tmp_path / "store", 8)
    assert process.stdout is not None
    os.kill(flusher, signal.SIGSTOP)  # nothing is written before the kernel is dead
    go(process)
    for line in process.stdout:
        if line == "all\n":
            break
    process.kill()
    process.communicate()
    assert bodies(tmp_path / "store") == []
    os.kill(flusher, signal.SIGCONT)
    wait_for(lambda: is_gone(flusher))
    with open_store(tmp_path / "store") as store:
        assert [body.seq for body in bodies(tmp_path / "store")] == [*range(8)]
        assert check.check_store(store).sound
        for body in bodies(tmp_path / "store"):
            content = store.get(body.record)
            for at in range(32, len(content), 32):
                store.get(content[at : at + 32])


def test_another_flusher_takes_over(store: LocalStore, tmp_path: Path) -> None:
    failures: list[Exception] = []
    first = flusher_of(store)
    os.kill(first, signal.SIGSTOP)
    records = [hand_over(store, number, failures) for number in range(6)]
    os.kill(first, signal.SIGKILL)
    store.settle()
    assert failures == []
    assert [body.record for body in bodies(tmp_path / "store")] == records
    assert flusher_of(store) != first


def test_what_a_dead_flusher_published_is_not_published_twice(
    store: LocalStore, tmp_path: Path
) -> None:
    failures: list[Exception] = []
    store.begin().abort()
    records = []
    for number in range(30):
        records.append(hand_over(store, number, failures))
        if number % 3 == 2:
            with contextlib.suppress(ProcessLookupError):
                os.kill(flusher_of(store), signal.SIGKILL)
            store.settle()
    assert failures == []
    assert [body.record for body in bodies(tmp_path / "store")] == records


def test_a_commit_can_be_waited_for(store: LocalStore) -> None:
    writer = store.begin()
    ref = writer.commit(ref_body(writer.put("record", b"r")))
    assert ref.trusted
    assert store.get(ref.body.record) == b"r"


def test_an_object_that_waits_can_be_read_and_is_not_added_again(store: LocalStore) -> None:
    os.kill(flusher_of(store), signal.SIGSTOP)
    data = os.urandom(900_000)
    writer = store.begin()
    blob = writer.put_blob(data)
    writer.commit_later(ref_body(writer.put("record", b"one")), print)
    writer = store.begin()
    assert writer.put_blob(data) == blob
    assert writer.bytes_added == 0
    writer.abort()
    assert store.has(blob.chunks)
    os.kill(flusher_of(store), signal.SIGCONT)
    assert store.get_blob(blob) == data


def test_a_failure_is_told_and_fails_what_comes_after(store: LocalStore, tmp_path: Path) -> None:
    failures: list[Exception] = []
    os.kill(flusher_of(store), signal.SIGSTOP)
    (tmp_path / "store" / "refs").rmdir()
    begun = store.begin()
    begun.put("record", b"begun before it was known")
    hand_over(store, 0, failures)
    hand_over(store, 1, failures)
    os.kill(flusher_of(store), signal.SIGCONT)
    store.settle()
    assert [type(failure) for failure in failures] == [StoreNotWritable] * 2
    (tmp_path / "store" / "refs").mkdir()
    with pytest.raises(StoreNotWritable):
        begun.commit(ref_body(begun.put("record", b"begun before it was known")))
    hand_over(store, 2, failures)
    store.settle()
    assert len(failures) == 2
    assert [body.seq for body in bodies(tmp_path / "store")] == [2]


def test_who_waits_for_a_commit_knows_of_its_failure(store: LocalStore, tmp_path: Path) -> None:
    failures: list[Exception] = []

    def failed(problem: Exception) -> None:
        time.sleep(0.2)
        failures.append(problem)

    flusher_of(store)  # it has opened the store
    (tmp_path / "store" / "refs").rmdir()
    writer = store.begin()
    writer.commit_later(ref_body(writer.put("record", b"1")), failed)
    store.settle()
    assert len(failures) == 1


def test_without_a_flusher_the_session_writes_itself(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flushing, "_PROGRAM", "raise SystemExit")
    failures: list[Exception] = []
    os.kill(flusher_of(store), signal.SIGSTOP)
    records = [hand_over(store, number, failures) for number in range(3)]
    os.kill(flusher_of(store), signal.SIGKILL)
    store.settle()
    records.append(hand_over(store, 3, failures))
    store.settle()
    assert failures == []
    assert [body.record for body in bodies(tmp_path / "store")] == records


def test_a_full_arena_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(arena.BUDGET_VARIABLE, "1")
    with open_store(tmp_path / "store", flusher=contextlib.nullcontext) as store:
        assert store.flushing is not None
        waits: list[int] = []
        store.flushing.waiting_for_room = lambda: waits.append(1)
        failures: list[Exception] = []
        contents = [os.urandom(arena.LEAST_BYTES // 3) for _ in range(8)]
        blobs = []
        for number, content in enumerate(contents):
            writer = store.begin()
            blobs.append(writer.put_blob(content))
            writer.commit_later(ref_body(writer.put("record", b"%d" % number)), failures.append)
        store.settle()
        assert waits
        assert failures == []
        assert [store.get_blob(blob) for blob in blobs] == contents
        assert store.flushing.arena.used == 0


def test_a_commit_larger_than_the_arena_is_written_by_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(arena.BUDGET_VARIABLE, "1")
    with open_store(tmp_path / "store", flusher=contextlib.nullcontext) as store:
        failures: list[Exception] = []
        first = hand_over(store, 0, failures)
        writer = store.begin()
        contents = [os.urandom(arena.LEAST_BYTES // 3) for _ in range(4)]
        blobs = [writer.put_blob(content) for content in contents]
        large = writer.put("record", b"large")
        writer.commit_later(ref_body(large, seq=1), failures.append)
        last = hand_over(store, 2, failures)
        store.settle()
        assert failures == []
        assert [body.record for body in bodies(tmp_path / "store")] == [first, large, last]
        assert [store.get_blob(blob) for blob in blobs] == contents


def test_a_forked_child_writes_by_itself_and_does_not_keep_the_flusher(tmp_path: Path) -> None:
    program = """
import os, signal, sys, time
from contextlib import nullcontext
from nbrewind.store.local import open_store
from nbrewind.testing.store_conformance import ref_body

store = open_store(sys.argv[1], flusher=nullcontext)
while not store.flushing.pid:
    time.sleep(0.01)
child = os.fork()
if child == 0:
    writer = store.begin()
    writer.commit(ref_body(writer.put("record", b"of the child"), lineage="c"))
    time.sleep(600)
time.sleep(0.5)
print(store.flushing.pid, child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    process = start(program, tmp_path / "store")
    assert process.stdout is not None
    flusher, child = map(int, process.stdout.readline().split())
    process.wait()
    wait_for(lambda: is_gone(flusher))
    wait_for(lambda: len(bodies(tmp_path / "store")) == 1)
    os.kill(child, signal.SIGKILL)
    process.communicate()


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    store = open_store(tmp_path / "store", flusher=contextlib.nullcontext)
    hand_over(store, 0, [])
    pid = flusher_of(store)
    store.close()
    wait_for(lambda: is_gone(pid))
    assert set(os.listdir("/proc/self/fd")) <= before
    assert os.listdir(tmp_path / "store" / "tmp") == []


def test_signals_of_the_terminal_do_not_reach_it(tmp_path: Path) -> None:
    process, flusher = start_staging(tmp_path / "store", 3)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(flusher, number)
    assert os.getsid(flusher) != os.getsid(process.pid)
    go(process)
    assert process.stdout is not None
    for line in process.stdout:
        if line == "all\n":
            break
    process.kill()
    process.communicate()
    wait_for(lambda: is_gone(flusher))
    assert len(bodies(tmp_path / "store")) == 3


def test_it_is_no_child_of_its_session(tmp_path: Path) -> None:
    program = """
import os, sys
from contextlib import nullcontext
from nbrewind.store.local import open_store
store = open_store(sys.argv[1], flusher=nullcontext)
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("none")
store.close()
"""
    assert finish(start(program, tmp_path / "store")) == ["none"]


def test_a_ref_that_cannot_be_read_at_the_moment_is_committed_and_those_after_it_are(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[Exception] = []
    with monkeypatch.context() as patch:
        patch.setattr(store._refs, "note", lambda lineage, seq: None)
        first = hand_over(store, 0, failures)
        store.settle()
    second = hand_over(store, 1, failures)
    store.settle()
    assert not failures
    assert store.has([first, second])
    store.refresh()
    assert [ref.body.seq for ref in store.refs()] == [1, 0]


def test_what_a_session_sent_is_received_although_it_died_with_answers_unread() -> None:
    session, flusher = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with flusher:
        with session:
            for number in range(3):
                session.send(messages.encode(messages.GoneSegment(number)))
            flusher.send(messages.encode(messages.Hello(1)))
        received = [messages.receive_request(flusher) for _ in range(4)]
    assert received == [*((messages.GoneSegment(number), []) for number in range(3)), None]


def test_its_lease_says_no_more_than_needed_once_it_is_idle(
    store: LocalStore, tmp_path: Path
) -> None:
    hand_over(store, 0, [])
    store.settle()

    def in_flight() -> list[leases.Lease]:
        return [
            lease
            for lease in leases.read_leases(str(tmp_path / "store")).values()
            if lease.epoch is not None or lease.packs
        ]

    wait_for(lambda: not in_flight())
    hand_over(store, 1, [])
    store.settle()
    wait_for(lambda: not in_flight())


def test_without_memory_the_session_writes_itself(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[Exception] = []
    records = [hand_over(store, 0, failures)]
    store.settle()

    def full(size: int) -> int:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(arena, "_make_file", full)
    content = os.urandom(2 * arena.SEGMENT_BYTES)  # more than there is now
    writer = store.begin()
    blob = writer.put_blob(content)
    records.append(writer.put("record", b"large"))
    writer.commit_later(ref_body(records[-1], seq=1), failures.append)
    records.append(hand_over(store, 2, failures))
    store.settle()
    assert failures == []
    assert [body.record for body in bodies(tmp_path / "store")] == records
    assert store.get_blob(blob) == content


def test_where_no_shared_memory_can_be_made_there_is_no_flusher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(name: str, flags: int) -> int:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "memfd_create", refused)
    with open_store(tmp_path / "store", flusher=contextlib.nullcontext) as store:
        assert store.flushing is None
        hand_over(store, 0, [])
        store.settle()
    assert len(bodies(tmp_path / "store")) == 1


def test_a_fault_of_ours_makes_nobody_wait(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store.flushing is not None

    def faulty() -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(store.flushing, "_tidy_arena", faulty)
    failures: list[Exception] = []
    records = [hand_over(store, number, failures) for number in range(3)]
    store.settle()
    records.append(hand_over(store, 3, failures))
    store.settle()
    assert failures == []
    assert {body.record for body in bodies(tmp_path / "store")} == set(records)
