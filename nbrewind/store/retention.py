"""Retention: which records a store keeps, by policy and by size.

A record that goes takes along what only it needs; a collection removes that later. Records
that are pinned stay, and for each cell of the current notebook the newest one that can be
reused. When a size is asked for, those go first that cost least to make again for the bytes
they free: seconds of the run by bytes, where bytes that several records need count for each
in equal parts.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable

import msgspec

from nbrewind.errors import StoreError, StoreNotWritable
from nbrewind.model.blobs import ObjectId
from nbrewind.model.checkpoints import is_of_training
from nbrewind.model.records import ExecutionRecord
from nbrewind.model.refs import StoredRef
from nbrewind.store import durable
from nbrewind.store.abc import Kind
from nbrewind.store.epochs import store_time
from nbrewind.store.local import LocalStore
from nbrewind.store.marking import Reach
from nbrewind.store.packs import HEAD, KINDS
from nbrewind.store.pins import read_pins
from nbrewind.store.trash import move_ref_to_trash

Place = tuple[str, int]


class PrunedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record that goes."""

    lineage: str
    seq: int
    notebook: str
    cell_id: str
    created: float
    """Seconds since the epoch, UTC."""
    seconds: float
    """What its run took: the price of having it again."""
    reason: str
    """`keep-last` or `max-size`."""


class Pruning(msgspec.Struct, kw_only=True):
    """What a prune did, or would do."""

    applied: bool
    records: int
    """Records before."""
    bytes: int
    """What they need before, duplicates and garbage not counted."""
    bytes_after: int
    pruned: list[PrunedRecord]
    pinned: int = 0
    """Records that stay because they are pinned."""
    too_large: bool = False
    """All that may go goes, and what stays is still larger than was asked for."""


def prune(
    store: LocalStore,
    *,
    keep_last: int | None = None,
    max_bytes: int | None = None,
    current: Collection[str] = (),
    apply: bool = False,
) -> Pruning:
    """Choose records by policy, and with `apply` move their refs to trash.

    Args:
        store: An opened store.
        keep_last: Records to keep of each cell, the newest ones.
        max_bytes: What the records that stay may need in all.
        current: Source digests of the notebook as it is: the newest reusable record of each stays.
        apply: Change something; the store must not be read-only.

    Raises:
        StoreNotWritable: the store cannot be written.
        StoreError: a record or manifest cannot be read: what it needs is not known.
    """
    if apply and store.read_only:
        raise StoreNotWritable(f"{store.location} was opened read-only: nothing can be removed")
    store.refresh()
    found = [ref for ref in store.refs() if not is_of_training(ref.body.source_digest)]
    pins = {pin.place for pin in read_pins(store.location)}
    safe = pins | _current(found, current)
    needs = _Needs(store, found)
    report = Pruning(
        applied=apply,
        records=len(found),
        bytes=needs.total,
        bytes_after=0,
        pruned=[],
        pinned=sum(_place(ref) in pins for ref in found),
    )
    going: dict[Place, tuple[StoredRef, str]] = {}
    if keep_last is not None:
        for ref in _beyond(found, keep_last):
            if _place(ref) not in safe:
                needs.remove(ref)
                going[_place(ref)] = ref, "keep-last"
    if max_bytes is not None:
        left = [ref for ref in found if _place(ref) not in safe and _place(ref) not in going]
        for ref in needs.remove_down_to(max_bytes, left):
            going[_place(ref)] = ref, "max-size"
        report.too_large = needs.total > max_bytes
    report.bytes_after = needs.total
    report.pruned = [_row(ref, needs.seconds_of(ref), reason) for ref, reason in going.values()]
    if apply and going:
        with durable.writing(store.location):
            now = store_time(store.location)
            for ref, _ in going.values():
                move_ref_to_trash(store.location, ref.body.lineage, ref.body.seq, now)
        store.refresh()
    return report


