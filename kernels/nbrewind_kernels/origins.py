"""Which cell a thread belongs to, for output that arrives during a later cell.

ipykernel attributes what a user's thread prints to the cell that is running at
that moment. The front end keeps seeing exactly that (law L3), but a record must
not contain the prints of another cell's thread. Every place that picks a parent
header (stdout, stderr, display publisher, display hook) keeps it in a context
variable with a global fallback for foreign threads; `OriginVar` stands in for
that variable and marks the fallback with the cell that started the thread. The
mark is taken off again before the message is sent.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any, cast
from weakref import WeakKeyDictionary

MARK = "nbrewind_origin"
"""Key that a marked parent header carries until the message is sent."""

POOL = "pool"
"""Mark of a pool's worker from an earlier cell: whose task it runs cannot be known."""


class ThreadOrigins:
    """The cell (by the id of its request) during which each thread appeared.

    Threads are not watched; those that appeared during a cell are found when the
    next one begins. That is cheap and patches nothing.
    """

    def __init__(self) -> None:
        self._origins: WeakKeyDictionary[threading.Thread, str] = WeakKeyDictionary()
        self._current = ""
        self._sweep()

    def begin(self, msg_id: str) -> None:
        """A cell begins: threads not seen before belong to the previous one."""
        self._sweep()
        self._current = msg_id

    def of_current_thread(self) -> str:
        """The cell that this thread belongs to, or `POOL`; "" for the kernel's own threads."""
        thread = threading.current_thread()
        origin = self._origins.get(thread, self._current)
        if origin and origin != self._current and _is_pool_worker(thread):
            return POOL
        return origin

    def _sweep(self) -> None:
        for thread in threading.enumerate():
            self._origins.setdefault(thread, self._current)


def _is_pool_worker(thread: threading.Thread) -> bool:
    futures = sys.modules.get("concurrent.futures.thread")
    if futures is not None and thread in futures._threads_queues:
        return True
    target = getattr(thread, "_target", None)
    return getattr(target, "__module__", "") == "multiprocessing.pool"


class OriginVar:
    """Stands in for a `ContextVar` that holds a parent header."""

    def __init__(
        self,
        var: ContextVar[dict[str, Any]],
        fallback: Callable[[], dict[str, Any]],
        origins: ThreadOrigins,
    ) -> None:
        self.var = var
        self._fallback = fallback
        self._origins = origins

    def get(self) -> dict[str, Any]:
        """The thread's own header, else the global one, marked with the thread's cell."""
        try:
            return self.var.get()
        except LookupError:
            header = self._fallback()
            origin = self._origins.of_current_thread()
            if not origin or header.get("msg_id") == origin:
                return header
            return {**header, MARK: origin}

    def set(self, value: dict[str, Any]) -> Token[dict[str, Any]]:
        """Set the header of this context."""
        return self.var.set(value)

    def reset(self, token: Token[dict[str, Any]]) -> None:
        """Undo a `set`."""
        self.var.reset(token)


def mark_origins(holder: Any, origins: ThreadOrigins) -> Callable[[], None]:
    """Make `holder` (a stream, publisher or hook) mark foreign threads' headers.

    Returns:
        A function that undoes it.
    """
    var = getattr(holder, "_parent_header", None)
    if not isinstance(var, ContextVar) or not hasattr(holder, "_parent_header_global"):
        return lambda: None  # another kind of stream: nothing to mark
    stand_in = OriginVar(var, lambda: cast("dict[str, Any]", holder._parent_header_global), origins)
    holder._parent_header = stand_in

    def undo() -> None:
        if holder._parent_header is stand_in:
            holder._parent_header = var

    return undo
