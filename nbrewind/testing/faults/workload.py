"""A history of commits and reads that is the same for a seed, and what a store owes it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from nbrewind.errors import (
    NBRewindError,
    ObjectDamaged,
    ObjectMissing,
    StoreFormatError,
    StoreNotWritable,
)
from nbrewind.model.blobs import LEAF_BYTES, BlobRef, ObjectId
from nbrewind.model.refs import RefBody
from nbrewind.store.abc import Store, StoreWriter

LINEAGES = ("a" * 32, "b" * 32, "c" * 32)
SIZES = (0, 1, 100, 5000, 70_000, LEAF_BYTES, LEAF_BYTES + 1, 2 * LEAF_BYTES + 7)

Claim = tuple[str, int, ObjectId]
"""Lineage, number and record of a ref."""


@dataclass
class Expected:
    """What was put, and what was promised."""

    blobs: dict[BlobRef, bytes] = field(default_factory=dict)
    records: dict[ObjectId, bytes] = field(default_factory=dict)
    contents: dict[ObjectId, BlobRef] = field(default_factory=dict)
    """The blob of each record."""
    acknowledged: set[Claim] = field(default_factory=set)
    settled: set[tuple[str, ObjectId]] = field(default_factory=set)
    """Lineage and record of commits that were acknowledged by `settle`."""
    refused: set[ObjectId] = field(default_factory=set)
    """Records whose every commit failed."""
    complaints: list[str] = field(default_factory=list)
    """What the store said of failures."""
    stuck: bool = False
    """A session that had a fault could not commit any more."""


class Workload:
    """Runs a history on stores that `open` opens; every failure has to be a documented one.

    Args:
        seed: Decides on everything.
        open: Opens the store anew.
        steps: Its length.
        told: Is called with each commit at the moment it is acknowledged: with its `Claim`, or
            with lineage and record if that was by `settle`.
        captured: Is called with lineage and record when a commit was handed over.
    """

    def __init__(
        self,
        seed: int,
        open: Callable[[], Store],
        steps: int = 10,
        told: Callable[[Claim | tuple[str, ObjectId]], None] = lambda claim: None,
        captured: Callable[[tuple[str, ObjectId]], None] = lambda claim: None,
    ) -> None:
        self.expected = Expected()
        self._seed = seed
        self._chance = random.Random(seed)
        self._open = open
        self._steps = steps
        self._told = told
        self._captured = captured
        self._stores: list[Store | None] = [None, None]
        self._under_way: list[list[tuple[str, ObjectId, list[Exception]]]] = [[], []]
        self._committed: set[ObjectId] = set()
        self._count = 0

    def run(self) -> Expected:
        """The whole history; the stores are closed afterwards."""
        try:
            for _ in range(self._steps):
                self._step()
            self.expected.stuck = any(self._is_stuck(which) for which in (0, 1))
        finally:
            for which in (0, 1):
                self._close(which)
        self.expected.refused -= self._committed
        return self.expected

    def _step(self) -> None:
        which = self._chance.randrange(2)
        action = self._chance.choice(
            [
                *(self._commit, self._commit, self._commit_later, self._commit_later),
                *(self._settle, self._read, self._give_up, self._close, self._refresh),
            ]
        )
        action(which)

    def _is_stuck(self, which: int) -> bool:
        """Whether none of three more commits succeeds: one fault must not end a session."""
        if self._stores[which] is None:
            return False
        for _ in range(3):
            before = len(self.expected.settled)
            self._settle(which)
            self._commit_later(which)
            self._settle(which)
            if len(self.expected.settled) > before:
                return False
        return True

    def _store(self, which: int) -> Store | None:
        if self._stores[which] is None:
            try:
                self._stores[which] = self._open()
            except (StoreNotWritable, StoreFormatError) as exc:
                self.expected.complaints.append(str(exc))
        return self._stores[which]

    def _content(self) -> bytes:
        size = self._chance.choice(SIZES)
        # Few different ones, so that most commits find something that is there already.
        content = random.Random(self._chance.randrange(4)).randbytes(size)
        return content if self._chance.random() < 0.6 else (content[:50] * (size // 50 + 1))[:size]

    def _filled(self, store: Store) -> tuple[StoreWriter, RefBody]:
        content, number = self._content(), self._count
        self._count += 1
        lineage = self._chance.choice(LINEAGES)
        writer = store.begin()
        try:
            blob = writer.put_blob(content)
            other = writer.put_blob(self._content()[:1000])
            record = b"record %d of %d " % (number, self._seed) + blob.digest + other.digest
            oid = writer.put("record", record)
        except BaseException:
            writer.abort()
            raise
        self.expected.blobs[blob] = content
        self.expected.records[oid] = record
        self.expected.contents[oid] = blob
        return writer, RefBody(
            lineage=lineage, seq=0, source_digest=f"s{number % 3}", record=oid, created=number
        )

    def _commit(self, which: int) -> None:
        store = self._store(which)
        if store is None:
            return
        try:
            writer, body = self._filled(store)
        except StoreNotWritable as exc:
            self.expected.complaints.append(str(exc))
            return
        try:
            ref = writer.commit(body)
        except StoreNotWritable as exc:
            self.expected.complaints.append(str(exc))
            self.expected.refused.add(body.record)
            return
        self._committed.add(body.record)
        claim = (ref.body.lineage, ref.body.seq, ref.body.record)
        self.expected.acknowledged.add(claim)
        self._told(claim)

    def _commit_later(self, which: int) -> None:
        store = self._store(which)
        if store is None:
            return
        for _ in range(self._chance.randrange(1, 4)):
            try:
                writer, body = self._filled(store)
            except StoreNotWritable as exc:
                self.expected.complaints.append(str(exc))
                continue
            failures: list[Exception] = []
            writer.commit_later(body, failures.append)
            self._under_way[which].append((body.lineage, body.record, failures))
            self._captured((body.lineage, body.record))

    def _settle(self, which: int) -> None:
        store = self._stores[which]
        if store is None:
            return
        under_way, self._under_way[which] = self._under_way[which], []
        store.settle()
        for lineage, record, failures in under_way:
            if failures:
                for failure in failures:
                    if not isinstance(failure, StoreNotWritable):
                        raise failure
                self.expected.complaints += [str(failure) for failure in failures]
                self.expected.refused.add(record)
            else:
                self._committed.add(record)
                self.expected.settled.add((lineage, record))
                self._told((lineage, record))

    def _read(self, which: int) -> None:
        store = self._store(which)
        if store is None or not self.expected.blobs:
            return
        blob = self._chance.choice(list(self.expected.blobs))
        oid = self._chance.choice(list(self.expected.records))
        try:
            assert store.get_blob(blob) == self.expected.blobs[blob], "wrong bytes were read"
            assert store.get(oid) == self.expected.records[oid], "wrong bytes were read"
        except (ObjectMissing, ObjectDamaged):
            pass

    def _give_up(self, which: int) -> None:
        store = self._store(which)
        if store is None:
            return
        try:
            with store.begin() as writer:
                writer.put_blob(self._content())
        except StoreNotWritable as exc:
            self.expected.complaints.append(str(exc))

    def _refresh(self, which: int) -> None:
        store = self._store(which)
        if store is not None:
            store.refresh()
            for ref in store.refs():
                known = self.expected.records.get(ref.body.record)
                assert known is not None, "a ref was read that nobody wrote"

    def _close(self, which: int) -> None:
        self._settle(which)
        store, self._stores[which] = self._stores[which], None
        if store is not None:
            store.close()


def check_promises(
    store: Store, expected: Expected, *, damaged: bool = False, phantoms: bool = False
) -> list[str]:
    """What is wrong with a store, opened anew and without faults, after a history.

    Args:
        store: The store.
        expected: What it owes.
        damaged: Its files were damaged: objects may be unreadable, refs skipped, if it says so.
        phantoms: A commit that failed may be visible.
    """
    wrong: list[str] = []
    refs = {(r.body.lineage, r.body.seq, r.body.record): r for r in store.refs()}
    excused = damaged and bool(store.info().damaged)
    lost = expected.acknowledged - refs.keys()
    if lost and not excused:
        wrong.append(f"{len(lost)} acknowledged commits are lost")
    found = {(lineage, record) for lineage, _, record in refs}
    if expected.settled - found and not excused:
        wrong.append(f"{len(expected.settled - found)} settled commits are lost")
    if len(found) < len(refs):
        wrong.append("a commit is visible under two numbers")
    for claim, ref in refs.items():
        record = expected.records.get(ref.body.record)
        if record is None:
            wrong.append(f"ref {claim} was never written")
        elif not ref.trusted:
            wrong.append(f"ref {claim} is not trusted")
        elif not phantoms and ref.body.record in expected.refused:
            wrong.append(f"the commit of ref {claim} had failed")
        if record is not None:
            wrong += _misread(store, ref.body.record, expected, damaged)
    if not damaged:
        wrong += store.info().damaged
    return wrong


def _misread(store: Store, oid: ObjectId, expected: Expected, damaged: bool) -> list[str]:
    wrong = []
    blob = expected.contents[oid]
    try:
        if store.get(oid) != expected.records[oid]:
            wrong.append(f"record {oid.hex()[:8]} has other bytes")
        if store.get_blob(blob) != expected.blobs[blob]:
            wrong.append(f"a blob of {blob.size} bytes has other bytes")
    except (ObjectMissing, ObjectDamaged) as exc:
        if not damaged:
            wrong.append(f"not readable: {exc}")
    except (NBRewindError, OSError) as exc:
        wrong.append(f"{type(exc).__name__} while reading: {exc}")
    return wrong