def _place(ref: StoredRef) -> Place:
    return ref.body.lineage, ref.body.seq


def _row(ref: StoredRef, seconds: float, reason: str) -> PrunedRecord:
    body = ref.body
    return PrunedRecord(
        lineage=body.lineage,
        seq=body.seq,
        notebook=body.notebook,
        cell_id=body.cell_id,
        created=body.created,
        seconds=seconds,
        reason=reason,
    )


def _current(found: Iterable[StoredRef], current: Collection[str]) -> set[Place]:
    """The newest reusable record of each cell as it is; `found` is newest first."""
    kept: dict[str, Place] = {}
    for ref in found:
        if ref.trusted and ref.body.status == "ok" and ref.body.source_digest in current:
            kept.setdefault(ref.body.source_digest, _place(ref))
    return set(kept.values())


def _beyond(found: Iterable[StoredRef], keep: int) -> list[StoredRef]:
    """The records after the newest `keep` of each cell."""
    seen: Counter[tuple[str, str]] = Counter()
    beyond = []
    for ref in found:
        # Without an id a cell is known by its source.
        cell = ref.body.notebook, ref.body.cell_id or ref.body.source_digest
        seen[cell] += 1
        if seen[cell] > keep:
            beyond.append(ref)
    return beyond


class _Needs:
    """What each record needs, and how many need it."""

    def __init__(self, store: LocalStore, found: Iterable[StoredRef]) -> None:
        self._store = store
        self._sizes: dict[ObjectId, int] = {}
        self._kinds: dict[ObjectId, Kind] = {}
        for places in store.packs()[0].values():
            for place in places:
                self._sizes[place.entry.oid] = place.entry.stored + HEAD.size
                self._kinds[place.entry.oid] = KINDS[place.entry.kind - 1]
        self._of: dict[Place, frozenset[ObjectId]] = {}
        self._users: Counter[ObjectId] = Counter()
        self._seconds: dict[Place, float] = {}
        for ref in found:
            reach = Reach()
            reach.follow([ref.body.record], self._kinds.get, store.get)
            if reach.problems:
                raise StoreError(f"nothing is pruned: {reach.problems[0]}")
            self._of[_place(ref)] = frozenset(reach.there)
            self._users.update(reach.there)
        self.total = sum(self._sizes[oid] for oid in self._users)

    def seconds_of(self, ref: StoredRef) -> float:
        """How long a record's run took; 0 if it is lost."""
        place = _place(ref)
        if place not in self._seconds:
            seconds = 0.0
            if ref.body.record in self._kinds:
                content = self._store.get(ref.body.record)
                seconds = msgspec.msgpack.decode(content, type=ExecutionRecord).seconds
            self._seconds[place] = seconds
        return self._seconds[place]

    def remove(self, ref: StoredRef) -> None:
        """A record goes."""
        for oid in self._of[_place(ref)]:
            self._users[oid] -= 1
            if not self._users[oid]:
                self.total -= self._sizes[oid]

    def remove_down_to(self, size: int, candidates: Iterable[StoredRef]) -> list[StoredRef]:
        """Remove the least valuable records until the rest needs no more than `size` bytes."""
        gone: list[StoredRef] = []
        # A value only falls, as the others that share bytes go: what comes up is valued again.
        heap = [(self._value(ref), number, ref) for number, ref in enumerate(candidates)]
        heapq.heapify(heap)
        while heap and self.total > size:
            value, number, ref = heapq.heappop(heap)
            now = self._value(ref)
            if heap and now > value and now > heap[0][0]:
                heapq.heappush(heap, (now, number, ref))
                continue
            self.remove(ref)
            gone.append(ref)
        return gone

    def _value(self, ref: StoredRef) -> float:
        share = sum(self._sizes[oid] / self._users[oid] for oid in self._of[_place(ref)])
        return self.seconds_of(ref) / max(share, 1.0)
