"""Garbage collection: removes what no ref, pin or session needs, and nothing else.

One run does the steps of a collector in `nbrewind.store.rules`, in their order, and decides
by the functions there. A pack goes in two runs at least: one condemns it, one after the time
of grace moves it to `trash/`, where readers still find what is in it; after some more time
it is purged. A run that finds anything missing or damaged changes nothing: it might take for
garbage what it failed to read.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from nbrewind.errors import NotCollected, ObjectDamaged, ObjectMissing, StoreNotWritable
from nbrewind.model.blobs import ObjectId
from nbrewind.store import config, durable, leases, rules
from nbrewind.store.abc import Kind
from nbrewind.store.catalog import Location, pack_place
from nbrewind.store.copying import copy_objects
from nbrewind.store.epochs import Condemned, Epoch, Seen, store_time
from nbrewind.store.leases import Flight, Lease
from nbrewind.store.local import LocalStore
from nbrewind.store.locality import likely_values, together
from nbrewind.store.losses import read_lost
from nbrewind.store.marking import Reach
from nbrewind.store.packs import HEAD, KINDS
from nbrewind.store.pins import read_pins
from nbrewind.store.session import is_alive, observer_name
from nbrewind.store.trash import TRASH, move_to_trash, purge_refs
from nbrewind.store.validation import kinds_in

_log = logging.getLogger(__name__)

DAY = 24 * 3600.0


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a collection waits; seconds. Margins: what is safe does not depend on them."""

    grace: float = 14 * DAY
    """From condemning a pack to moving it to trash."""
    trash: float = 7 * DAY
    """From moving it there to purging it."""
    lease: float = DAY
    """That a lease must have been seen unchanged until its session counts as gone."""


BOUND = 0.5
"""Packs with a smaller share of live bytes are rewritten."""
SMALL_BYTES = 1024 * 1024
"""Packs that are smaller are merged once they are many."""
MANY = 64
"""Small packs that are left alone: a file system keeps some hundred bytes for each file, and
whoever opens the store looks at each."""


class Collected(msgspec.Struct, kw_only=True):
    """What a collection did, or would do."""

    applied: bool
    packs: int = 0
    """Packs that stay."""
    live_objects: int = 0
    live_bytes: int = 0
    condemned: int = 0
    """Packs that go next."""
    condemned_bytes: int = 0
    copied: int = 0
    """Live objects written to new packs, because theirs go."""
    merged: int = 0
    """Packs that go because they are small and many."""
    gathered: int = 0
    """Objects that got another copy, because the values they are part of were slow to read."""
    trashed: int = 0
    """Packs moved to trash."""
    trashed_bytes: int = 0
    purged: int = 0
    """Packs removed for good."""
    purged_bytes: int = 0
    waiting: int = 0
    """Packs condemned before that still have to wait."""
    sessions: list[str] = []
    """Sessions at work whose values are kept."""
    fenced: list[str] = []
    """Sessions that count as gone."""


def collect(
    store: LocalStore,
    *,
    apply: bool = False,
    patience: Patience | None = None,
    bound: float = BOUND,
) -> Collected:
    """Find garbage, and with `apply` take the next step to be rid of it.

    Args:
        store: An opened store.
        apply: Change something; the store must not be read-only.
        patience: How long to wait; without grace, both steps are taken at once.
        bound: Packs with a smaller share of live bytes are rewritten.

    Raises:
        NotCollected: something is missing or damaged, or cannot be understood.
        StoreNotWritable: the store cannot be written, or another collection is at work.
    """
    patience = patience or Patience()
    if not apply:
        return _Run(store, None, patience, bound).report
    if store.read_only:
        raise StoreNotWritable(f"{store.location} was opened read-only: nothing can be removed")

    def take_a_step() -> Collected:
        with _flight(store) as flight:
            return _Run(store, flight, patience, bound).report

    with durable.writing(store.location):
        config.raise_format(store.location)
        leases.remove_dead(store.location)
        total = take_a_step()
        for soon in (patience.grace, patience.trash):
            if soon == 0 and (total.condemned or total.trashed or total.waiting):
                _add(total, take_a_step())
    return total


@contextmanager
def _flight(store: LocalStore) -> Iterator[Flight]:
    """The packs that a collector copies to are held like those of a commit."""
    flight = store.lease.begin()
    try:
        yield flight
    finally:
        flight.end()


def _add(total: Collected, later: Collected) -> None:
    for name in (
        *("condemned", "condemned_bytes", "copied", "merged", "gathered"),
        *("trashed", "trashed_bytes"),
    ):
        setattr(total, name, getattr(total, name) + getattr(later, name))
    total.purged += later.purged
    total.purged_bytes += later.purged_bytes
    total.packs, total.waiting = later.packs, later.waiting


