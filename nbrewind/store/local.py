"""A store in a directory: the coordinator over catalog, refs, reader and writer.

It opens the directory, serialises access of threads, answers reads from verified
copies only, and hands out commits. Other processes may write at any time; what they
published is noticed by `refresh`.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

import msgspec

from nbrewind.errors import ObjectDamaged, ObjectMissing, StoreNotWritable, TrustError
from nbrewind.model.blobs import BlobRef, ObjectId
from nbrewind.model.refs import RefBody, StoredRef
from nbrewind.store import arena, config, durable, trust
from nbrewind.store.abc import Store, StoreWriter, wrong_size
from nbrewind.store.catalog import Catalog, Location
from nbrewind.store.epochs import Epochs
from nbrewind.store.flushing import Flushing, Quietly
from nbrewind.store.info import StoreInfo
from nbrewind.store.leases import LeaseHolder, remove_dead
from nbrewind.store.leaves import LeafHasher, are_leaves, blob_digest, content_digest
from nbrewind.store.pack_reader import PackReader, Unreadable
from nbrewind.store.packs import KINDS
from nbrewind.store.pipeline import Pipeline
from nbrewind.store.ref_index import RefIndex
from nbrewind.store.ref_segments import RefSegments
from nbrewind.store.refs import SignedRef
from nbrewind.store.runs import Part, choose
from nbrewind.store.session import clean_dead_sessions, make_session
from nbrewind.store.staged_writer import StagedWriter
from nbrewind.store.staging import Staging
from nbrewind.store.validation import secure
from nbrewind.store.writer import LocalWriter

_log = logging.getLogger(__name__)


def open_store(
    path: str | os.PathLike[str],
    *,
    create: bool = True,
    read_only: bool = False,
    hasher: LeafHasher | None = None,
    flusher: Quietly | None = None,
) -> LocalStore:
    """Open the store in a directory.

    Args:
        path: The store's own directory, usually `.nbrewind` next to the notebook.
        create: Make a store there if there is none.
        read_only: Write nothing at all, not even into an existing store.
        hasher: Shares what was hashed already with whoever else uses it.
        flusher: Commit through a process of its own, which outlives this one; background work
            of this process is done within what the function returns.

    Raises:
        StoreFormatError: there is no store, or it is not of a format this version knows.
        StoreNotWritable: it cannot be written, and `read_only` was not asked for.
    """
    root = os.path.abspath(os.fspath(path))
    if create and not read_only and not os.path.exists(os.path.join(root, config.CONFIG)):
        config.create(root)
    parameters = config.check(root)
    if not read_only:
        config.create(root)  # completes one whose creator was interrupted
        tmp = os.path.join(root, "tmp")
        if not os.access(tmp, os.W_OK | os.X_OK):
            raise StoreNotWritable(
                f"cannot write {root}: permission denied, or the file system is read-only; open it "
                "read-only, change the permissions, or choose another store"
            )
        clean_dead_sessions(tmp)
        remove_dead(root)
    store = LocalStore(
        root, parameters=parameters, read_only=read_only, hasher=hasher or LeafHasher()
    )
    if flusher is not None and not read_only:
        store.start_flusher(flusher)
    return store


class LocalStore(Store):
    """A directory store; made by `open_store`. Safe to use from several threads."""

    def __init__(
        self, root: str, *, parameters: config.Parameters, read_only: bool, hasher: LeafHasher
    ) -> None:
        self.location = root
        self.format = parameters.format
        self.stream_cuts = parameters.stream_cuts
        self.read_only = read_only
        self.hasher = hasher
        self._lock = threading.RLock()
        self._catalog = Catalog(root, read_only=read_only)
        self._reader = PackReader(self._catalog)
        copies = RefSegments(os.path.join(root, "idx"), read_only=read_only)
        self._refs = RefIndex(os.path.join(root, "refs"), segments=copies)
        self._session: tuple[int, str] | None = None
        self._commits = 0
        self._settled: set[ObjectId] = set()
        self.epochs = Epochs(root)
        self.lease = LeaseHolder(root, self.epochs, self.session_directory)
        self._condemned: frozenset[ObjectId] = frozenset()
        self._followed = 0
        self.pipeline = Pipeline()
        self.staging = Staging()
        self.flushing: Flushing | None = None
        self._refs.scan()

    def start_flusher(self, quietly: Quietly) -> None:
        """From now on, commit through a process of its own where the system can do that."""
        if not arena.is_available():
            return
        try:
            self.flushing = Flushing(self, quietly)
        except OSError as problem:
            _log.warning("commits are written by the notebook's own process: %s", problem)

    def begin(self) -> StoreWriter:
        """See `Store.begin`."""
        if self.flushing is not None and self.flushing.here:
            self._check_writable()
            self._keep_lease()
            return StagedWriter(self, self.flushing)
        return self.begin_here()

    def begin_here(self) -> LocalWriter:
        """Start a commit that this process writes itself; raises as `begin`."""
        self._check_writable()
        self._keep_lease()
        with durable.writing(self.location):
            flight = self.lease.begin()
        self.follow_epochs()
        with self._lock:
            self._commits += 1
            return LocalWriter(self, self._session_directory(), self._commits, flight)

    def hold(self, oids: Iterable[ObjectId]) -> None:
        """See `Store.hold`."""
        if not self.read_only:
            with durable.writing(self.location):
                self.lease.hold(oids)

    def follow_epochs(self, *, look: bool = False) -> None:
        """Notice what collections decided: nothing they condemned is relied on from now on.

        Args:
            look: List the packs even if nothing was decided.
        """
        newest = self.epochs.newest()
        if look or newest.number != self._followed:
            with self._lock:
                self._condemned = frozenset(newest.condemned)
                self._catalog.stale()
                self._catalog.complete()
                self._followed = newest.number

    def _keep_lease(self) -> None:
        """Notice what collections decided, also of this session: it may count as gone.

        Raises:
            StoreNotWritable: it did, and values it refers to were removed.
        """
        self.follow_epochs()
        with durable.writing(self.location):
            if not self.lease.is_fenced():
                return
            self.lease.renew()
            missing = secure(self, self.lease.holds, self.lease.keep_packs)
        if missing:
            raise StoreNotWritable(
                f"this session was out of reach for so long that {len(missing)} objects of its "
                f"values were removed from {self.location}: restart the kernel to record again"
            )

    def _check_writable(self) -> None:
        if self.read_only:
            raise StoreNotWritable(f"{self.location} was opened read-only")
        try:
            trust.own_key()
        except TrustError as exc:
            raise StoreNotWritable(f"nothing can be recorded: {exc}") from exc

    def get(self, oid: ObjectId) -> bytes:
        """See `Store.get`."""
        while True:
            place = self._place(oid)
            try:
                return self._reader.read(place)
            except (ObjectDamaged, ObjectMissing) as exc:
                self._discredit(oid, place, exc)

    def get_blob(self, blob: BlobRef) -> bytearray:
        """See `Store.get_blob`."""
        places = choose([self.places(oid) for oid in blob.chunks])
        sizes = [place.entry.size for place in places]
        leaves = blob.chunks if are_leaves(sizes) else None
        if sum(sizes) != blob.size or (leaves is not None and blob_digest(leaves) != blob.digest):
            raise _mismatch(blob)
        content = bytearray(blob.size)
        whole = memoryview(content)
        starts = accumulate(sizes, initial=0)
        parts = [
            Part(place, whole[start : start + place.entry.size])
            for place, start in zip(places, starts, strict=False)
        ]
        for part in self._reader.read_parts(parts):
            self._fill(part)
        if leaves is None and content_digest(content) != blob.digest:
            raise _mismatch(blob)
        return content

    def get_into(self, wanted: Sequence[tuple[ObjectId, memoryview]]) -> None:
        """See `Store.get_into`."""
        places = choose([self.places(oid) for oid, _ in wanted])
        parts = [Part(place, target) for place, (_, target) in zip(places, wanted, strict=True)]
        for place, target in parts:
            if place.entry.size != target.nbytes:
                raise wrong_size(place.entry.oid, place.entry.size, target.nbytes)
        for part in self._reader.read_parts(parts):
            self._fill(part)

    def has(self, oids: Iterable[ObjectId]) -> bool:
        """See `Store.has`."""
        with self._lock:
            return all(
                self.is_pending(oid) or self._catalog.locate(oid, self._refs.packs_of(oid))
                for oid in oids
            )

    def refs(self, source_digest: str | None = None) -> Sequence[StoredRef]:
        """See `Store.refs`."""
        with self._lock:
            return self._refs.find(source_digest)

    def secure(self) -> None:
        """See `Store.secure`."""
        if self.flushing is None or not self.flushing.here:
            self.settle()
        self.pipeline.wait()

    def captured(self) -> frozenset[ObjectId]:
        """See `Store.captured`."""
        return self.flushing.captured if self.flushing is not None else frozenset()

    def tell_when_full(self, tell: Callable[[], None]) -> None:
        """See `Store.tell_when_full`."""
        if self.flushing is not None:
            self.flushing.waiting_for_room = tell

    def settle(self) -> None:
        """See `Store.settle`."""
        if self.flushing is not None:
            self.flushing.wait()
        self.pipeline.wait()

    def refresh(self) -> None:
        """See `Store.refresh`."""
        with self._lock:
            self._catalog.stale()
            self._refs.scan()

    def info(self) -> StoreInfo:
        """See `Store.info`."""
        self.settle()
        with self._lock:
            self.refresh()
            packs, kinds = self._catalog.counts()
            found = self._refs.find()
            trusted = sum(ref.trusted for ref in found)
            damaged = [*self._catalog.damaged.values(), *self._refs.damaged.values()]
            damaged += self.unseen()
        return StoreInfo(
            location=self.location,
            format=self.format,
            bytes=_size_of(self.location),
            packs=packs,
            objects={kind: kinds.get(number, 0) for number, kind in enumerate(KINDS, 1)},
            refs=len(found),
            trusted_refs=trusted,
            untrusted_refs=len(found) - trusted,
            damaged=tuple(damaged),
            levels={"local": len(found)},
        )

    def close(self) -> None:
        """See `Store.close`."""
        if self.flushing is not None:
            self.flushing.close()
        self.pipeline.wait()
        self.lease.close()
        self._reader.close()
        with self._lock:
            if self._session is not None and self._session[0] == os.getpid():
                try:
                    os.rmdir(self._session[1])
                except OSError as exc:
                    _log.debug("%s stays until the next opening: %s", self._session[1], exc)
            self._session = None

    # What a check needs of the store.

    def packs(self) -> tuple[dict[ObjectId, list[Location]], dict[ObjectId, str]]:
        """The objects in each readable pack; of the others, what is wrong with each."""
        with self._lock:
            self.refresh()
            found: dict[ObjectId, list[Location]] = {}
            for place in self._catalog.everything():
                found.setdefault(place.pack, []).append(place)
            return found, dict(self._catalog.damaged)

    def damaged_refs(self) -> dict[str, str]:
        """Files of refs that were skipped, with what is wrong with each."""
        with self._lock:
            self._refs.read_again()
            return {self._refs.path(place): why for place, why in self._refs.damaged.items()}

    def unseen(self) -> list[str]:
        """A sentence about each folder of which the names could not be listed.

        What is in there may exist all the same: nothing may be removed for being referred to by
        nothing, or be taken for lost.
        """
        with self._lock:
            return [*self._catalog.unseen(), *self._refs.unseen()]

    def read_copy(self, place: Location) -> bytes:
        """One copy of an object; raises as `get`."""
        return self._reader.read(place)

    def trashed_packs(self) -> dict[ObjectId, list[Location]]:
        """The objects in each readable pack that is in trash."""
        with self._lock:
            found: dict[ObjectId, list[Location]] = {}
            for place in self._catalog.everything(trash=True):
                found.setdefault(place.pack, []).append(place)
            return found

    def copies_of(self, oid: ObjectId) -> list[Location]:
        """All copies of an object, those of commits that are being made visible as well."""
        with self._lock:
            return self._catalog.locate(oid, self._refs.packs_of(oid))

    # What a commit needs of the store.

    def packs_with(self, oid: ObjectId) -> list[ObjectId]:
        """The packs that have an object and can be relied on."""
        with self._lock:
            return [p.pack for p in self._catalog.locate(oid) if self.is_staying(p.pack)]

    def is_staying(self, pack: ObjectId) -> bool:
        """Whether a pack can be relied on: it is there and not condemned."""
        return not self.is_condemned(pack) and self._catalog.is_standing(pack)

    def is_condemned(self, pack: ObjectId) -> bool:
        """Whether a pack must not be relied on any more."""
        return pack in self._condemned

    def session_directory(self) -> str:
        """Where this process may write files that are not part of the store yet."""
        with self._lock:
            return self._session_directory()

    def pack_path(self, pack: ObjectId) -> str:
        """The file of a pack."""
        return self._catalog.path(pack)

    def unsettled(self, pack: ObjectId) -> bool:
        """Whether a pack's name is not known to be durable."""
        return pack not in self._settled

    def settled(self, packs: Iterable[ObjectId]) -> None:
        """The names of these packs are durable."""
        self._settled.update(packs)

    def pack_written(self, pack: ObjectId, index: bytes) -> None:
        """A commit put a pack in place."""
        with self._lock:
            self._reader.drop(pack)
            self._catalog.publish(pack, index)
            self._settled.add(pack)

    def next_seq(self, lineage: str) -> int:
        """The number after the last known of a lineage."""
        with self._lock:
            return self._refs.next_seq(lineage)

    def published(self, body: RefBody, signed: SignedRef) -> StoredRef:
        """A commit published its ref."""
        with self._lock:
            return self._refs.add(body, signed)

    def noticed(self, body: RefBody, seq: int) -> StoredRef:
        """This session's flusher published a ref as number `seq`, and wrote the packs it names.

        Raises:
            TrustError: the ref cannot be read at the moment, and neither can the user's key.
        """
        with self._lock:
            stored = self._refs.note(body.lineage, seq)
            if stored is None:
                # It is durable all the same; the next refresh finds it.
                self._catalog.stale()
                body = msgspec.structs.replace(body, seq=seq)
                return StoredRef(body=body, key=trust.own_key(), trusted=True)
            for pack in stored.body.objects:
                self._catalog.note(pack)
            self._settled.update(stored.body.objects)
            return stored

    def _place(self, oid: ObjectId) -> Location:
        return self.places(oid)[0]

    def places(self, oid: ObjectId) -> list[Location]:
        """All copies that are not known to be damaged, at least one."""
        if self.is_pending(oid):
            self.settle()
        with self._lock:
            found = self._catalog.locate(oid, self._refs.packs_of(oid))
            if found:
                return found
            damaged = self._catalog.is_bad(oid)
        name = oid.hex()[:16]
        if damaged:
            raise ObjectDamaged(f"object {name} in {self.location} is damaged: put it again")
        raise ObjectMissing(f"object {name} is not in {self.location}")

    def is_pending(self, oid: ObjectId) -> bool:
        """Whether an object is part of a commit that has not ended."""
        pending = self.flushing is not None and self.flushing.holds(oid)
        return pending or self.pipeline.holds(oid)

    def _fill(self, part: Part) -> None:
        """Read one object from any copy, `part.place` first."""
        place, oid = part.place, part.place.entry.oid
        while True:
            try:
                return self._reader.read_into(place, part.target)
            except (ObjectDamaged, ObjectMissing) as exc:
                self._discredit(oid, place, exc)
            place = self._place(oid)

    def _discredit(self, oid: ObjectId, place: Location, why: Exception) -> None:
        """Never read this copy again, and let the object be added again; the next one is tried."""
        _log.warning("%s", why)
        with self._lock:
            if isinstance(why, ObjectMissing):
                self._catalog.gone(place.pack)
            elif isinstance(why, Unreadable):
                self._catalog.leave_out(oid, place.pack)
            else:
                self._catalog.forget(oid, place.pack)

    def _session_directory(self) -> str:
        # A forked child must not share its parent's, which is removed when the parent is gone.
        if (
            self._session is None
            or self._session[0] != os.getpid()
            or not os.path.isdir(self._session[1])
        ):
            self._session = (os.getpid(), make_session(os.path.join(self.location, "tmp")))
        return self._session[1]


def _mismatch(blob: BlobRef) -> ObjectDamaged:
    return ObjectDamaged(f"a stored value of {blob.size} bytes does not match its digest")


def _size_of(root: str) -> int:
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError as exc:
                _log.debug("not counted: %s", exc)
    return total
