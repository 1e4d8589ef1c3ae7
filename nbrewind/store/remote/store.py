"""A store of which there is nothing but files: the coordinator, as `LocalStore` is of a directory.

Its files have the formats and names that they have in a directory, so that copying them from
one to the other gives a store.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from nbrewind.errors import (
    ObjectDamaged,
    ObjectMissing,
    ObjectUnreachable,
    StoreError,
    StoreFormatError,
    StoreNotWritable,
    StoreUnreachable,
    TrustError,
)
from nbrewind.model.blobs import BlobRef, ObjectId
from nbrewind.model.refs import RefBody, StoredRef
from nbrewind.store import config, trust
from nbrewind.store.abc import Store
from nbrewind.store.catalog import Location
from nbrewind.store.info import Level, StoreInfo
from nbrewind.store.leaves import LeafHasher, are_leaves, blob_digest, content_digest
from nbrewind.store.packs import KINDS
from nbrewind.store.refs import SignedRef
from nbrewind.store.remote.bucket import BucketFiles
from nbrewind.store.remote.catalog import RemoteCatalog
from nbrewind.store.remote.files import Files
from nbrewind.store.remote.later import Later
from nbrewind.store.remote.listing import RemoteRefs
from nbrewind.store.remote.reader import RemoteReader
from nbrewind.store.remote.writer import RemoteWriter

_log = logging.getLogger(__name__)

_READERS = 12
"""Requests under way at a time when much is read."""
_SENDERS = 4


def open_bucket(
    location: str,
    *,
    create: bool = True,
    read_only: bool = False,
    hasher: LeafHasher | None = None,
    files: BucketFiles | None = None,
) -> RemoteStore:
    """Open the store in a bucket; as `open_store`.

    Args:
        location: `s3://bucket/prefix`; the bucket must exist.
        create: Make a store there if there is none.
        read_only: Write nothing.
        hasher: Shares what was hashed already with whoever else uses it.
        files: How the bucket is reached, if not in the usual way.

    Raises:
        StoreFormatError: there is no store, it is not of a format this version knows, or the
            server ignores conditional writes.
        StoreUnreachable: the server does not answer, or refuses access.
    """
    try:
        files = files or BucketFiles(location)
        try:
            content = files.read(config.CONFIG)
        except FileNotFoundError:
            if not create or read_only:
                raise StoreFormatError(
                    f"{location} is not an NBRewind store: it has no {config.CONFIG}"
                ) from None
            _refuse_foreign(files)
            files.probe_claims()
            files.claim(config.CONFIG, config.initial())
            content = files.read(config.CONFIG)
        parameters = config.parse(content, location)
        return RemoteStore(
            files, parameters=parameters, read_only=read_only, hasher=hasher or LeafHasher()
        )
    except OSError as exc:
        raise StoreUnreachable(str(exc)) from exc


def _refuse_foreign(files: Files) -> None:
    for name, _ in files.names(""):
        if name.partition("/")[0] not in (config.CONFIG, *config.DIRECTORIES):
            raise StoreFormatError(
                f"{files.location} is not an NBRewind store and not empty (it has {name!r}): give "
                "another prefix"
            )


class RemoteStore(Store):
    """A store among files; made by `open_bucket`. Safe to use from several threads.

    A forked child has neither its threads nor its connections: there nothing can be read or
    written, which is said at once.
    """

    def __init__(
        self, files: Files, *, parameters: config.Parameters, read_only: bool, hasher: LeafHasher
    ) -> None:
        self._owner = os.getpid()
        self.location = files.location
        self.format = parameters.format
        self.stream_cuts = parameters.stream_cuts
        self.read_only = read_only
        self.hasher = hasher
        self.files = files
        self.later = Later()
        self.publishing = threading.Lock()
        self.senders = ThreadPoolExecutor(_SENDERS, "nbrewind-send")
        self._readers = ThreadPoolExecutor(_READERS, "nbrewind-fetch")
        self._lock = threading.RLock()
        self._catalog = RemoteCatalog(files, self._readers, read_only=read_only)
        self._reader = RemoteReader(files, self._readers)
        self._refs = RemoteRefs(files, self._readers, read_only=read_only)
        self._refs.scan()

    @property
    def directories(self) -> tuple[str, ...]:
        """See `Store.directories`."""
        return ()

    def begin(self) -> RemoteWriter:
        """See `Store.begin`."""
        if self.read_only:
            raise StoreNotWritable(f"{self.location} was opened read-only")
        if self._is_child:
            raise StoreNotWritable(f"a forked child does not reach {self.location}")
        try:
            trust.own_key()
        except TrustError as exc:
            raise StoreNotWritable(f"nothing can be recorded: {exc}") from exc
        return RemoteWriter(self)

    def get(self, oid: ObjectId) -> bytes:
        """See `Store.get`; also raises `ObjectUnreachable`."""
        while True:
            place = self._place(oid)
            try:
                return self._reader.read(place)
            except StoreError as exc:
                self._discredit(place, exc)

    def get_blob(self, blob: BlobRef) -> bytearray:
        """See `Store.get_blob`; also raises `ObjectUnreachable`."""
        places = [self._place(oid) for oid in blob.chunks]
        sizes = [place.entry.size for place in places]
        leaves = blob.chunks if are_leaves(sizes) else None
        if sum(sizes) != blob.size or (leaves is not None and blob_digest(leaves) != blob.digest):
            raise _mismatch(blob)
        content = bytearray(blob.size)
        at = 0
        for place, part in zip(places, self._reader.read_all(places), strict=True):
            data = self.get(place.entry.oid) if isinstance(part, StoreError) else part
            content[at : at + len(data)] = data
            at += len(data)
        if leaves is None and content_digest(content) != blob.digest:
            raise _mismatch(blob)
        return content

    def has(self, oids: Iterable[ObjectId]) -> bool:
        """See `Store.has`; what cannot be looked up counts as not there."""
        if self._is_child:
            return False
        try:
            with self._lock:
                return all(
                    self.later.holds(oid) or self._catalog.locate(oid, self._refs.packs_of(oid))
                    for oid in oids
                )
        except OSError as exc:
            _log.warning("%s cannot be searched: %s", self.location, exc)
            return False

    def refs(self, source_digest: str | None = None) -> Sequence[StoredRef]:
        """See `Store.refs`."""
        with self._lock:
            return self._refs.find(source_digest)

    def settle(self) -> None:
        """See `Store.settle`."""
        if not self._is_child:
            self.later.wait()

    def level(self, ref: StoredRef) -> Level:
        """See `Store.level`."""
        return "remote"

    def refresh(self) -> None:
        """See `Store.refresh`; what is known stays if the files cannot be listed."""
        if self._is_child:
            return
        with self._lock:
            self._catalog.stale()
            try:
                self._refs.scan()
            except OSError as exc:
                _log.warning("%s cannot be listed: %s", self.location, exc)

    def info(self) -> StoreInfo:
        """See `Store.info`.

        Raises:
            StoreUnreachable: the files cannot be listed.
        """
        if self._is_child:
            raise StoreUnreachable(f"a forked child does not reach {self.location}")
        self.later.wait()
        with self._lock:
            try:
                self._catalog.stale()
                self._refs.scan()
                everything = list(self._catalog.everything())
            except OSError as exc:
                raise StoreUnreachable(str(exc)) from exc
            found = self._refs.find()
            damaged = [*self._catalog.damaged.values(), *self._refs.damaged.values()]
            size = self._catalog.bytes
        kinds = list({place.entry.oid: place.entry.kind for place in everything}.values())
        trusted = sum(ref.trusted for ref in found)
        return StoreInfo(
            location=self.location,
            format=self.format,
            bytes=size,
            packs=len({place.pack for place in everything}),
            objects={kind: kinds.count(number) for number, kind in enumerate(KINDS, 1)},
            refs=len(found),
            trusted_refs=trusted,
            untrusted_refs=len(found) - trusted,
            damaged=tuple(damaged),
            levels={"remote": len(found)},
        )

    def close(self) -> None:
        """See `Store.close`."""
        if self._is_child:
            return
        self.later.close()
        self.senders.shutdown()
        self._readers.shutdown()
        self.files.close()

    # What a commit needs of the store.

    def packs_with(self, oid: ObjectId) -> list[ObjectId]:
        """The packs that have an object; none if that cannot be looked up."""
        try:
            with self._lock:
                return [place.pack for place in self._catalog.locate(oid)]
        except OSError as exc:
            _log.warning("%s cannot be searched: %s", self.location, exc)
            return []

    def pack_written(self, pack: ObjectId, index: bytes) -> None:
        """A commit put a pack in place."""
        with self._lock:
            self._catalog.add(pack, index)

    def next_seq(self, lineage: str) -> int:
        """The number after the last known of a lineage."""
        with self._lock:
            return self._refs.next_seq(lineage)

    def published(self, body: RefBody, signed: SignedRef) -> StoredRef:
        """A commit published its ref."""
        with self._lock:
            return self._refs.add(body, signed)

    @property
    def _is_child(self) -> bool:
        return os.getpid() != self._owner

    def _place(self, oid: ObjectId) -> Location:
        if self._is_child:
            raise ObjectUnreachable(f"a forked child does not reach {self.location}")
        if self.later.holds(oid):
            self.later.wait()
        name = oid.hex()[:16]
        with self._lock:
            try:
                found = self._catalog.locate(oid, self._refs.packs_of(oid))
            except OSError as exc:
                raise ObjectUnreachable(f"object {name} cannot be looked up: {exc}") from exc
            if found:
                return found[0]
            damaged = self._catalog.is_bad(oid)
        if damaged:
            raise ObjectDamaged(f"object {name} in {self.location} is damaged: put it again")
        raise ObjectMissing(f"object {name} is not in {self.location}")

    def _discredit(self, place: Location, why: StoreError) -> None:
        """Never read this copy again; raises `why` if that says nothing about the copy."""
        if isinstance(why, ObjectUnreachable):
            raise why
        _log.warning("%s", why)
        with self._lock:
            if isinstance(why, ObjectMissing):
                self._catalog.gone(place.pack)
            else:
                self._catalog.forget(place.entry.oid, place.pack)


def _mismatch(blob: BlobRef) -> ObjectDamaged:
    return ObjectDamaged(f"a stored value of {blob.size} bytes does not match its digest")