class _Run:
    """One run; with a flight it changes the store."""

    def __init__(
        self, store: LocalStore, flight: Flight | None, patience: Patience, bound: float
    ) -> None:
        self._store = store
        self._root = store.location
        self._flight = flight
        self._patience = patience
        self._epoch = store.epochs.newest()
        self._now = time.time() if flight is None else store_time(self._root)
        self.report = Collected(applied=flight is not None)
        self._list_packs()
        standing = self._read_leases()
        self._mark(standing)
        self._held = {pack for lease in standing.values() for pack in lease.packs}
        self._condemned = {*self._epoch.condemned, *self._trash.keys() - self._packs.keys()}
        self._bound = bound
        self._choose()
        due = self._due(standing)
        self._tell(due)
        if flight is not None:
            self._copy_live(flight)
            self._remove(due)
            self._condemn(due)
            self._purge()
            store.refresh()

    def _list_packs(self) -> None:
        """Before anything else: a pack that appears later is none of this run's business."""
        self._packs, damaged = self._store.packs()
        self._trash = self._store.trashed_packs()
        problems = [*damaged.values(), *self._store.damaged_refs().values()]
        _refuse(problems)
        self._sizes = {p: _sizes(places) for p, places in {**self._trash, **self._packs}.items()}
        self._places = {
            place.entry.oid: place
            for packs in (self._trash, self._packs)
            for places in packs.values()
            for place in places
        }

    def _read_leases(self) -> dict[str, Lease]:
        """The leases that stand; those that have expired are fenced first."""
        found = leases.read_leases(self._root)
        observer, at = observer_name(), time.monotonic()
        self._seen: dict[str, Seen] = {}
        expired: list[str] = []
        for name, lease in found.items():
            before = self._epoch.seen.get(name)
            sighting = before.sighting() if before else None
            now = rules.Sighting(lease.counter, observer, at)
            if rules.is_expired(sighting, now, self._patience.lease) and not is_alive(name):
                expired.append(name)
            first = rules.first_sighting(sighting, now)
            self._seen[name] = Seen(first.counter, first.observer, first.at)
        vouched = {v for name in found.keys() - set(expired) for v in found[name].vouches}
        for name in expired:
            if name not in vouched:
                if self._flight is not None:
                    leases.fence(self._root, name)
                self.report.fenced.append(name)
                del found[name]
        return found

    def _mark(self, standing: Mapping[str, Lease]) -> None:
        """After the leases: a commit that has ended since then has left a ref."""
        store = self._store
        store.refresh()
        _refuse([*store.damaged_refs().values(), *store.unseen()])
        reach = Reach()
        added = kinds_in(store)  # since the packs were listed

        def kind_of(oid: ObjectId) -> Kind | None:
            place = self._places.get(oid)
            if place is not None:
                return KINDS[place.entry.kind - 1]
            return added(oid)

        reach.follow((ref.body.record for ref in store.refs()), kind_of, store.get)
        missing = reach.missing - read_lost(self._root)
        _refuse(
            [
                *reach.problems,
                *(f"object {oid.hex()[:16]} is missing" for oid in sorted(missing)),
            ]
        )
        # What sessions and pins hold is kept if it is there; nobody is promised that it is.
        held = {oid for lease in standing.values() for oid in lease.holds}
        held.update(pin.record for pin in read_pins(self._root))
        reach.follow((oid for oid in held if kind_of(oid)), kind_of, store.get)
        _refuse(reach.problems)
        self._live = reach.there

    def _choose(self) -> None:
        """Which packs stay; what makes reading slow is put together first."""
        self._gather(self._choice_of().stay)
        self._needed = self._choice = self._choice_of()
        small = {p for p in self._needed.stay if self._bytes([p]) < SMALL_BYTES} - self._held
        if len(small) > MANY:
            self._choice = self._choice_of(small)
            self.report.merged = len(small - self._choice.stay)

    def _choice_of(self, small: Collection[ObjectId] = ()) -> rules.Choice[ObjectId, ObjectId]:
        return rules.choose(
            self._sizes,
            self._live,
            condemned=self._condemned,
            held=self._held,
            bound=self._bound,
            small=small,
        )

    def _gather(self, stay: frozenset[ObjectId]) -> None:
        """Hold packs that make values fast to read, and with a flight, write such packs."""
        standing = self._packs.keys() - self._condemned
        copies: dict[ObjectId, list[Location]] = {}
        for pack in [*standing, *self._packs.keys() - standing, *self._trash]:
            for place in self._packs.get(pack) or self._trash[pack]:
                if pack in standing or place.entry.oid not in copies:
                    copies.setdefault(place.entry.oid, []).append(place)
        wanted = together(
            likely_values(self._store),
            lambda oid: copies.get(oid, ()),
            stay,
            {pack: self._bytes([pack]) for pack in self._sizes},
            bound=self._bound,
        )
        self._held |= wanted.keep
        self.report.gathered = len(wanted.copy)
        if self._flight is None or not wanted.copy:
            return
        try:
            packs = self._copy(self._flight, wanted.copy)
        except OSError as problem:
            self._not_rewritten(problem)
            self.report.gathered = 0
            return
        written = self._store.packs()[0]
        for pack in packs:
            self._packs[pack] = written[pack]
            self._sizes[pack] = _sizes(written[pack])
        self._held.update(packs)

    def _copy(self, flight: Flight, places: list[Location]) -> list[ObjectId]:
        try:
            return copy_objects(self._store, flight.session, places, flight.hold_packs)
        except (ObjectDamaged, ObjectMissing) as problem:
            _refuse([str(problem)])
            raise

    def _not_rewritten(self, problem: OSError) -> None:
        _log.warning("nothing was rewritten to be faster to read: %s", problem)

    def _due(self, standing: Mapping[str, Lease]) -> list[ObjectId]:
        """Condemned packs that can go now."""
        acknowledged = [lease.epoch for lease in standing.values()]
        return [
            pack
            for pack, state in self._epoch.condemned.items()
            if pack in self._packs
            and rules.may_remove(
                state.epoch, acknowledged, self._now - state.since >= self._patience.grace
            )
        ]

    def _tell(self, due: list[ObjectId]) -> None:
        report, own = self.report, os.path.basename(self._flight.session) if self._flight else ""
        report.packs = len(self._choice.stay)
        report.live_objects = len(self._live)
        report.live_bytes = sum(
            self._places[oid].entry.stored for oid in self._live if oid in self._places
        )
        report.condemned = len(self._choice.condemn)
        report.condemned_bytes = self._bytes(self._choice.condemn)
        report.copied = sum(map(len, self._choice.copy.values()))
        report.trashed, report.trashed_bytes = len(due), self._bytes(due)
        waiting = self._epoch.condemned.keys() & self._packs.keys()
        report.waiting = len(waiting) - len(due)
        report.sessions = sorted(name for name in self._seen if not own or not name.startswith(own))

    def _bytes(self, packs: frozenset[ObjectId] | list[ObjectId]) -> int:
        return sum(sum(self._sizes[pack].values()) for pack in packs)

    def _copy_live(self, flight: Flight) -> None:
        try:
            self._copy_chosen(flight)
        except OSError as problem:
            if self._choice == self._needed:
                raise
            # On a full disk, what is not needed can still go.
            self._not_rewritten(problem)
            self._choice, self.report.merged = self._needed, 0
            self._copy_chosen(flight)

    def _copy_chosen(self, flight: Flight) -> None:
        """In the order in which the records were made: what is young is read most."""
        age = {pack: n for n, ref in enumerate(self._store.refs()) for pack in ref.body.objects}
        places = [
            place
            for pack in sorted(self._choice.copy, key=lambda pack: -age.get(pack, len(age)))
            for place in sorted(
                self._packs.get(pack) or self._trash[pack], key=lambda p: p.entry.offset
            )
            if place.entry.oid in self._choice.copy[pack]
        ]
        if places:
            self._copy(flight, places)

    def _remove(self, due: list[ObjectId]) -> None:
        for pack in due:
            if self._store.epochs.newest().number != self._epoch.number:
                raise StoreNotWritable(
                    f"another collection is at work in {self._root}: run this one again"
                )
            move_to_trash(self._root, pack)
        if due:
            self._store.refresh()

    def _condemn(self, due: list[ObjectId]) -> None:
        number = self._store.epochs.free_number()
        after: dict[ObjectId, Condemned] = {}
        for pack in {*self._epoch.condemned, *self._trash}:
            state = self._epoch.condemned.get(pack) or Condemned(number, self._now)
            if pack in due or (pack in self._trash and state.trashed is None):
                state = msgspec.structs.replace(state, trashed=self._now)
            if pack in self._packs or pack in self._trash:
                after[pack] = state
        after |= {pack: Condemned(number, self._now) for pack in self._choice.condemn}
        self._after = after
        if after == dict(self._epoch.condemned) and self._seen == dict(self._epoch.seen):
            return
        self._store.epochs.publish(Epoch(number=number, condemned=after, seen=self._seen))

    def _purge(self) -> None:
        """Only what was in trash before the mark: it has been looked through."""
        for pack in self._trash:
            trashed = self._after[pack].trashed
            if trashed is not None and self._now - trashed >= self._patience.trash:
                self.report.purged += 1
                self.report.purged_bytes += self._bytes([pack])
                durable.discard(os.path.join(self._root, TRASH, *pack_place(pack)))
        purge_refs(self._root, self._now - self._patience.trash)


def _sizes(places: list[Location]) -> dict[ObjectId, int]:
    return {place.entry.oid: place.entry.stored + HEAD.size for place in places}


def _refuse(problems: list[str]) -> None:
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise NotCollected(
            f"nothing is collected while something is missing or damaged: {problems[0]}{more}; "
            "see `nbrewind store check`, then `nbrewind store check --repair`"
        )
