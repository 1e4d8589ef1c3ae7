"""What commits to stores have in common: bytes become named objects, each once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Protocol

from nbrewind.errors import ObjectMissing, StoreNotWritable
from nbrewind.model.blobs import LEAF_BYTES, BlobRef, ObjectId
from nbrewind.model.refs import RefBody
from nbrewind.store.abc import Buffer, Kind, StoreWriter
from nbrewind.store.cutting import CutRule, cut, takes_long
from nbrewind.store.leaves import LeafHasher, blob_digest, flat, object_id, split
from nbrewind.store.refs import check_lineage
from nbrewind.store.workers import run_all


class Holdings(Protocol):
    """What a writer has to know of its store."""

    hasher: LeafHasher
    stream_cuts: CutRule | None

    def packs_with(self, oid: ObjectId) -> list[ObjectId]:
        """The packs that have an object."""
        ...


class ObjectWriter(StoreWriter):
    """A writer whose subclass says what is there already and where the rest goes."""

    def __init__(self, holdings: Holdings) -> None:
        self.bytes_added = 0
        self._holdings = holdings
        self._relies_on: set[ObjectId] = set()
        self._ended = False

    def put(self, kind: Kind, data: Buffer) -> ObjectId:
        """See `StoreWriter.put`."""
        view = flat(data)
        if kind == "chunk" and view.nbytes > LEAF_BYTES:
            raise ValueError(f"a chunk has at most {LEAF_BYTES} bytes; use put_blob")
        oid = object_id(view)
        self._add(kind, [view], [oid])
        return oid

    def put_blob(self, data: Buffer, leaves: Sequence[ObjectId] | None = None) -> BlobRef:
        """See `StoreWriter.put_blob`."""
        views = split(data)
        ids = tuple(leaves) if leaves is not None else self._holdings.hasher.leaves(data)
        if len(ids) != len(views):
            raise ValueError(f"{len(ids)} leaf ids were given for {len(views)} leaves")
        self._add("chunk", views, ids)
        size = sum(view.nbytes for view in views)
        return BlobRef(size=size, digest=blob_digest(ids), chunks=ids)

    def put_stream(self, data: Buffer) -> BlobRef:
        """See `StoreWriter.put_stream`."""
        rule = self._holdings.stream_cuts
        view = flat(data)
        if rule is None or view.nbytes <= rule.usual or takes_long(view.nbytes):
            return self.put_blob(view)
        views = cut(view, rule)
        ids = tuple(run_all(object_id, views))
        self._add("chunk", views, ids)
        return BlobRef(size=view.nbytes, digest=self._holdings.hasher.digest(view), chunks=ids)

    def put_chunks(self, views: Sequence[Buffer]) -> tuple[ObjectId, ...]:
        """See `StoreWriter.put_chunks`."""
        flats = [flat(view) for view in views]
        if any(view.nbytes > LEAF_BYTES for view in flats):
            raise ValueError(f"a chunk has at most {LEAF_BYTES} bytes; use put_blob")
        ids = self._holdings.hasher.ids(flats)
        self._add("chunk", flats, ids)
        return ids

    def rely_on(self, oids: Iterable[ObjectId]) -> bool:
        """See `StoreWriter.rely_on`."""
        self._check()
        return all(self._has(oid) for oid in oids)

    def _add(self, kind: Kind, views: Sequence[memoryview], ids: Sequence[ObjectId]) -> None:
        self._check()
        novel: dict[ObjectId, memoryview] = {}
        for oid, view in zip(ids, views, strict=True):
            if oid not in novel and not self._has(oid):
                novel[oid] = view
        if not novel:
            return
        try:
            self._append(kind, list(novel.values()), list(novel))
        except BaseException:
            # An interrupt in the middle leaves an object of unknown content: all is given up.
            self.abort()
            raise

    def _has(self, oid: ObjectId) -> bool:
        """Whether an object need not be added; notes the pack that the commit then relies on."""
        if self._is_added(oid):
            return True
        packs = self._holdings.packs_with(oid)
        self._relies_on.update(packs[:1])
        return bool(packs)

    def _check(self) -> None:
        if self._ended:
            raise StoreNotWritable("this commit has ended: begin another one")

    def _check_body(self, body: RefBody) -> None:
        """Raise what `StoreWriter.commit` raises before it does anything."""
        self._check()
        check_lineage(body.lineage)
        if not self._has(body.record):
            raise ObjectMissing(
                f"the record {body.record.hex()[:16]} of this commit was never put: nothing was "
                "committed"
            )

    @abstractmethod
    def _is_added(self, oid: ObjectId) -> bool:
        """Whether this commit, or one before it that has not ended, adds an object."""

    @abstractmethod
    def _append(self, kind: Kind, views: list[memoryview], ids: list[ObjectId]) -> None:
        """Add objects that are not there yet."""
