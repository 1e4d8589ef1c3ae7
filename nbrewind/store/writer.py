"""A commit to a directory store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from nbrewind.errors import ObjectMissing, StoreNotWritable
from nbrewind.model.blobs import LEAF_BYTES, BlobRef, ObjectId
from nbrewind.model.refs import RefBody, StoredRef
from nbrewind.store import codec, durable
from nbrewind.store.abc import Buffer, Kind, StoreWriter
from nbrewind.store.config import PACK_BYTES
from nbrewind.store.cutting import cut
from nbrewind.store.ending import Ending, end_together
from nbrewind.store.leaves import blob_digest, flat, object_id, split
from nbrewind.store.pack_writer import ENTRY_OVERHEAD, PackWriter
from nbrewind.store.packs import KINDS
from nbrewind.store.refs import check_lineage
from nbrewind.store.staging import Copies
from nbrewind.store.workers import run_all

if TYPE_CHECKING:
    from nbrewind.store.arena import Piece
    from nbrewind.store.local import LocalStore
    from nbrewind.store.messages import Staged

STAGED_BYTES = 32 * 1024 * 1024
"""A commit's first bytes wait in memory; what it adds beyond is written at once."""
_ALIKE = 4
"""Neighbouring leaves that are encoded alike: trying codecs on each costs more than it saves."""
_BATCH = 64
"""Leaves encoded together: bounds the memory compressed leaves wait in."""


