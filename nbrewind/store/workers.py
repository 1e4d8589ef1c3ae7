"""A few threads shared by hashing, compression and verification.

All three release the interpreter lock, so threads pay; below a handful of leaves
handing the work over costs more than it saves. A forked child has no threads of
its parent's, so it starts its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")

WORTHWHILE = 8
"""Tasks (about a leaf each) from which the threads are used."""

_THREADS = min(4, os.cpu_count() or 1)
_pool: ThreadPoolExecutor | None = None


def run_all(function: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """`function` of every item, in order; raises what the first failing one raised."""
    if len(items) < WORTHWHILE or _THREADS < 2:
        return [function(item) for item in items]
    # One contiguous run of items per thread: a future for each leaf costs as much as hashing it.
    step = -(-len(items) // _THREADS)
    parts = [items[at : at + step] for at in range(0, len(items), step)]

    def run(part: Sequence[_T]) -> list[_R]:
        return [function(item) for item in part]

    futures = [_threads().submit(run, part) for part in parts[1:]]
    done = run(parts[0])
    for future in futures:
        done += future.result()
    return done


def _threads() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="nbrewind-store")
    return _pool


def _forget() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
