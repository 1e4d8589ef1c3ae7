"""A commit prepared in shared memory: hashed and copied once, then the flusher's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nbrewind.errors import StoreNotWritable
from nbrewind.model.blobs import ObjectId
from nbrewind.model.refs import RefBody, StoredRef
from nbrewind.model.spans import stopwatch
from nbrewind.store import messages
from nbrewind.store.abc import Kind
from nbrewind.store.arena import ArenaFullError, Staged
from nbrewind.store.flushing import Flushing, Handed
from nbrewind.store.object_writer import ObjectWriter
from nbrewind.store.pack_writer import ENTRY_OVERHEAD
from nbrewind.store.packs import KINDS

if TYPE_CHECKING:
    from nbrewind.store.local import LocalStore
    from nbrewind.store.writer import LocalWriter


class StagedWriter(ObjectWriter):
    """Used by one thread at a time.

    A commit that would take more than half of the arena, or finds no memory, is not staged: it
    is written by this process, after everything before it.
    """

    def __init__(self, store: LocalStore, flushing: Flushing) -> None:
        super().__init__(store)
        self._store = store
        self._flushing = flushing
        self._epochs = flushing.epoch, store.pipeline.epoch
        self._staged = Staged(flushing.arena, flushing.room)
        self._objects: dict[ObjectId, messages.Staged] = {}
        self._direct: LocalWriter | None = None

    def commit(self, body: RefBody) -> StoredRef:
        """See `StoreWriter.commit`."""
        handed = self._end(body, lambda failure: None)
        if handed is None:
            assert self._direct is not None
            return self._direct.commit(body)
        self._flushing.wait(handed)
        if handed.failure is not None:
            raise handed.failure
        assert handed.stored is not None
        return handed.stored

    def commit_later(self, body: RefBody, failed: Callable[[Exception], None]) -> None:
        """See `StoreWriter.commit_later`."""
        if self._end(body, failed) is None:
            assert self._direct is not None
            self._direct.commit_later(body, failed)

    def abort(self) -> None:
        """See `StoreWriter.abort`."""
        if not self._ended:
            self._ended = True
            self._staged.release()
            if self._direct is not None:
                self._direct.abort()

    def _end(self, body: RefBody, failed: Callable[[Exception], None]) -> Handed | None:
        """Hand the commit over; None if it is this process's own."""
        self._check_body(body)
        self._store.pipeline.wait()  # commits that were too large to be staged
        self._ended = True
        if self._direct is not None:
            return None
        epoch = self._epochs[0]
        if self._epochs[1] != self._store.pipeline.epoch:
            epoch = -1  # it may rely on what one of them was to add
        objects = tuple(self._objects.values())
        commit = messages.StagedCommit(body, tuple(self._relies_on), objects)
        try:
            return self._flushing.hand_over(commit, self._staged, epoch, failed)
        except ArenaFullError:
            self._write_here()
            return None

    def _is_added(self, oid: ObjectId) -> bool:
        if self._direct is not None and self._direct.has_added(oid):
            return True
        return oid in self._objects or self._store.is_pending(oid)

    def _append(self, kind: Kind, views: list[memoryview], ids: list[ObjectId]) -> None:
        size = sum(view.nbytes for view in views)
        if self._direct is None and self._staged.size + size > self._flushing.arena.limit // 2:
            self._write_here()
        with stopwatch.measure("stage", size):
            staged = self._stage(KINDS.index(kind) + 1, views, ids) if self._direct is None else 0
        if self._direct is not None:
            self._direct.add(kind, views[staged:], ids[staged:])
        self.bytes_added += size + len(views) * ENTRY_OVERHEAD

    def _stage(self, kind: int, views: list[memoryview], ids: list[ObjectId]) -> int:
        """Copy objects to the arena; returns how many there was room for."""
        for number, (oid, view) in enumerate(zip(ids, views, strict=True)):
            try:
                pieces = self._staged.add(view)
            except ArenaFullError:
                self._write_here()
                return number
            self._objects[oid] = messages.Staged(kind, oid, pieces)
        return len(ids)

    def _write_here(self) -> None:
        """Go on without the flusher: what is staged so far is written first.

        Raises:
            StoreNotWritable: a commit that this one may rely on has failed.
        """
        self._flushing.wait()
        if self._flushing.epoch != self._epochs[0]:
            raise StoreNotWritable("a commit before this one failed")
        writer = self._store.begin_here()
        writer.add_staged(self._objects.values(), self._relies_on, self._staged.read)
        self._staged.release()
        self._direct = writer
