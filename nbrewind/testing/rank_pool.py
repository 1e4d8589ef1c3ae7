"""Ranks that stay up: processes in one group of torch's, which run what they are sent.

Importing torch takes seconds for each rank, so tests send many functions to the same ranks.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle


class RankFailed(Exception):
    """A function raised on some rank; the message has the traceback."""


class RankPool:
    """Ranks of a group that talks gloo.

    Args:
        world: How many.
        by_value: Modules whose functions the ranks cannot import.
        folder: For the file by which they find each other.
    """

    def __init__(self, world: int, folder: Path, by_value: Sequence[ModuleType] = ()) -> None:
        self.world = world
        for module in by_value:
            cloudpickle.register_pickle_by_value(module)
        descriptor, meeting = tempfile.mkstemp(dir=folder)
        os.close(descriptor)
        os.unlink(meeting)
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self.processes = []
        for rank in range(world):
            mine, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(theirs, rank, world, meeting, sys.path), daemon=True
            )
            process.start()
            theirs.close()
            self._pipes.append(mine)
            self.processes.append(process)

    def start(self, function: Callable[..., Any], *args: Any) -> None:
        """Have every rank call a function; `results` waits for it."""
        message = cloudpickle.dumps((function, args))
        for pipe in self._pipes:
            pipe.send_bytes(message)

    def results(self, timeout: float = 120.0) -> list[Any]:
        """What the ranks returned, by rank.

        Raises:
            RankFailed: it raised on some, or a rank is gone.
            TimeoutError: a rank does not answer.
        """
        found: list[Any] = []
        problems: list[str] = []
        for rank in range(self.world):
            try:
                found.append(self.result_of(rank, timeout))
            except RankFailed as exc:
                problems.append(str(exc))
        if problems:
            raise RankFailed("\n".join(problems))
        return found

    def result_of(self, rank: int, timeout: float = 120.0) -> Any:
        """What one rank returned; raises as `results`."""
        pipe = self._pipes[rank]
        try:
            if not pipe.poll(timeout):
                raise TimeoutError(f"rank {rank} does not answer")
            good, value = cloudpickle.loads(pipe.recv_bytes())
        except (EOFError, ConnectionError):
            good, value = False, "it is gone"
        if not good:
            raise RankFailed(f"rank {rank}: {value}")
        return value

    def run(self, function: Callable[..., Any], *args: Any, timeout: float = 120.0) -> list[Any]:
        """`start` and `results`."""
        self.start(function, *args)
        return self.results(timeout)

    def close(self) -> None:
        """End the ranks."""
        for pipe in self._pipes:
            pipe.close()
        for process in self.processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()


def _serve(pipe: Connection, rank: int, world: int, meeting: str, path: list[str]) -> None:
    sys.path[:] = path
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank))
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world)
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            function, args = cloudpickle.loads(pipe.recv_bytes())
            try:
                answer = True, function(*args)
            except BaseException:
                answer = False, traceback.format_exc()
            pipe.send_bytes(cloudpickle.dumps(answer))
    os._exit(0)
