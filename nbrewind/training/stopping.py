"""Wishes to stop: Ctrl-C and the signals of batch systems, noted until a step is complete."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any


class Interrupted(KeyboardInterrupt):
    """A loop was stopped between two steps by a signal, and its state is saved."""


class Stopping:
    """Notes SIGINT, SIGTERM and SIGUSR1 while it is entered, in the main thread.

    A second SIGINT stops at once, as it does without us: the step may hang.
    """

    def __init__(self) -> None:
        self.wish: int = 0
        """The signal that came; 0: none."""
        self._before: dict[int, Any] = {}

    def enter(self) -> None:
        """Note signals from now on."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            known = signal.getsignal(number)
            if number == signal.SIGUSR1 and known is not signal.SIG_DFL:
                continue  # somebody has use for it
            self._before[number] = signal.signal(number, self._note)

    def leave(self) -> None:
        """Let signals do what they did before; SIGTERM that was noted does it now."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
        if self.wish == signal.SIGTERM:
            os.kill(os.getpid(), signal.SIGTERM)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.wish and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.wish = number
