"""A commit to a directory store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from nbrewind.errors import StoreNotWritable
from nbrewind.model.blobs import ObjectId
from nbrewind.model.refs import RefBody, StoredRef
from nbrewind.model.spans import stopwatch
from nbrewind.store import codec, durable
from nbrewind.store.abc import Kind
from nbrewind.store.config import PACK_BYTES
from nbrewind.store.ending import Ending, end_together
from nbrewind.store.object_writer import ObjectWriter
from nbrewind.store.pack_writer import ENTRY_OVERHEAD, PackWriter
from nbrewind.store.packs import KINDS
from nbrewind.store.staging import Copies
from nbrewind.store.workers import run_all

if TYPE_CHECKING:
    from nbrewind.store.arena import Piece
    from nbrewind.store.leases import Flight
    from nbrewind.store.local import LocalStore
    from nbrewind.store.messages import Staged

STAGED_BYTES = 32 * 1024 * 1024
"""A commit's first bytes wait in memory; what it adds beyond is written at once."""
_ALIKE = 4
"""Neighbouring leaves that are encoded alike: trying codecs on each costs more than it saves."""
_BATCH = 64
"""Leaves encoded together: bounds the memory compressed leaves wait in."""


class LocalWriter(ObjectWriter):
    """Fills packs; `nbrewind.store.ending` has the steps that make them part of the store.

    Used by one thread at a time.
    """

    def __init__(self, store: LocalStore, session: str, number: int, flight: Flight) -> None:
        super().__init__(store)
        self._store = store
        self._flight = flight
        self._session = session
        self._stem = os.path.join(session, str(number))
        self._epoch = store.pipeline.epoch
        self._packs: list[PackWriter] = []
        self._added: set[ObjectId] = set()
        self._in_arena = False

    def add(self, kind: Kind, views: list[memoryview], ids: list[ObjectId]) -> None:
        """Add objects whose ids are known."""
        self._add(kind, views, ids)

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
        self._in_arena = True
        self._relies_on.update(relies_on)
        for kind, run in groupby(objects, key=attrgetter("kind")):
            here = list(run)
            views = [read(each.pieces) for each in here]
            self._add(KINDS[kind - 1], views, [each.oid for each in here])

    def abort(self) -> None:
        """See `StoreWriter.abort`."""
        if not self._ended:
            self._flight.end()
        self._ended = True
        for pack in self._packs:
            pack.close()
            durable.discard(pack.path)
        self._packs = []

    def _end(self, body: RefBody) -> Ending:
        """Hand everything over to what ends the commit."""
        self._check_body(body)
        self._ended = True
        packs, self._packs = self._packs, []
        return Ending(self._store, self._session, packs, self._relies_on, body, self._flight)

    def _is_added(self, oid: ObjectId) -> bool:
        return oid in self._added or self._store.pipeline.holds(oid)

    def _append(self, kind: Kind, views: list[memoryview], ids: list[ObjectId]) -> None:
        number = KINDS.index(kind) + 1
        with durable.writing(self._session):
            for at in range(0, len(views), _BATCH):
                part = views[at : at + _BATCH]
                runs = [part[i : i + _ALIKE] for i in range(0, len(part), _ALIKE)]
                with stopwatch.measure("compress", sum(view.nbytes for view in part)):
                    encoded = [e for run in run_all(codec.encode_neighbours, runs) for e in run]
                for view, oid, (how, payload) in zip(
                    part, ids[at : at + _BATCH], encoded, strict=True
                ):
                    self._room().add(number, how, payload, view.nbytes, oid)
                    self._added.add(oid)
                    self.bytes_added += len(payload) + ENTRY_OVERHEAD
            self._packs[-1].settle()

    def _room(self) -> PackWriter:
        if not self._packs or self._packs[-1].size >= PACK_BYTES:
            # What is staged is copied, and written while nobody waits; a commit of many packs
            # is written from the caller's memory, lest it is there twice.
            path = f"{self._stem}-{len(self._packs)}.pack"
            staged = self.bytes_added < STAGED_BYTES and not self._in_arena
            self._packs.append(PackWriter(path, Copies(self._store.staging) if staged else None))
        return self._packs[-1]
