"""One process-wide audit hook, and who listens to it.

Audit hooks cannot be removed, so there is one, installed with the first listener. With
no listener for an event it is one dictionary look-up.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

log = logging.getLogger(__name__)

Listener = Callable[[str, tuple[Any, ...]], None]

_listeners: dict[str, tuple[Listener, ...]] = {}
_quiet = threading.local()
_lock = threading.Lock()
_installed = False
_complained: set[str] = set()


def listen(events: Iterable[str], listener: Listener) -> None:
    """Call `listener(event, args)` on these audit events, in whatever thread they happen."""
    global _installed
    with _lock:
        for event in events:
            _listeners[event] = (*_listeners.get(event, ()), listener)
        if not _installed:
            _installed = True
            sys.addaudithook(_hook)


def ignore(events: Iterable[str], listener: Listener) -> None:
    """Undo `listen`."""
    with _lock:
        for event in events:
            left = tuple(other for other in _listeners.get(event, ()) if other != listener)
            if left:
                _listeners[event] = left
            else:
                _listeners.pop(event, None)


@contextmanager
def unheard() -> Iterator[None]:
    """What this thread does inside reaches no listener: our own reads are not the notebook's."""
    before = getattr(_quiet, "on", False)
    _quiet.on = True
    try:
        yield
    finally:
        _quiet.on = before


def caller(depth: int) -> FrameType | None:
    """The frame `depth` calls above the function that asks.

    `sys._getframe` would do, but raises an audit event of its own.
    """
    try:
        raise _HereError
    except _HereError as here:
        frame = here.__traceback__.tb_frame if here.__traceback__ else None
    for _ in range(depth + 1):
        frame = frame.f_back if frame is not None else None
    return frame


class _HereError(Exception):
    pass


def _hook(
    event: str,
    args: tuple[Any, ...],
    heard_by: Callable[[str], tuple[Listener, ...] | None] = _listeners.get,
) -> None:
    # Runs for every event of the process, `id()` among them: a look-up in a default.
    listeners = heard_by(event)
    if listeners is not None:
        tell(listeners, event, args)


def tell(listeners: tuple[Listener, ...], event: str, args: tuple[Any, ...]) -> None:
    """Call listeners, unless this thread is `unheard` or a listener is at work in it."""
    if getattr(_quiet, "on", False):
        return
    _quiet.on = True
    try:
        for listener in listeners:
            listener(event, args)
    except Exception:
        # An exception here would fail the user's operation (law L6).
        if event not in _complained:
            _complained.add(event)
            log.warning("observing %s failed", event, exc_info=True)
    finally:
        _quiet.on = False


def _fall_silent() -> None:
    """A forked child has its own copy of all listeners, which nobody ever asks."""
    _listeners.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fall_silent)
