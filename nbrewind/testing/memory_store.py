"""A store in memory, for tests of what uses one. Not durable, not shared, not signed."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import msgspec

from nbrewind.errors import ObjectDamaged, ObjectMissing, StoreNotWritable
from nbrewind.model.blobs import LEAF_BYTES, BlobRef, ObjectId
from nbrewind.model.refs import RefBody, StoredRef
from nbrewind.store.abc import Buffer, Kind, Store, StoreWriter
from nbrewind.store.info import StoreInfo
from nbrewind.store.leaves import LeafHasher, blob_digest, content_digest, flat, object_id, split
from nbrewind.store.refs import check_lineage


class MemoryStore(Store):
    """Keeps objects in a dictionary.

    Args:
        read_only: Refuse commits.
        trusted: Whether refs are returned as trusted.
        key: The key they are said to be signed with.
    """

    location = "memory"

    def __init__(
        self, *, read_only: bool = False, trusted: bool = True, key: bytes = bytes(32)
    ) -> None:
        self.read_only = read_only
        self.trusted = trusted
        self.key = key
        self.hasher = LeafHasher()
        self.objects: dict[ObjectId, tuple[Kind, bytes]] = {}
        """Everything committed; tests may damage or remove entries."""
        self.committed: list[RefBody] = []
        self._lock = threading.Lock()

    def take_over(
        self, objects: dict[ObjectId, tuple[Kind, bytes]], committed: list[RefBody]
    ) -> None:
        """Hold what a store in another process holds, with threads of this one."""
        self.objects, self.committed = objects, committed
        self.hasher = LeafHasher()
        self._lock = threading.Lock()

    def begin(self) -> MemoryWriter:
        """See `Store.begin`."""
        if self.read_only:
            raise StoreNotWritable(f"the store in {self.location} was opened read-only")
        return MemoryWriter(self)

    def get(self, oid: ObjectId) -> bytes:
        """See `Store.get`."""
        if oid not in self.objects:
            raise ObjectMissing(f"object {oid.hex()[:16]} is not in {self.location}")
        content = self.objects[oid][1]
        if object_id(content) != oid:
            del self.objects[oid]  # it can be put again
            raise ObjectDamaged(f"object {oid.hex()[:16]} in {self.location} is damaged")
        return content

    def get_blob(self, blob: BlobRef) -> bytearray:
        """See `Store.get_blob`."""
        content = bytearray().join(self.get(oid) for oid in blob.chunks)
        if len(content) != blob.size or content_digest(content) != blob.digest:
            raise ObjectDamaged(f"a stored value of {blob.size} bytes does not match its digest")
        return content

    def has(self, oids: Iterable[ObjectId]) -> bool:
        """See `Store.has`."""
        return all(oid in self.objects for oid in oids)

    def refs(self, source_digest: str | None = None) -> Sequence[StoredRef]:
        """See `Store.refs`."""
        chosen = [b for b in self.committed if source_digest in (None, b.source_digest)]
        chosen.sort(key=lambda body: (body.created, body.seq, body.lineage), reverse=True)
        return [StoredRef(body=body, key=self.key, trusted=self.trusted) for body in chosen]

    def refresh(self) -> None:
        """Nobody else writes here."""

    def info(self) -> StoreInfo:
        """See `Store.info`."""
        kinds = [kind for kind, _ in self.objects.values()]
        refs = len(self.committed)
        return StoreInfo(
            location=self.location,
            format=1,
            bytes=sum(len(content) for _, content in self.objects.values()),
            packs=0,
            objects={kind: kinds.count(kind) for kind in ("chunk", "manifest", "record")},
            refs=refs,
            trusted_refs=refs if self.trusted else 0,
            untrusted_refs=0 if self.trusted else refs,
        )

    def close(self) -> None:
        """Nothing is held; the content stays for whoever opens it again."""

    def publish(self, objects: dict[ObjectId, tuple[Kind, bytes]], body: RefBody) -> StoredRef:
        """Make a commit visible, all at once."""
        with self._lock:
            taken = [b.seq for b in self.committed if b.lineage == body.lineage]
            body = msgspec.structs.replace(body, seq=max([body.seq, *(seq + 1 for seq in taken)]))
            self.objects.update(objects)
            self.committed.append(body)
        return StoredRef(body=body, key=self.key, trusted=self.trusted)


class MemoryWriter(StoreWriter):
    """A commit to a `MemoryStore`."""

    def __init__(self, store: MemoryStore) -> None:
        self.bytes_added = 0
        self._store = store
        self._objects: dict[ObjectId, tuple[Kind, bytes]] = {}
        self._ended = False

    def put(self, kind: Kind, data: Buffer) -> ObjectId:
        """See `StoreWriter.put`."""
        view = flat(data)
        if kind == "chunk" and view.nbytes > LEAF_BYTES:
            raise ValueError(f"a chunk has at most {LEAF_BYTES} bytes; use put_blob")
        oid = object_id(view)
        self._add(kind, oid, view)
        return oid

    def put_blob(self, data: Buffer, leaves: Sequence[ObjectId] | None = None) -> BlobRef:
        """See `StoreWriter.put_blob`."""
        views = split(data)
        ids = tuple(leaves) if leaves is not None else self._store.hasher.leaves(data)
        if len(ids) != len(views):
            raise ValueError(f"{len(ids)} leaf ids were given for {len(views)} leaves")
        for oid, view in zip(ids, views, strict=True):
            self._add("chunk", oid, view)
        size = sum(view.nbytes for view in views)
        return BlobRef(size=size, digest=blob_digest(ids), chunks=ids)

    def commit(self, body: RefBody) -> StoredRef:
        """See `StoreWriter.commit`."""
        self._check()
        check_lineage(body.lineage)
        known = body.record in self._objects or self._store.has([body.record])
        objects, self._objects = self._objects, {}
        self._ended = True
        if not known:
            raise ObjectMissing(
                f"the record {body.record.hex()[:16]} of this commit was never put: nothing was "
                "committed"
            )
        return self._store.publish(objects, body)

    def abort(self) -> None:
        """See `StoreWriter.abort`."""
        self._ended = True
        self._objects.clear()

    def _add(self, kind: Kind, oid: ObjectId, view: memoryview) -> None:
        self._check()
        if oid not in self._objects and not self._store.has([oid]):
            self._objects[oid] = (kind, bytes(view))
            self.bytes_added += view.nbytes

    def _check(self) -> None:
        if self._ended:
            raise StoreNotWritable("this commit has ended: begin another one")
