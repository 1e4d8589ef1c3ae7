"""Commits that end in the background: nobody waits for the disk who does not have to.

A commit that is handed over has all its objects; what is left is to write what waits
in memory, to synchronise and to publish. One thread does that, for all commits that
wait at that moment together, in their order. Until then the objects count as present,
so the next commit does not add them again; if theirs fails, it fails too.

A forked child inherits no thread: what its parent handed over is its parent's.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from nbrewind.errors import StoreNotWritable
from nbrewind.model.blobs import ObjectId
from nbrewind.model.refs import StoredRef
from nbrewind.store.ending import Ending, end_together

_TOGETHER = 32
"""Commits that end together at most."""
_MOST_WAITING = 64
_MOST_BYTES = 256 * 1024 * 1024
"""What may wait; whoever hands over more waits until there is room."""
_WORKERS = 8
"""Threads that wait for the disk; they do little else."""


@dataclass(frozen=True)
class _Waiting:
    ending: Ending
    epoch: int
    added: frozenset[ObjectId]
    size: int
    failed: Callable[[Exception], None]
    done: Callable[[StoredRef], None] | None


class Pipeline:
    """The commits of one store that have not ended."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._waiting: list[_Waiting] = []
        self._unfinished = 0
        self._bytes = 0
        self._pending: set[ObjectId] = set()
        self._epoch = 0
        self._thread: ThreadPoolExecutor | None = None
        self._workers: ThreadPoolExecutor | None = None

    @property
    def epoch(self) -> int:
        """Grows with every failure: a commit begun in an earlier epoch cannot end."""
        self._check_fork()
        return self._epoch

    def holds(self, oid: ObjectId) -> bool:
        """Whether an object is part of a commit that has not ended."""
        return oid in self._pending and self._pid == os.getpid()

    def add(
        self,
        ending: Ending,
        epoch: int,
        added: Iterable[ObjectId],
        failed: Callable[[Exception], None],
        done: Callable[[StoredRef], None] | None = None,
    ) -> None:
        """Hand over a commit.

        Args:
            ending: What is left to do.
            epoch: `epoch` when the commit began.
            added: The objects it adds.
            failed: Called, from another thread, if the commit fails.
            done: The same, if it is acknowledged.
        """
        self._check_fork()
        size = ending.staged
        with self._changed:
            while self._unfinished and (
                self._unfinished >= _MOST_WAITING or self._bytes + size > _MOST_BYTES
            ):
                self._changed.wait()
            self._waiting.append(_Waiting(ending, epoch, frozenset(added), size, failed, done))
            self._pending.update(self._waiting[-1].added)
            self._unfinished += 1
            self._bytes += size
        try:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "nbrewind-commit")
                self._workers = ThreadPoolExecutor(_WORKERS, "nbrewind-disk")
            self._thread.submit(self._end_some)
        except RuntimeError:  # the interpreter is going down and starts no threads any more
            self._workers = None
            self._end_some()

    def break_off(self) -> None:
        """A commit failed before it was handed over: those begun since it began fail too."""
        self._check_fork()
        with self._changed:
            self._epoch += 1

    def wait(self) -> None:
        """Wait until every commit handed over so far has ended."""
        self._check_fork()
        with self._changed:
            while self._unfinished:
                self._changed.wait()

    def _end_some(self) -> None:
        with self._changed:
            part, self._waiting = self._waiting[:_TOGETHER], self._waiting[_TOGETHER:]
        if not part:
            return
        sound = [one for one in part if one.epoch == self._epoch]
        try:
            if sound:
                end_together([one.ending for one in sound], self._workers)
        except Exception as failure:  # a fault of ours: they are waited for all the same
            for one in sound:
                one.ending.fail(failure)
        for one in part:
            if one not in sound:
                one.ending.fail(StoreNotWritable("a commit before this one failed"))
                one.ending.discard()
        with self._changed:
            # Those that fail because of an earlier one are no reason to fail for others.
            self._epoch += any(one.ending.failure is not None for one in sound)
            for one in part:
                self._pending -= one.added
        try:
            for one in part:
                if one.ending.failure is not None:
                    one.failed(one.ending.failure)
                elif one.done is not None and one.ending.stored is not None:
                    one.done(one.ending.stored)
        finally:
            # Whoever waits takes silence for success: this comes last.
            with self._changed:
                self._unfinished -= len(part)
                self._bytes -= sum(one.size for one in part)
                self._changed.notify_all()

    def _check_fork(self) -> None:
        if self._pid != os.getpid():
            self._begin()
