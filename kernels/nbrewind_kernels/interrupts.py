"""Ctrl-C while our code runs: noted, not raised.

A `KeyboardInterrupt` in the middle of a capture would leave the engine between
two states. While `deferred()` is open in the main thread, SIGINT only sets
`pending`; user code that runs inside such a stretch (a cell executed again to
get a value back) is made interruptible again by `allowed()`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

_Handler = Callable[[int, FrameType | None], object] | int | None


@dataclass
class Deferral:
    """A stretch of our code during which Ctrl-C is only noted."""

    pending: bool = False
    """A SIGINT arrived meanwhile."""


_open: list[Deferral] = []


@contextmanager
def deferred() -> Iterator[Deferral]:
    """Note SIGINT instead of raising it; outside the main thread nothing changes."""
    deferral = Deferral()
    if threading.current_thread() is not threading.main_thread():
        yield deferral
        return

    def note(_signum: int, _frame: FrameType | None) -> None:
        deferral.pending = True

    previous: _Handler = signal.signal(signal.SIGINT, note)
    _open.append(deferral)
    try:
        yield deferral
    finally:
        _open.remove(deferral)
        signal.signal(signal.SIGINT, previous)


@contextmanager
def allowed() -> Iterator[None]:
    """Let SIGINT raise `KeyboardInterrupt` again, for user code inside a deferral.

    The interrupt still counts as pending for the deferral, so that whoever
    opened it knows that the user wanted to stop.
    """
    if not _open or threading.current_thread() is not threading.main_thread():
        yield
        return
    previous: _Handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        _open[-1].pending = True
        raise
    finally:
        signal.signal(signal.SIGINT, previous)
