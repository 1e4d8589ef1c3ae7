"""The store interface: everything the rest of NBRewind knows about a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, Self

from nbrewind.errors import ObjectDamaged, StoreNotWritable
from nbrewind.model.blobs import BlobRef, ObjectId
from nbrewind.model.refs import RefBody, StoredRef
from nbrewind.store.info import Level, StoreInfo

if TYPE_CHECKING:
    from nbrewind.store.leaves import LeafHasher

Buffer = bytes | bytearray | memoryview
Kind = Literal["chunk", "manifest", "record"]


class StoreWriter(ABC):
    """One commit being prepared: objects become durable, then visible, all at once."""

    bytes_added: int
    """Bytes this commit will add to the store after deduplication; compressed they may be fewer."""

    @abstractmethod
    def put(self, kind: Kind, data: Buffer) -> ObjectId:
        """Add one object and return its id; an object that the store has is not added again."""

    @abstractmethod
    def put_blob(self, data: Buffer, leaves: Sequence[ObjectId] | None = None) -> BlobRef:
        """Add bytes of any size (C-contiguous) as chunks.

        Args:
            data: The bytes; they must not change during the call.
            leaves: Ids of the leaves if they are known (`LeafHasher.leaves`); they must be
                those of the bytes as they are now.
        """

    def put_stream(self, data: Buffer) -> BlobRef:
        """Add bytes in which what follows a change may have moved: a pickle stream, a file.

        As `put_blob`, but a store may cut them where their content suggests it.
        """
        return self.put_blob(data)

    def put_chunks(self, views: Sequence[Buffer]) -> tuple[ObjectId, ...]:
        """Add many small objects, of at most `LEAF_BYTES` each, and return their ids."""
        return tuple(self.put("chunk", view) for view in views)

    def rely_on(self, oids: Iterable[ObjectId]) -> bool:
        """Whether the store has all these objects; then the commit makes sure that they stay.

        False by default: whoever asks adds them again.
        """
        return False

    @abstractmethod
    def commit(self, body: RefBody) -> StoredRef:
        """Make everything durable, then publish the ref.

        `body.seq` is a proposal: that number or the next free one of the lineage is claimed.
        `body.objects` is filled in by the store. The commit has ended afterwards, also if it
        failed.

        Raises:
            StoreNotWritable: nothing of this commit is visible.
            ObjectMissing: `body.record` was not put.
        """

    def commit_later(self, body: RefBody, failed: Callable[[Exception], None]) -> None:
        """As `commit`, but may return before anything is durable or visible.

        Commits end in the order in which they were handed over. Their objects can be read, and
        need not be added again, at once; nothing counts as acknowledged before `Store.settle`
        returns. If one fails, those begun before it failed do too.

        Args:
            body: As for `commit`.
            failed: Called with what `commit` would have raised, perhaps by another thread, before
                `Store.settle` returns; it must not wait for the store.

        Raises:
            ObjectMissing: `body.record` was not put.
        """
        try:
            self.commit(body)
        except StoreNotWritable as failure:
            failed(failure)

    @abstractmethod
    def abort(self) -> None:
        """Forget the commit; a no-op after `commit` and `commit_later`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()


class Store(ABC):
    """Objects by id, and signed refs to execution records by source digest."""

    location: str
    """Where it is, for people."""
    read_only: bool
    hasher: LeafHasher
    """Knows the leaves that were hashed already; whoever hashes for the store shares it."""

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories of this machine that it is kept in: nobody's input files."""
        return (self.location,)

    @abstractmethod
    def begin(self) -> StoreWriter:
        """Start a commit. Raises `StoreNotWritable` if nothing can be written."""

    @abstractmethod
    def get(self, oid: ObjectId) -> bytes:
        """An object's content, verified. Raises `ObjectMissing` or `ObjectDamaged`."""

    @abstractmethod
    def get_blob(self, blob: BlobRef) -> bytearray:
        """A blob's content, verified, in fresh memory. Raises as `get`."""

    def get_into(self, wanted: Sequence[tuple[ObjectId, memoryview]]) -> None:
        """Read objects, verified, each into memory of exactly its size.

        Raises:
            ObjectDamaged: as `get`, or an object has another size.
            ObjectMissing: as `get`; some memory may be filled.
        """
        for oid, target in wanted:
            content = self.get(oid)
            if len(content) != target.nbytes:
                raise wrong_size(oid, len(content), target.nbytes)
            target[:] = content

    @abstractmethod
    def has(self, oids: Iterable[ObjectId]) -> bool:
        """Whether all these objects are listed; says nothing about their soundness."""

    @abstractmethod
    def refs(self, source_digest: str | None = None) -> Sequence[StoredRef]:
        """Refs, newest first; only those of one source digest if it is given."""

    def secure(self) -> None:
        """Wait until all that was to be committed later survives this process, or has failed.

        It may not survive the machine before `settle` returns.
        """
        self.settle()

    def captured(self) -> frozenset[ObjectId]:
        """Records that survive this process, but may not survive the machine yet."""
        return frozenset()

    def tell_when_full(self, tell: Callable[[], None]) -> None:
        """Call `tell` whenever a commit has to wait because others have not ended."""
        return

    def settle(self) -> None:
        """Wait until all that was to be committed later is durable, or has failed."""
        return

    def hold(self, oids: Iterable[ObjectId]) -> None:
        """Say in which manifests and records this session's values are, all of them.

        While the session is alive no collection removes what they lead to, also if no ref does.

        Raises:
            StoreNotWritable: it cannot be said; a collection may remove them.
        """
        return

    def level(self, ref: StoredRef) -> Level:
        """What a committed execution survives, as far as is known without asking again."""
        return "local"

    @abstractmethod
    def refresh(self) -> None:
        """Notice what other writers published since the store was opened."""

    @abstractmethod
    def info(self) -> StoreInfo:
        """The store in figures, after a `refresh`; reads every index, no object."""

    @abstractmethod
    def close(self) -> None:
        """Release files; the store can still be opened anew."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def wrong_size(oid: ObjectId, size: int, expected: int) -> ObjectDamaged:
    """An object is not what whoever asks for it takes it for."""
    return ObjectDamaged(
        f"object {oid.hex()[:16]} has {size} bytes, where {expected} were expected"
    )
