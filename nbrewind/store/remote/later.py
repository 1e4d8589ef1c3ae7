"""Commits that end in the background, one after the other, in the order they were handed over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from nbrewind.errors import NBRewindError, StoreNotWritable
from nbrewind.model.blobs import ObjectId

_MOST_WAITING = 8
"""Commits that may wait, each with a pack in memory; whoever hands over more waits for room."""
ROOM_SECONDS = 60.0
"""How long: a server that does not answer must not hold up a notebook for ever."""


class Later:
    """The commits of one store that have not ended."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: ThreadPoolExecutor | None = None
        self._unfinished = 0
        self._pending: dict[ObjectId, int] = {}
        self.epoch = 0
        """Grows with every failure: a commit begun in an earlier epoch cannot end."""

    def holds(self, oid: ObjectId) -> bool:
        """Whether an object is part of a commit that has not ended."""
        return oid in self._pending

    def wait(self) -> None:
        """Wait until every commit handed over so far has ended."""
        with self._changed:
            while self._unfinished:
                self._changed.wait()

    def add(
        self,
        end: Callable[[], object],
        epoch: int,
        added: Iterable[ObjectId],
        failed: Callable[[Exception], None],
    ) -> None:
        """Hand over a commit.

        Args:
            end: Ends it; raises `NBRewindError` if that fails.
            epoch: `epoch` when the commit began.
            added: The objects it adds.
            failed: Called, from another thread, if it fails.
        """
        objects = frozenset(added)
        with self._changed:
            room = self._changed.wait_for(
                lambda: self._unfinished < _MOST_WAITING, timeout=ROOM_SECONDS
            )
            if not room:
                self.epoch += 1
        if not room:
            failed(StoreNotWritable("the store does not keep up with what is to be written"))
            return
        with self._changed:
            self._unfinished += 1
            for oid in objects:
                self._pending[oid] = self._pending.get(oid, 0) + 1
        try:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "nbrewind-commit")
            self._thread.submit(self._end, end, epoch, objects, failed)
        except RuntimeError:  # the interpreter is going down and starts no threads any more
            self._end(end, epoch, objects, failed)

    def _end(
        self,
        end: Callable[[], object],
        epoch: int,
        objects: frozenset[ObjectId],
        failed: Callable[[Exception], None],
    ) -> None:
        failure: Exception | None = None
        try:
            if epoch != self.epoch:
                raise StoreNotWritable("a commit before this one failed")
            end()
        except NBRewindError as problem:
            failure = problem
        except Exception as problem:  # a fault of ours: the commit is waited for all the same
            failure = StoreNotWritable(f"a commit failed: {problem!r}")
        with self._changed:
            self.epoch += failure is not None
            self._unfinished -= 1
            for oid in objects:
                self._pending[oid] -= 1
                if not self._pending[oid]:
                    del self._pending[oid]
            self._changed.notify_all()
        if failure is not None:
            failed(failure)

    def close(self) -> None:
        """Wait for all, and for the thread."""
        self.wait()
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
