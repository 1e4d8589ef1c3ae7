"""A commit to a store of which there is nothing but files: packs are sent whole, then the ref."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

import msgspec

from nbrewind.errors import StoreNotWritable, TrustError
from nbrewind.model.blobs import ObjectId
from nbrewind.model.refs import RefBody, StoredRef
from nbrewind.store import codec, refs
from nbrewind.store.abc import Kind
from nbrewind.store.config import PACK_BYTES
from nbrewind.store.object_writer import ObjectWriter
from nbrewind.store.pack_writer import ENTRY_OVERHEAD
from nbrewind.store.packs import KINDS
from nbrewind.store.remote.catalog import pack_name
from nbrewind.store.remote.listing import ref_name
from nbrewind.store.remote.pack_builder import PackBuilder
from nbrewind.store.session import writer_name
from nbrewind.store.workers import run_all

if TYPE_CHECKING:
    from nbrewind.store.remote.store import RemoteStore

_ALIKE = 4
"""Neighbouring leaves that are encoded alike."""
_BATCH = 64
"""Leaves encoded together: bounds the memory compressed leaves wait in."""
_MOST_SENDING = 2
"""Full packs of a commit that are on their way while more is added."""
_MOST_ATTEMPTS = 10_000

Sent = tuple[ObjectId, bytes]
"""A pack's name and its index."""


class RemoteWriter(ObjectWriter):
    """Fills packs in memory and sends each when it is full. Used by one thread at a time."""

    def __init__(self, store: RemoteStore) -> None:
        super().__init__(store)
        self._store = store
        self._epoch = store.later.epoch
        self._pack: PackBuilder | None = None
        self._sending: list[Future[Sent]] = []
        self._added: set[ObjectId] = set()

    def commit(self, body: RefBody) -> StoredRef:
        """See `StoreWriter.commit`."""
        end = self._end(body)
        self._store.later.wait()
        if self._epoch != self._store.later.epoch:
            raise StoreNotWritable("a commit before this one failed")
        return end()

    def commit_later(self, body: RefBody, failed: Callable[[Exception], None]) -> None:
        """See `StoreWriter.commit_later`."""
        end = self._end(body)
        self._store.later.add(end, self._epoch, self._added, failed)

    def abort(self) -> None:
        """See `StoreWriter.abort`."""
        self._ended = True
        self._pack = None
        for sending in self._sending:
            sending.cancel()
        self._sending = []

    def _end(self, body: RefBody) -> Callable[[], StoredRef]:
        """Hand everything over to what ends the commit."""
        self._check_body(body)
        self._ended = True
        pack, self._pack = self._pack, None
        sending, self._sending = self._sending, []

        def end() -> StoredRef:
            try:
                sent = [future.result() for future in sending]
                if pack is not None:
                    sent.append(send(self._store, pack))
                return publish(self._store, body, sent)
            except OSError as exc:
                raise StoreNotWritable(f"cannot write {self._store.location}: {exc}") from exc
            except TrustError as exc:
                raise StoreNotWritable(f"nothing can be recorded: {exc}") from exc

        return end

    def _is_added(self, oid: ObjectId) -> bool:
        return oid in self._added or self._store.later.holds(oid)

    def _append(self, kind: Kind, views: list[memoryview], ids: list[ObjectId]) -> None:
        number = KINDS.index(kind) + 1
        try:
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
        except OSError as exc:
            raise StoreNotWritable(f"cannot write {self._store.location}: {exc}") from exc

    def _room(self) -> PackBuilder:
        if self._pack is not None and self._pack.size >= PACK_BYTES:
            if len(self._sending) >= _MOST_SENDING:
                self._sending[-_MOST_SENDING].result()
            self._sending.append(self._store.senders.submit(send, self._store, self._pack))
            self._pack = None
        if self._pack is None:
            self._pack = PackBuilder()
        return self._pack


def send(store: RemoteStore, pack: PackBuilder) -> Sent:
    """Make a pack part of the store. Raises `OSError`."""
    name, index, content = pack.finish()
    store.files.write(pack_name(name), content)
    store.pack_written(name, index)
    return name, index


def publish(store: RemoteStore, body: RefBody, sent: Sequence[Sent]) -> StoredRef:
    """Claim the next free number of a lineage for a ref.

    Raises:
        OSError: the files cannot be written.
        TrustError: it cannot be signed.
        StoreNotWritable: no number is free.
    """
    # A claim is told from another's by its content, which therefore has to be unique.
    body = msgspec.structs.replace(
        body,
        objects=tuple(name for name, _ in sent),
        seq=max(body.seq, store.next_seq(body.lineage)),
        writer=body.writer or writer_name(),
    )
    with store.publishing:
        for _ in range(_MOST_ATTEMPTS):
            content, signed = refs.encode(body)
            if store.files.claim(ref_name(body.lineage, body.seq), content):
                return store.published(body, signed)
            taken = [
                refs.sequence(name.rpartition("/")[2]) or 0
                for name, _ in store.files.names(f"refs/{body.lineage}")
            ]
            body = msgspec.structs.replace(body, seq=max([body.seq, *taken]) + 1)
    raise StoreNotWritable(f"no free number was found in lineage {body.lineage}")
