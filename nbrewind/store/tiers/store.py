"""A chain of stores as one: commits go to the first, reads come from the fastest that has it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from nbrewind.errors import (
    ObjectDamaged,
    ObjectMissing,
    ObjectUnreachable,
    StoreError,
    StoreUnreachable,
)
from nbrewind.model.blobs import BlobRef, ObjectId
from nbrewind.model.refs import StoredRef
from nbrewind.store.abc import Store, StoreWriter
from nbrewind.store.info import Level, StoreInfo, TierInfo
from nbrewind.store.leaves import content_digest
from nbrewind.store.refs import Place
from nbrewind.store.tiers.chain import Tier

_log = logging.getLogger(__name__)

_T = TypeVar("_T")


class TieredStore(Store):
    """Stores of a chain, fastest first; made by `nbrewind.store.opening.open_store`.

    A slower tier that is out of reach, damaged or read-only is never an error of this store:
    what only that tier has is missing for the time being.

    Args:
        tiers: The chain; the first is open.
        stop: Called when the store is closed, to let background copies know.
    """

    def __init__(self, tiers: Sequence[Tier], stop: Callable[[], None] = lambda: None) -> None:
        first = tiers[0].store
        assert first is not None
        self.first = first
        """Where commits go."""
        self.tiers = tuple(tiers)
        self.location = ",".join(tier.place for tier in tiers)
        self.read_only = first.read_only
        self.hasher = first.hasher
        self._stop = stop

    @property
    def directories(self) -> tuple[str, ...]:
        """See `Store.directories`."""
        return tuple(tier.place for tier in self.tiers if tier.level != "remote")

    def begin(self) -> StoreWriter:
        """See `Store.begin`."""
        return self.first.begin()

    def get(self, oid: ObjectId) -> bytes:
        """See `Store.get`."""
        return self._first_that_has(lambda store: store.get(oid))

    def get_blob(self, blob: BlobRef) -> bytearray:
        """See `Store.get_blob`."""
        try:
            return self._first_that_has(lambda store: store.get_blob(blob))
        except (ObjectMissing, ObjectDamaged):
            if len(blob.chunks) < 2:
                raise
        # No tier has all of it, but each chunk may be in one.
        content = bytearray().join(self.get(oid) for oid in blob.chunks)
        if len(content) != blob.size or content_digest(content) != blob.digest:
            raise ObjectDamaged(f"a stored value of {blob.size} bytes does not match its digest")
        return content

    def get_into(self, wanted: Sequence[tuple[ObjectId, memoryview]]) -> None:
        """See `Store.get_into`."""
        try:
            self._first_that_has(lambda store: store.get_into(wanted))
        except (ObjectMissing, ObjectDamaged):
            super().get_into(wanted)  # no tier has all of them, but each may be in one

    def has(self, oids: Iterable[ObjectId]) -> bool:
        """See `Store.has`."""
        missing = [oid for oid in oids if not self.first.has([oid])]
        for store in self._slower() if missing else ():
            missing = [oid for oid in missing if not store.has([oid])]
            if not missing:
                break
        return not missing

    def refs(self, source_digest: str | None = None) -> Sequence[StoredRef]:
        """See `Store.refs`; of two records of one number the one in the faster tier is meant."""
        found: dict[Place, StoredRef] = {}
        for store in (self.first, *self._slower()):
            for ref in store.refs(source_digest):
                found.setdefault(_place(ref), ref)
        return sorted(
            found.values(), key=lambda r: (r.body.created, r.body.seq, r.body.lineage), reverse=True
        )

    def secure(self) -> None:
        """See `Store.secure`."""
        self.first.secure()

    def captured(self) -> frozenset[ObjectId]:
        """See `Store.captured`."""
        return self.first.captured()

    def tell_when_full(self, tell: Callable[[], None]) -> None:
        """See `Store.tell_when_full`."""
        self.first.tell_when_full(tell)

    def settle(self) -> None:
        """See `Store.settle`: waits for the first tier only."""
        self.first.settle()

    def hold(self, oids: Iterable[ObjectId]) -> None:
        """See `Store.hold`: each directory is told of what it has."""
        held = list(oids)
        self.first.hold([oid for oid in held if self.first.has([oid])])
        for tier in self.tiers[1:]:
            store = tier.store if tier.level != "remote" else None
            if store is not None and not store.read_only:
                try:
                    store.hold([oid for oid in held if store.has([oid])])
                except (StoreError, OSError) as problem:
                    tier.failed(problem)

    def level(self, ref: StoredRef) -> Level:
        """See `Store.level`."""
        reached = self.tiers[0].level
        for tier in self.tiers[1:]:
            if (store := tier.store) is not None and ref in store.refs(ref.body.source_digest):
                reached = tier.level
        return reached

    def refresh(self) -> None:
        """See `Store.refresh`."""
        self.first.refresh()
        for store in self._slower():
            store.refresh()

    def info(self) -> StoreInfo:
        """See `Store.info`; the figures besides `tiers` and `levels` are those of the first."""
        whole = self.first.info()
        tiers: list[TierInfo] = []
        levels: dict[Place, Level] = {}
        before: set[Place] = set()
        for tier in self.tiers:
            info = whole if tier is self.tiers[0] else self._info(tier)
            if info is None:
                tiers.append(TierInfo(location=tier.place, level=tier.level, problem=tier.problem))
                continue
            assert tier.store is not None
            here = {_place(ref) for ref in tier.store.refs()}
            levels |= dict.fromkeys(here, tier.level)
            tiers.append(
                TierInfo(
                    location=tier.place,
                    level=tier.level,
                    bytes=info.bytes,
                    packs=info.packs,
                    refs=info.refs,
                    missing_refs=len(before - here),
                )
            )
            before = here
        counted = list(levels.values())
        return msgspec.structs.replace(
            whole,
            location=self.location,
            levels={level: counted.count(level) for level in sorted(set(counted))},
            tiers=tuple(tiers),
        )

    def close(self) -> None:
        """See `Store.close`; copies to slower tiers go on without this process."""
        for tier in self.tiers:
            tier.close()
        self._stop()

    def _slower(self) -> list[Store]:
        return [store for tier in self.tiers[1:] if (store := tier.store) is not None]

    def _first_that_has(self, read: Callable[[Store], _T]) -> _T:
        why: StoreError | None = None
        for tier in self.tiers:
            store = self.first if tier is self.tiers[0] else tier.store
            if store is None:
                continue
            try:
                return read(store)
            except ObjectUnreachable as problem:
                why = why or problem
                if store is not self.first:
                    tier.failed(problem)
            except ObjectDamaged as problem:
                why = problem
            except ObjectMissing as problem:
                why = why or problem
            except OSError as problem:
                if store is self.first:
                    raise
                tier.failed(problem)
        assert why is not None
        raise why

    def _info(self, tier: Tier) -> StoreInfo | None:
        store = tier.store
        try:
            return None if store is None else store.info()
        except (StoreUnreachable, OSError) as problem:
            tier.failed(problem)
            return None


def _place(ref: StoredRef) -> Place:
    return ref.body.lineage, ref.body.seq