class LocalWriter(StoreWriter):
    """Fills packs; `nbrewind.store.ending` has the steps that make them part of the store.

    Used by one thread at a time.
    """

    def __init__(self, store: LocalStore, session: str, number: int) -> None:
        self.bytes_added = 0
        self._store = store
        self._session = session
        self._stem = os.path.join(session, str(number))
        self._epoch = store.pipeline.epoch
        self._packs: list[PackWriter] = []
        self._added: set[ObjectId] = set()
        self._relies_on: set[ObjectId] = set()
        self._in_arena = False
        self._ended = False

    def put(self, kind: Kind, data: Buffer) -> ObjectId:
        """See `StoreWriter.put`."""
        self._check()
        view = flat(data)
        if kind == "chunk" and view.nbytes > LEAF_BYTES:
            raise ValueError(f"a chunk has at most {LEAF_BYTES} bytes; use put_blob")
        oid = object_id(view)
        if not self._has(oid):
            self._append(kind, [view], [oid])
        return oid

    def put_blob(self, data: Buffer, leaves: Sequence[ObjectId] | None = None) -> BlobRef:
        """See `StoreWriter.put_blob`."""
        self._check()
        views = split(data)
        ids = tuple(leaves) if leaves is not None else self._store.hasher.leaves(data)
        if len(ids) != len(views):
            raise ValueError(f"{len(ids)} leaf ids were given for {len(views)} leaves")
        self._add_chunks(views, ids)
        size = sum(view.nbytes for view in views)
        return BlobRef(size=size, digest=blob_digest(ids), chunks=ids)

    def put_stream(self, data: Buffer) -> BlobRef:
        """See `StoreWriter.put_stream`."""
        rule = self._store.stream_cuts
        view = flat(data)
        if rule is None or view.nbytes <= rule.usual:
            return self.put_blob(view)
        self._check()
        views = cut(view, rule)
        ids = tuple(run_all(object_id, views))
        self._add_chunks(views, ids)
        return BlobRef(size=view.nbytes, digest=self._store.hasher.digest(view), chunks=ids)

    def add(self, kind: Kind, views: list[memoryview], ids: list[ObjectId]) -> None:
        """Add objects that the store does not have; their ids must be right."""
        self._check()
        if views:
            self._append(kind, views, ids)

    def has_added(self, oid: ObjectId) -> bool:
        """Whether this commit adds an object."""
        return oid in self._added

    def commit(self, body: RefBody) -> StoredRef:
        """See `StoreWriter.commit`."""
        ending = self._end(body)
        self._store.pipeline.wait()
        if self._epoch != self._store.pipeline.epoch:
            ending.discard()
            raise StoreNotWritable("a commit before this one failed")
        end_together([ending])
        if ending.failure is not None:
            raise ending.failure
        assert ending.stored is not None
        return ending.stored

    def commit_later(
        self,
        body: RefBody,
        failed: Callable[[Exception], None],
        done: Callable[[StoredRef], None] | None = None,
        *,
        epoch: int | None = None,
    ) -> None:
        """See `StoreWriter.commit_later`.

        Args:
            body: As there.
            failed: As there.
            done: Called, by another thread, when the commit is acknowledged.
            epoch: `Pipeline.epoch` when the commit began, if that was before `begin`.
        """
        ending = self._end(body)
        epoch = self._epoch if epoch is None else epoch
        self._store.pipeline.add(ending, epoch, self._added, failed, done)

    def add_staged(
        self,
        objects: Iterable[Staged],
        relies_on: Iterable[ObjectId],
        read: Callable[[tuple[Piece, ...]], memoryview],
    ) -> None:
        """Add objects that lie in an arena, and stay there until the commit has ended.

        Args:
            objects: What it adds.
            relies_on: Packs with objects that it need not add.
            read: Gives the bytes at a place in the arena.
        """
        self._check()
        self._in_arena = True
        self._relies_on.update(relies_on)
        for kind, run in groupby(objects, key=attrgetter("kind")):
            novel = {each.oid: each for each in run if not self._has(each.oid)}
            if novel:
                views = [read(each.pieces) for each in novel.values()]
                self._append(KINDS[kind - 1], views, list(novel))

    def abort(self) -> None:
        """See `StoreWriter.abort`."""
        self._ended = True
        for pack in self._packs:
            pack.close()
            durable.discard(pack.path)
        self._packs = []

    def _end(self, body: RefBody) -> Ending:
        """Hand everything over to what ends the commit."""
        self._check()
        check_lineage(body.lineage)
        if not self._has(body.record):
            raise ObjectMissing(
                f"the record {body.record.hex()[:16]} of this commit was never put: nothing was "
                "committed"
            )
        self._ended = True
        packs, self._packs = self._packs, []
        return Ending(self._store, self._session, packs, self._relies_on, body)

    def _check(self) -> None:
        if self._ended:
            raise StoreNotWritable("this commit has ended: begin another one")

    def _has(self, oid: ObjectId) -> bool:
        if oid in self._added:
            return True
        if self._store.pipeline.holds(oid):
            return True
        packs = self._store.packs_with(oid)
        self._relies_on.update(packs[:1])
        return bool(packs)

    def _add_chunks(self, views: Sequence[memoryview], ids: Sequence[ObjectId]) -> None:
        novel: dict[ObjectId, memoryview] = {}
        for oid, view in zip(ids, views, strict=True):
            if oid not in novel and not self._has(oid):
                novel[oid] = view
        if novel:
            self._append("chunk", list(novel.values()), list(novel))

    def _append(self, kind: Kind, views: list[memoryview], ids: list[ObjectId]) -> None:
        number = KINDS.index(kind) + 1
        try:
            with durable.writing(self._session):
                for at in range(0, len(views), _BATCH):
                    part = views[at : at + _BATCH]
                    runs = [part[i : i + _ALIKE] for i in range(0, len(part), _ALIKE)]
                    encoded = [e for run in run_all(codec.encode_neighbours, runs) for e in run]
                    for view, oid, (how, payload) in zip(
                        part, ids[at : at + _BATCH], encoded, strict=True
                    ):
                        self._room().add(number, how, payload, view.nbytes, oid)
                        self._added.add(oid)
                        self.bytes_added += len(payload) + ENTRY_OVERHEAD
                self._packs[-1].settle()
        except BaseException:
            # An interrupt in the middle leaves a pack of unknown content: it is given up too.
            self.abort()
            raise

    def _room(self) -> PackWriter:
        if not self._packs or self._packs[-1].size >= PACK_BYTES:
            # What is staged is copied, and written while nobody waits; a commit of many packs
            # is written from the caller's memory, lest it is there twice.
            path = f"{self._stem}-{len(self._packs)}.pack"
            staged = self.bytes_added < STAGED_BYTES and not self._in_arena
            self._packs.append(PackWriter(path, Copies(self._store.staging) if staged else None))
        return self._packs[-1]
