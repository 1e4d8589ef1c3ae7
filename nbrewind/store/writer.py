"""A commit to a directory store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from nbrewind.errors import ObjectMissing, StoreNotWritable, TrustError
from nbrewind.model.blobs import LEAF_BYTES, BlobRef, ObjectId
from nbrewind.model.refs import RefBody, StoredRef
from nbrewind.store import codec, durable
from nbrewind.store.abc import Buffer, Kind, StoreWriter
from nbrewind.store.catalog import pack_place
from nbrewind.store.config import PACK_BYTES
from nbrewind.store.leaves import blob_digest, flat, object_id, split
from nbrewind.store.pack_writer import ENTRY_OVERHEAD, PackWriter
from nbrewind.store.packs import KINDS
from nbrewind.store.publish import publish
from nbrewind.store.refs import check_lineage
from nbrewind.store.workers import run_all

if TYPE_CHECKING:
    from nbrewind.store.local import LocalStore

_BATCH = 64
"""Leaves encoded together: bounds the memory compressed leaves wait in."""


class LocalWriter(StoreWriter):
    """Writes packs to the session's directory; `commit` moves them into the store.

    Order is what makes it durable: packs, then their names, then the ref, then its name.
    Used by one thread at a time.
    """

    def __init__(self, store: LocalStore, session: str, number: int) -> None:
        self.bytes_added = 0
        self._store = store
        self._session = session
        self._stem = os.path.join(session, str(number))
        self._pack: PackWriter | None = None
        self._done: list[tuple[str, ObjectId, bytes]] = []
        self._added: set[ObjectId] = set()
        self._relies_on: set[ObjectId] = set()
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
        novel: dict[ObjectId, memoryview] = {}
        for oid, view in zip(ids, views, strict=True):
            if oid not in novel and not self._has(oid):
                novel[oid] = view
        if novel:
            self._append("chunk", list(novel.values()), list(novel))
        size = sum(view.nbytes for view in views)
        return BlobRef(size=size, digest=blob_digest(ids), chunks=ids)

    def commit(self, body: RefBody) -> StoredRef:
        """See `StoreWriter.commit`."""
        self._check()
        check_lineage(body.lineage)
        if not self._has(body.record):
            raise ObjectMissing(
                f"the record {body.record.hex()[:16]} of this commit was never put: nothing was "
                "committed"
            )
        try:
            with durable.writing(self._store.location):
                self._finish_pack()
                self._move_packs()
                self._settle_others()
                body = msgspec.structs.replace(
                    body, objects=tuple(name for _, name, _ in self._done)
                )
                found = publish(
                    os.path.join(self._store.location, "refs"),
                    self._session,
                    body,
                    max(body.seq, self._store.next_seq(body.lineage)),
                )
        except TrustError as exc:
            raise StoreNotWritable(f"nothing can be recorded: {exc}") from exc
        finally:
            self.abort()
        return self._store.published(*found)

    def abort(self) -> None:
        """See `StoreWriter.abort`."""
        self._ended = True
        if self._pack is not None:
            self._pack.close()
            durable.discard(self._pack.path)
            self._pack = None
        for path, _, _ in self._done:
            durable.discard(path)
        self._done.clear()

    def _check(self) -> None:
        if self._ended:
            raise StoreNotWritable("this commit has ended: begin another one")

    def _has(self, oid: ObjectId) -> bool:
        if oid in self._added:
            return True
        packs = self._store.packs_with(oid)
        self._relies_on.update(packs[:1])
        return bool(packs)

    def _append(self, kind: Kind, views: list[memoryview], ids: list[ObjectId]) -> None:
        number = KINDS.index(kind) + 1
        try:
            with durable.writing(self._session):
                for at in range(0, len(views), _BATCH):
                    part = views[at : at + _BATCH]
                    encoded = run_all(codec.encode, part)
                    for view, oid, (how, payload) in zip(
                        part, ids[at : at + _BATCH], encoded, strict=True
                    ):
                        self._room().add(number, how, payload, view.nbytes, oid)
                        self._added.add(oid)
                        self.bytes_added += len(payload) + ENTRY_OVERHEAD
                if self._pack is not None:
                    self._pack.settle()
        except BaseException:
            # An interrupt in the middle leaves a pack of unknown content: it is given up too.
            self.abort()
            raise

    def _room(self) -> PackWriter:
        if self._pack is not None and self._pack.size >= PACK_BYTES:
            self._finish_pack()
        if self._pack is None:
            self._pack = PackWriter(f"{self._stem}-{len(self._done)}.pack")
        return self._pack

    def _finish_pack(self) -> None:
        if self._pack is not None:
            name, index = self._pack.finish()
            self._done.append((self._pack.path, name, index))
            self._pack = None

    def _move_packs(self) -> None:
        folders: set[str] = set()
        for path, name, _ in self._done:
            folder, file = pack_place(name)
            folder = os.path.join(self._store.location, "packs", folder)
            durable.make_directory(folder)
            os.rename(path, os.path.join(folder, file))
            folders.add(folder)
        for folder in sorted(folders):
            durable.sync_directory(folder)
        for _, name, index in self._done:
            self._store.pack_written(name, index)

    def _settle_others(self) -> None:
        """Another writer's pack is visible before its name is durable; this commit relies on it."""
        folders = {
            os.path.dirname(self._store.pack_path(pack))
            for pack in self._relies_on
            if self._store.unsettled(pack)
        }
        for folder in sorted(folders):
            durable.sync_directory(folder)
        self._store.settled(self._relies_on)
