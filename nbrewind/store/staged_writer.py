"""A commit prepared in shared memory: hashed and copied once, then the flusher's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nbrewind.errors import ObjectMissing, StoreNotWritable
from nbrewind.model.blobs import LEAF_BYTES, BlobRef, ObjectId
from nbrewind.model.refs import RefBody, StoredRef
from nbrewind.store import messages
from nbrewind.store.abc import Buffer, Kind, StoreWriter
from nbrewind.store.arena import Staged
from nbrewind.store.flushing import Flushing, Handed
from nbrewind.store.leaves import blob_digest, flat, object_id, split
from nbrewind.store.pack_writer import ENTRY_OVERHEAD
from nbrewind.store.packs import KINDS
from nbrewind.store.refs import check_lineage

if TYPE_CHECKING:
    from nbrewind.store.local import LocalStore
    from nbrewind.store.writer import LocalWriter


class StagedWriter(StoreWriter):
    """Used by one thread at a time.

    A commit that would take more than half of the arena is not staged: it is written by this
    process, after everything before it.
    """

    def __init__(self, store: LocalStore, flushing: Flushing) -> None:
        self.bytes_added = 0
        self._store = store
        self._flushing = flushing
        self._epochs = flushing.epoch, store.pipeline.epoch
        self._staged = Staged(flushing.arena, flushing.room)
        self._objects: dict[ObjectId, messages.Staged] = {}
        self._relies_on: set[ObjectId] = set()
        self._direct: LocalWriter | None = None
        self._ended = False

    def put(self, kind: Kind, data: Buffer) -> ObjectId:
        """See `StoreWriter.put`."""
        self._check()
        view = flat(data)
        if kind == "chunk" and view.nbytes > LEAF_BYTES:
            raise ValueError(f"a chunk has at most {LEAF_BYTES} bytes; use put_blob")
        oid = object_id(view)
        self._add(kind, [view], [oid])
        return oid

    def put_blob(self, data: Buffer, leaves: Sequence[ObjectId] | None = None) -> BlobRef:
        """See `StoreWriter.put_blob`."""
        self._check()
        views = split(data)
        ids = tuple(leaves) if leaves is not None else self._store.hasher.leaves(data)
        if len(ids) != len(views):
            raise ValueError(f"{len(ids)} leaf ids were given for {len(views)} leaves")
        self._add("chunk", views, ids)
        size = sum(view.nbytes for view in views)
        return BlobRef(size=size, digest=blob_digest(ids), chunks=ids)

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
        self._check()
        check_lineage(body.lineage)
        if not self._has(body.record):
            raise ObjectMissing(
                f"the record {body.record.hex()[:16]} of this commit was never put: nothing was "
                "committed"
            )
        self._store.pipeline.wait()  # commits that were too large to be staged
        self._ended = True
        if self._direct is not None:
            return None
        epoch = self._epochs[0]
        if self._epochs[1] != self._store.pipeline.epoch:
            epoch = -1  # it may rely on what one of them was to add
        objects = tuple(self._objects.values())
        commit = messages.StagedCommit(body, tuple(self._relies_on), objects)
        return self._flushing.hand_over(commit, self._staged, epoch, failed)

    def _add(self, kind: Kind, views: Sequence[memoryview], ids: Sequence[ObjectId]) -> None:
        number = KINDS.index(kind) + 1
        novel: dict[ObjectId, memoryview] = {}
        for oid, view in zip(ids, views, strict=True):
            if oid not in novel and not self._has(oid):
                novel[oid] = view
        size = sum(view.nbytes for view in novel.values())
        try:
            if self._direct is None and self._staged.size + size > self._flushing.arena.limit // 2:
                self._write_here()
            if self._direct is not None:
                self._direct.add(kind, list(novel.values()), list(novel))
            else:
                for oid, view in novel.items():
                    pieces = self._staged.add(view)
                    self._objects[oid] = messages.Staged(number, oid, pieces)
        except BaseException:
            # An interrupt in the middle leaves an object of unknown content.
            self.abort()
            raise
        self.bytes_added += size + len(novel) * ENTRY_OVERHEAD

    def _write_here(self) -> None:
        """Go on without the flusher: what is staged so far is written first."""
        self._flushing.wait()
        writer = self._store.begin_here()
        writer.add_staged(self._objects.values(), self._relies_on, self._staged.read)
        self._staged.release()
        self._direct = writer

    def _has(self, oid: ObjectId) -> bool:
        if oid in self._objects or self._flushing.holds(oid) or self._store.pipeline.holds(oid):
            return True
        if self._direct is not None and self._direct.has_added(oid):
            return True
        packs = self._store.packs_with(oid)
        self._relies_on.update(packs[:1])
        return bool(packs)

    def _check(self) -> None:
        if self._ended:
            raise StoreNotWritable("this commit has ended: begin another one")
