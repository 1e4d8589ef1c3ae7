"""The child processes of a run: whether there were any, and whether they have ended.

Not every way to start a process raises an audit event (`multiprocessing` with `spawn`
raises none), so it also counts what the kernel knows: resources used by children that
have ended, and children that are there.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from dataclasses import dataclass

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100

_PATIENCE = 10
"""How often workers are looked at until they wait for work."""
_ENDING = 5
"""How often a process may still be there that is about to end."""
_SIMILAR = 0.9
"""The part of the environment that a child has in common with its parent, at least."""
_SERVICES = (b"resource_tracker", b"forkserver", b"semaphore_tracker", b"nbrewind-flusher")
"""Processes that `multiprocessing` keeps for itself, and the one that writes to the store."""


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    state: str
    parent: int
    started: int
    """Clock ticks since the machine started."""


class Children:
    """What became of the children of one run."""

    def __init__(self) -> None:
        self._usage: object = None
        self._known: set[int] = set()
        self._clock = 0
        self.working_before = False
        """There were children when the run began."""

    def begin(self) -> None:
        """A run begins."""
        self._usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        children = _children()
        self._known = {child.pid for child in children}
        self.working_before = any(child.state != "Z" for child in children)
        boot = getattr(time, "CLOCK_BOOTTIME", None)
        self._clock = int(time.clock_gettime(boot) * _TICKS) if boot is not None else 0

    def were_started(self) -> bool:
        """Whether children ended, or are there that were not, since `begin`."""
        there = {child.pid for child in _children()}
        if resource.getrusage(resource.RUSAGE_CHILDREN) != self._usage and self._known <= there:
            return True  # one has ended, and it is none of those before
        return not there <= self._known

    def go_on(self) -> bool:
        """Whether a child of the run is still at work, be it one that has lost its parent."""
        for looked in range(_PATIENCE):
            busy, pools = self._at_work(), _pool_workers()
            if not busy:
                return False
            if looked >= _ENDING and not busy <= pools:
                return True
            # A worker that has just been started, or a process that has closed its output
            # and is about to end.
            time.sleep(0.01)
        return True

    def _at_work(self) -> set[int]:
        running = _processes()
        ours = {process.pid for process in _ours(running)}
        adopting = _may_adopt(running)
        pools = _pool_workers()
        return {
            process.pid
            for process in running.values()
            if process.started >= self._clock
            and process.pid not in self._known
            and process.state != "Z"
            and (process.pid in ours or (process.parent in adopting and _seems_ours(process.pid)))
            and not (process.pid in pools and process.state == "S")
            and not _is_service(process.pid)
        }


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, AttributeError):
        return False
    return True


def _children() -> list[_Process]:
    """The children of this process itself, ended ones that nobody has waited for among them."""
    if not _has_children():
        return []
    found = []
    try:
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
                found += [process for pid in file.read().split() if (process := _process(pid))]
    except OSError:  # not every kernel tells
        own = os.getpid()
        found = [process for process in _processes().values() if process.parent == own]
    return found


def _processes() -> dict[int, _Process]:
    """All processes; none where there is no `/proc`."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    found = (_process(name) for name in names if name.isdigit())
    return {process.pid: process for process in found if process is not None}


def _process(pid: str) -> _Process | None:
    """A process as `/proc` describes it (see `man 5 proc`); None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return _Process(int(pid), fields[0].decode(), int(fields[1]), int(fields[19]))


def _ours(processes: dict[int, _Process]) -> list[_Process]:
    """Descendants of this process."""
    own = os.getpid()
    found: dict[int, bool] = {own: True}

    def is_ours(process: _Process) -> bool:
        known = found.get(process.pid)
        if known is None:
            parent = processes.get(process.parent)
            found[process.pid] = False  # should there be a circle
            known = found[process.pid] = parent is not None and is_ours(parent)
        return known

    return [process for process in processes.values() if is_ours(process) and process.pid != own]


def _may_adopt(processes: dict[int, _Process]) -> set[int]:
    """Who becomes the parent of a process whose own has ended: a reaper above this process."""
    found = {1}
    parent = processes.get(os.getppid())
    while parent is not None and parent.parent not in found:
        found.add(parent.parent)
        parent = processes.get(parent.parent)
    return found - {0, os.getppid()}


def _seems_ours(pid: int) -> bool:
    """Whether a process that has lost its parent has our environment, or works where we do."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            theirs = set(file.read().split(b"\0"))
        if os.readlink(f"/proc/{pid}/cwd") == os.getcwd():
            return True
    except OSError:
        return False  # another user's, or ended
    own = {name + b"=" + value for name, value in os.environb.items()}
    return len(own & theirs) > _SIMILAR * len(own)


def _pool_workers() -> set[int]:
    """Processes of pools, which do nothing unless they are given something to do."""
    children = list(getattr(sys.modules.get("multiprocessing.process"), "_children", ()))
    found = {
        child.pid
        for child in children
        # A process forgets its target when it starts.
        if "PoolWorker" in child.name or "loky" in type(child).__module__
    }
    executors = sys.modules.get("concurrent.futures.process")
    for thread in list(getattr(executors, "_threads_wakeups", ())):
        found.update(getattr(thread, "processes", None) or ())
    return found


def _is_service(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            line = file.read()
    except OSError:
        return False
    return any(service in line for service in _SERVICES)
