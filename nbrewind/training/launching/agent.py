"""The agent: a process that runs torch's elastic launcher for a notebook.

`python -m nbrewind.training.launching.agent` reads one line, a `Job`, from its standard input,
starts the ranks, waits for them, and writes one line, a `Verdict`, when they have ended. When
its standard input is closed the notebook's process is gone, or wants no more: it ends at once,
and the ranks with it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

import msgspec

from nbrewind.training.launching.lifetime import die_with

AGENT = "NBREWIND_AGENT"
"""Environment variable of ranks: process id of their agent."""


class Job(msgspec.Struct, frozen=True):
    """What an agent is to start."""

    ranks: int
    """On this node."""
    nodes: int
    run: str
    """Name of this launch, unique."""
    endpoint: str
    """`host:port` where the agents meet; port 0: any, for one node."""
    address: str
    """Name of this node for the other ranks; empty: look it up."""
    grace: int
    """Seconds that ranks have to end after one of them failed."""
    kernel: int = 0
    """Process id of the notebook's process if that is the agent's parent, else 0."""


class Ended(msgspec.Struct, frozen=True):
    """How the process of a rank ended that failed."""

    rank: int
    code: int
    """Exit code; negative: the signal that ended it."""
    moment: float
    """When, in seconds since the epoch."""


class Verdict(msgspec.Struct, frozen=True):
    """What became of the ranks of one agent."""

    failed: tuple[Ended, ...] = ()
    problem: str = ""
    """Why they could not be started, or what ended the agent."""


def main() -> None:
    """Start the ranks of one job and wait until they have ended."""
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=Job)
    if job.kernel:
        die_with(job.kernel)
    threading.Thread(target=_end_with_input, name="nbrewind-input", daemon=True).start()
    signal.signal(signal.SIGUSR1, _ignore)
    os.environ[AGENT] = str(os.getpid())
    verdict = _run(job)
    sys.stdout.buffer.write(msgspec.json.encode(verdict) + b"\n")
    sys.stdout.buffer.flush()


def _run(job: Job) -> Verdict:
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import elastic_launch

    try:
        arguments = ("-P", "-m", "nbrewind.training.launching.rank")
        elastic_launch(_config(job), sys.executable)(*arguments)
    except ChildFailedError as failed:
        return Verdict(
            tuple(
                Ended(rank, failure.exitcode, float(failure.timestamp))
                for rank, failure in failed.failures.items()
            )
        )
    except Exception as problem:  # whatever it is, the notebook has to hear of it
        return Verdict(problem=f"{type(problem).__name__}: {problem}")
    return Verdict()


def _config(job: Job) -> Any:
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.launcher.api import LaunchConfig

    known = LaunchConfig.__dataclass_fields__
    later: dict[str, Any] = {"shutdown_timeout": job.grace}  # of newer versions of torch
    return LaunchConfig(
        min_nodes=job.nodes,
        max_nodes=job.nodes,
        nproc_per_node=job.ranks,
        run_id=job.run,
        role="rank",
        rdzv_backend="c10d",
        rdzv_endpoint=job.endpoint,
        local_addr=job.address or None,
        max_restarts=0,
        monitor_interval=0.1,
        # No files: ranks send what they print and how they failed to the notebook.
        logs_specs=DefaultLogsSpecs(log_dir=os.devnull),
        **{name: value for name, value in later.items() if name in known},
    )


def _ignore(_signal: int, _frame: FrameType | None) -> None:
    """A batch system signals all processes of a job: it is the ranks' affair.

    A function, not `SIG_IGN`, which ranks would inherit.
    """


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 1 << 16):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
