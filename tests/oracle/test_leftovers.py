"""Threads that outlive their cell: what they change is seen, and they run as often as plainly."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nbrewind.testing.oracle import compare
from nbrewind_kernels.leftovers import Leftovers

START = {
    "thread": "threading.Thread(target=work).start()",
    "timer": "threading.Timer(0.01, work).start()",
    "subclass": "type('T', (threading.Thread,), {'run': lambda s: work()})().start()",
    "partial": "threading.Thread(target=functools.partial(work)).start()",
    "pool": "ThreadPoolExecutor(1).submit(work);",
    "code of a library": "threading.Thread(target=list, args=(map(work, [0]),)).start()",
}


@pytest.mark.parametrize("kind", START)
@pytest.mark.parametrize("planned", [False, True])
def test_what_a_thread_changes_after_its_cell_is_seen(kind: str, planned: bool, root: Path) -> None:
    cells = [
        "import threading, time, functools\nfrom concurrent.futures import ThreadPoolExecutor",
        "L = []\ndef work(_=0):\n    time.sleep(0.2)\n    L.append(len(L))\n" + START[kind],
        "time.sleep(0.6)",
        "k = 1",
        "print(L, k)",
    ]
    run = compare(cells, [*cells[:3], "k = 2", cells[4]], root, planned=planned)
    assert {1, 2, 3, 4} <= set(run.executed)


def test_nothing_is_reused_while_a_thread_runs_and_all_is_once_it_ended(root: Path) -> None:
    cells = [
        "import threading; go = threading.Event(); L = []",
        "def work():\n    go.wait()\n    L.append(1)\n"
        "threading.Thread(target=work, name='worker').start()",
        "a = 1",
        "go.set()\nfor t in threading.enumerate():\n    if t.name == 'worker': t.join()\ndel go, t",
        "b = 2",
        "print(L, a, b)",
    ]
    run = compare(cells, cells, root)
    assert run.executed[-3:] == [1, 2, 3]
    waiting = next(report for report in run.reports if report.index == 2)
    assert [(reason.kind, reason.subject) for reason in waiting.reasons] == [("unsafe", "threads")]


def test_threads_that_wait_for_work_do_not_count() -> None:
    left, gate = Leftovers(), threading.Event()
    with ThreadPoolExecutor(2) as pool:
        left.begin()
        pool.submit(gate.is_set).result()
        server = threading.Thread(target=gate.wait)
        server.start()
        while not pool._idle_semaphore.acquire(timeout=0):
            time.sleep(0.001)
        assert not left.end()
        assert not left.may_have_acted()
        gate.set()
        server.join()


def test_threads_of_our_own_that_have_work_are_no_leftovers() -> None:
    # On a busy machine the record of a cell is still being written when the next one ends.
    go = threading.Event()
    with ThreadPoolExecutor(1, "nbrewind-commit") as pool:
        for _ in range(3):
            pool.submit(go.wait)
        try:
            assert not Leftovers().are_running()
        finally:
            go.set()


def test_an_alarm_that_is_set_counts_until_it_went_off(root: Path) -> None:
    cells = [
        "import signal, time; L = []\n"
        "_ = signal.signal(signal.SIGVTALRM, lambda *_: L.append(1)); del _\n"
        "_ = signal.setitimer(signal.ITIMER_VIRTUAL, 0.1); del _",
        "end = time.process_time() + 0.3\nwhile time.process_time() < end: pass\ndel end",
        "k = 1",
        "print(L, k)",
    ]
    run = compare(cells, [*cells[:2], "k = 2", cells[3]], root)
    assert run.executed == [0, 1, 2, 3]
