"""What threads wait for: stored while no thread is concerned.

A lock that nobody holds is as good as a new one. One that is held, and a future whose
result is still to come, belong to threads that a restore cannot bring back.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from nbrewind.errors import NotStorable

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler


def reduce_lock(pickler: StatePickler, lock: Any) -> Any:
    """Reduce a lock, of either kind, that nobody holds."""
    # Python 3.14 has `RLock.locked`; to try to take the lock could be noticed by a thread.
    if not repr(lock).startswith("<unlocked"):
        raise NotStorable("a lock that is held cannot be stored")
    return (make_reentrant_lock if type(lock).__name__ == "RLock" else make_lock), ()


def reduce_future(pickler: StatePickler, future: Any) -> Any:
    """Leave a future of `concurrent.futures` that is done to pickle."""
    if not future.done():
        raise NotStorable("a future whose result is not known yet cannot be stored")
    return NotImplemented


def make_lock() -> Any:
    """A new lock."""
    return threading.Lock()


def make_reentrant_lock() -> Any:
    """A new lock that its holder may take again."""
    return threading.RLock()
