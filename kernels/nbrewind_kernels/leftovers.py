"""What cells leave running: threads, tasks, timers and alarms of the notebook's own code.

Such a thing goes on printing and changing values while other cells run, or while none
does. The cell that started it is run every time, what it may have changed is looked at
before each cell, and nothing is reused until it has come to an end.

Nothing is watched: before and after a cell one looks at what there is. Threads of a
library that merely wait (a pool's idle workers, a server) do not count.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from types import FrameType
from typing import Any

from nbrewind.state.entities import MAIN

in_cell: ContextVar[bool] = ContextVar("nbrewind_in_cell", default=False)
"""Set where the code of a cell runs; tasks and timers inherit it."""

OWN_THREADS = "nbrewind-"
"""How the names of our own threads start: they make records durable while cells run."""

_KERNEL = frozenset(
    {"ipykernel", "tornado", "zmq", "jupyter_client", "IPython", "nbrewind_kernels"}
)
"""Packages whose tasks are the kernel's own."""

_ALARMS = (
    {
        signal.ITIMER_REAL: signal.SIGALRM,
        signal.ITIMER_VIRTUAL: signal.SIGVTALRM,
        signal.ITIMER_PROF: signal.SIGPROF,
    }
    if hasattr(signal, "getitimer")
    else {}
)
"""For each timer of the process its signal."""


class Leftovers:
    """The things that cells of one session left running."""

    def __init__(self) -> None:
        self._before: frozenset[tuple[object, ...]] = frozenset()
        self._left = False

    def may_have_acted(self) -> bool:
        """Whether anything ran since the last cell ended."""
        return self._left or self.are_running()

    def are_running(self) -> bool:
        """Whether something that a cell started is running now."""
        return bool(_busy())

    def begin(self) -> None:
        """A cell is about to run."""
        self._before = _busy()

    def end(self) -> bool:
        """The cell has run: whether it leaves something running."""
        now = _busy()
        self._left = bool(now)
        return not now <= self._before


def _busy() -> frozenset[tuple[object, ...]]:
    """What runs code of the notebook at this moment, besides this thread.

    Ids are taken again by other objects, so names and times go with them.
    """
    frames = sys._current_frames()
    del frames[threading.get_ident()]  # a frame that refers to itself keeps the user's values alive
    threads = [
        (id(thread), thread.name, thread.ident)
        for thread in threading.enumerate()
        if thread not in (threading.main_thread(), threading.current_thread())
        and not thread.name.startswith(OWN_THREADS)
        and _runs_notebook_code(thread, frames.get(thread.ident or 0))
    ]
    return frozenset([*threads, *_tasks_and_timers(), *_alarms()])


def _runs_notebook_code(thread: threading.Thread, frame: FrameType | None) -> bool:
    if type(thread).__module__ == MAIN:
        return True
    for attribute in ("_target", "function"):  # of a thread; of a timer
        if _is_of_notebook(getattr(thread, attribute, None)):
            return True
    while frame is not None:
        if frame.f_globals.get("__name__") == MAIN:
            return True
        frame = frame.f_back
    pools = sys.modules.get("concurrent.futures.thread")
    queue = None if pools is None else pools._threads_queues.get(thread)
    return queue is not None and not queue.empty()


def _is_of_notebook(target: Any) -> bool:
    target = getattr(target, "func", target)  # of a partial
    space = getattr(target, "__globals__", None)
    return isinstance(space, dict) and space.get("__name__") == MAIN


def _tasks_and_timers() -> Iterator[tuple[object, ...]]:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    current = asyncio.current_task(loop)
    for task in asyncio.all_tasks(loop):
        if task is not current and not _is_of_kernel(task):
            yield id(task), task.get_name()
    for handle in (*getattr(loop, "_scheduled", ()), *getattr(loop, "_ready", ())):
        context = getattr(handle, "_context", None)
        if context is not None and context.get(in_cell) and not handle.cancelled():
            yield id(handle), getattr(handle, "_when", 0.0)


def _alarms() -> Iterator[tuple[object, ...]]:
    """Timers of the process that will call a signal handler of the notebook."""
    for timer, number in _ALARMS.items():
        if any(signal.getitimer(timer)) and _is_of_notebook(signal.getsignal(number)):
            yield "alarm", timer


def _is_of_kernel(task: asyncio.Task[Any]) -> bool:
    frame = getattr(task.get_coro(), "cr_frame", None)
    module = "" if frame is None else str(frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] in _KERNEL
