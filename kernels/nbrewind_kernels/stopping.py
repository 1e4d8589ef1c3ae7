"""How a headless run is stopped: by Ctrl-C, by a batch system's signal, by the clock."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from nbrewind_kernels.kernel_process import KernelProcess

KILL_AFTER = 30.0
"""Seconds a cell may go on after a time-out interrupted it."""


class Stopping:
    """The wishes to stop a run, and their way to the kernel.

    The first wish interrupts the cell, the second kills the kernel. A cell can
    be interrupted only once the kernel has taken it up; a wish that comes in
    the moment before is passed on then.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.wishes = 0
        self.timed_out = False
        """The running (or last) cell used up its time."""
        self.kernel: KernelProcess | None = None
        self._say = say
        self._starting: asyncio.Future[Any] | None = None
        self._begun = False
        self._errands: set[asyncio.Future[None]] = set()

    @contextmanager
    def signals(self) -> Iterator[None]:
        """While this lasts, signals that end a program are wishes to stop."""
        loop = asyncio.get_running_loop()
        taken: list[signal.Signals] = []
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is None or signal.getsignal(number) is signal.SIG_IGN:
                continue  # `nohup` means it
            try:
                loop.add_signal_handler(number, self.wish)
            except (RuntimeError, ValueError):
                break  # not in the main thread: the caller's handlers stay in charge
            taken.append(number)
        try:
            yield
        finally:
            for number in taken:
                loop.remove_signal_handler(number)

    def wish(self) -> None:
        """Someone wants the run to stop."""
        self.wishes += 1
        if self._starting is not None:
            self._starting.cancel()
        elif self.kernel is None:
            return
        elif self.wishes > 1:
            self._errand(self.kernel.kill())
        else:
            self._say("stopping: the cell is interrupted; Ctrl-C again kills the kernel")
            if self._begun:
                self._errand(self.kernel.interrupt())

    async def unless_stopped(self, job: Coroutine[Any, Any, Any]) -> bool:
        """Do a job that a wish to stop cancels; tell whether it was done."""
        self._starting = asyncio.ensure_future(job)
        try:
            await self._starting
        except asyncio.CancelledError:
            if not self.wishes:
                raise
            return False
        finally:
            self._starting = None
        return True

    @contextmanager
    def cell(self, limit: float | None) -> Iterator[None]:
        """While this lasts, a cell runs; after `limit` seconds it is interrupted."""
        self._begun = self.timed_out = False
        loop = asyncio.get_running_loop()
        timers = []
        if limit is not None:
            timers = [
                loop.call_later(limit, self._time_out),
                loop.call_later(limit + KILL_AFTER, self._time_out_again),
            ]
        try:
            yield
        finally:
            self._begun = False
            for timer in timers:
                timer.cancel()

    def cell_begun(self) -> None:
        """The kernel took the cell up."""
        self._begun = True
        if (self.wishes or self.timed_out) and self.kernel is not None:
            self._errand(self.kernel.interrupt())

    def _time_out(self) -> None:
        self.timed_out = True
        if self._begun and self.kernel is not None:
            self._errand(self.kernel.interrupt())

    def _time_out_again(self) -> None:
        if self.kernel is not None:
            self._errand(self.kernel.kill())

    def _errand(self, job: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(job)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def settle(self) -> None:
        """Wait for interruptions that are under way."""
        for errand in list(self._errands):
            with suppress(Exception):  # the kernel may be gone: then there is nothing to stop
                await errand
