"""Commits that end in the background end in order, fail together, and never wait for ever."""

from __future__ import annotations

import threading

import pytest

from nbrewind.errors import StoreNotWritable
from nbrewind.store.remote.later import Later


def test_commits_end_in_their_order() -> None:
    later, ended = Later(), list[int]()
    for i in range(20):
        later.add(lambda i=i: ended.append(i), later.epoch, [bytes([i])], pytest.fail)  # type: ignore[misc]
    later.wait()
    assert ended == list(range(20))
    assert not later.holds(bytes([3]))
    later.close()


def test_those_begun_before_a_failure_fail_too() -> None:
    later, failures = Later(), list[Exception]()
    epoch = later.epoch

    def fail() -> None:
        raise StoreNotWritable("no")

    later.add(fail, epoch, [], failures.append)
    later.add(lambda: pytest.fail("it was begun before"), epoch, [], failures.append)
    later.wait()
    assert [type(f) for f in failures] == [StoreNotWritable] * 2
    later.add(lambda: None, later.epoch, [], failures.append)
    later.close()
    assert len(failures) == 2


def test_nobody_waits_for_ever_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbrewind.store.remote.later.ROOM_SECONDS", 0.01)
    later, failures, hung = Later(), list[Exception](), threading.Event()
    for _ in range(9):
        later.add(lambda: hung.wait(), later.epoch, [], failures.append)
    assert "does not keep up" in str(failures[0])
    hung.set()
    later.close()
