"""Whether what cannot be stored was changed: marks that hold within one process.

A class with a lock or a cached method cannot be stored, but it can be told that nothing
happened to it. So the cells that merely use it need not run in order again.
"""

from __future__ import annotations

import abc
import functools
import threading
from collections.abc import Iterator
from typing import Any

from nbrewind.state.function_tools import cache_state

_LOCK = type(threading.Lock())
_MUTABLE_MODULES = frozenset({"builtins", "collections", "itertools", "__main__", "_io", "io"})
"""Where the types come from that notebooks change directly: containers, iterators, files."""


def class_marks(cls: type) -> Iterator[bytes]:
    """What is known of a class beside its attributes: bases, and what was registered with it."""
    yield ",".join(str(id(base)) for base in cls.__bases__).encode()
    if "_abc_impl" in vars(cls):
        registry = abc._get_dump(cls)[0]  # type: ignore[attr-defined]
        yield ",".join(sorted(str(id(ref())) for ref in registry)).encode()


def state_mark(value: Any) -> str | None:
    """A mark of something that cannot be pickled; None if it may change without a trace.

    Objects that libraries attach to classes (validators, tables) count by identity.
    """
    kind = type(value)
    if kind is _LOCK:
        return f"{id(value)} {value.locked()}"
    if kind is functools._lru_cache_wrapper:
        return f"{id(value)} {cache_state(value)}"
    return None if kind.__module__ in _MUTABLE_MODULES else f"{id(value)}"
