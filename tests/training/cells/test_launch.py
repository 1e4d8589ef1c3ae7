"""A function on ranks: results, output, failures that name the rank, and nobody left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import nbrewind.training as nt
from nbrewind.errors import LaunchError, RankFailed

ROOT = Path(__file__).parents[3]
FACTOR = 3


class Answer:
    def __init__(self, value: float) -> None:
        self.value = value


@pytest.fixture(autouse=True)
def by_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What this module defines travels as what a notebook defines; nothing is left behind."""
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("WHERE", str(tmp_path))
    before = os.listdir("/proc/self/fd")
    yield
    cloudpickle.unregister_pickle_by_value(module)
    assert {path.suffix for path in tmp_path.iterdir()} <= {".pid"}
    for path in tmp_path.iterdir():
        gone(int(path.stem))
    assert len(os.listdir("/proc/self/fd")) == len(before)


def gone(pid: int) -> None:
    """Wait until a process has ended."""
    for _ in range(500):
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                if file.read().rpartition(b")")[2].split()[0] == b"Z":
                    return
        except OSError:
            return
        time.sleep(0.02)
    raise AssertionError(f"process {pid} goes on")


def rank() -> int:
    Path(os.environ["WHERE"], f"{os.getpid()}.pid").touch()
    return int(os.environ["RANK"])


def reduced(offset: int) -> tuple[int, float, Answer, str]:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    total = torch.tensor([float(rank() + offset)])
    dist.all_reduce(total)
    print("from rank", rank())  # noqa: T201
    print("and to stderr", file=sys.stderr)  # noqa: T201
    os.write(1, b"not through Python\n")
    return rank(), total.item(), Answer(FACTOR), os.environ["OMP_NUM_THREADS"]


def test_results_come_back_in_order_and_output_has_its_rank(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    results = nt.launch(reduced, 2, (10,))
    assert [(number, total) for number, total, _, _ in results] == [(0, 21.0), (1, 21.0)]
    assert all(type(answer) is Answer and answer.value == 3 for _, _, answer, _ in results)
    cores = len(os.sched_getaffinity(0))
    assert {threads for *_, threads in results} == {str(max(1, cores // 2))}
    shown = capsys.readouterr()
    for number in (0, 1):
        own = [line for line in shown.out.splitlines() if line.startswith(f"[rank {number}]")]
        assert own == [
            f"[rank {number}] from rank {number}",
            f"[rank {number}] not through Python",
        ]
        assert f"[rank {number}] and to stderr" in shown.err.splitlines()


def raising() -> None:
    if rank() == 1:
        raise ValueError("no such luck")
    time.sleep(600)


def killed() -> None:
    if rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)


def exiting() -> None:
    if rank() == 0:
        os._exit(7)
    time.sleep(600)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (raising, "rank 1 of 2 failed (exit code 1): ValueError: no such luck"),
        pytest.param(
            killed, "rank 1 of 2 was killed by SIGKILL (exit code -9)", marks=pytest.mark.long
        ),
        pytest.param(
            exiting, "rank 0 of 2 ended without a word (exit code 7)", marks=pytest.mark.long
        ),
    ],
)
def test_a_rank_that_fails_is_named_and_all_end(function: Callable[[], None], told: str) -> None:
    with pytest.raises(RankFailed) as caught:
        nt.launch(function, 2)
    assert str(caught.value).startswith(told)
    if function is raising:
        assert 'raise ValueError("no such luck")' in str(caught.value)


def deaf() -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo")
    if rank() == 1:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    dist.barrier()


@pytest.mark.long
def test_a_rank_that_hangs_is_named_and_killed() -> None:
    with pytest.raises(RankFailed, match="rank 1 got no further while others waited") as caught:
        nt.launch(deaf, 2, timeout=2, grace=1)
    assert "time.sleep(600)" in str(caught.value)
    assert "dist.barrier()" in str(caught.value)


def sleeping() -> None:
    rank()
    print("asleep")  # noqa: T201
    time.sleep(600)


def stubborn() -> None:
    rank()
    print("asleep")  # noqa: T201
    while True:
        try:
            time.sleep(600)
        except KeyboardInterrupt:
            continue


@pytest.mark.parametrize(
    ("function", "grace"), [(sleeping, 60), pytest.param(stubborn, 0.5, marks=pytest.mark.long)]
)
def test_ctrl_c_ends_the_ranks(
    function: Callable[[], None], grace: float, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []

    def interrupt() -> None:
        while len(shown) < 2:
            shown.extend(capsys.readouterr().out.split())
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        nt.launch(function, 1, grace=grace)
    thread.join()


def with_child() -> int:
    rank()
    child = subprocess.Popen(["sleep", "600"])
    Path(os.environ["WHERE"], f"{child.pid}.pid").touch()
    return child.pid


@pytest.mark.long
def test_what_a_rank_leaves_running_is_ended() -> None:
    assert len(nt.launch(with_child, 1)) == 1


def killing_the_agent() -> None:
    rank()
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)


@pytest.mark.long
def test_ranks_end_with_the_process_that_started_them() -> None:
    with pytest.raises(LaunchError, match="the process that starts the ranks was killed"):
        nt.launch(killing_the_agent, 2)


def refused(_value: Any) -> None:
    raise AssertionError


def test_what_cannot_travel_is_named() -> None:
    with pytest.raises(LaunchError, match=r"argument 1 .*lock"):
        nt.launch(refused, 1, (1, threading.Lock()))
    with pytest.raises(ValueError, match="at least one rank"):
        nt.launch(refused, 0)


def test_ranks_are_not_found_missing_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    with pytest.raises(LaunchError, match="could not be started"):
        nt.launch(rank, 1)


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGTERM, marks=pytest.mark.long),
        pytest.param(signal.SIGUSR1, marks=pytest.mark.long),
    ],
)
def test_ranks_do_not_outlive_the_notebook(number: signal.Signals, tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import os, time, pathlib
        import nbrewind.training as nt

        def forever():
            pathlib.Path(os.environ["WHERE"], f"{os.getpid()}.pid").touch()
            time.sleep(600)

        nt.launch(forever, 2, grace=1)
    """)
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", script], env=environ, stderr=subprocess.PIPE)
    assert process.stderr is not None
    while len(list(tmp_path.glob("*.pid"))) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    if number == signal.SIGUSR1:
        assert b"KeyboardInterrupt: SIGUSR1" in said
    else:
        assert process.returncode == -number
