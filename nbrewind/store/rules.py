"""The rules of garbage collection: its decisions, without any input or output.

A store loses data when a collector and a writer disagree about what is needed. These
functions are all that either of them decides by; the collector (`nbrewind.store.gc`),
the sessions (`nbrewind.store.leases`, `nbrewind.store.validation`) and the model that
tries random interleavings (`tests/store/gc_model.py`) call the same ones.

A session, for each commit:

1. `begin`: acknowledge the newest epoch in the lease, again if there is a newer one after
   that; rely on no pack that it condemns;
2. `put`: leave out what a pack that may be relied on has;
3. `hold_packs`: name the packs it is about to add, and what its values are in, in the lease;
4. `name_packs`, 5. `publish` the ref;
6. `validate`: if it was fenced, the epoch changed, or a pack it added has the name of a condemned
   one (packs are named by their objects), what the record needs is copied out of
   condemned packs and trash; if something is nowhere, the ref is taken back;
7. `acknowledge` the commit, and `release` the epoch: a lease without a commit in flight is in
   nobody's way.

A collector, in each run:

1. `list_packs`; 2. `read_leases`, and `fence` those that have expired; 3. `mark` from the
   refs and what leases hold, in this order;
4. `copy_live`: what is live and in no pack that stays is copied to new packs, and so is what
   can be read faster from one. Packs for the latter stay in this run, like those of commits;
5. `remove`: packs condemned in an epoch that all leases have acknowledged go to trash;
6. `condemn`: a new epoch names the packs that are to go next. Condemned is for ever: a pack
   that turns out to be needed is copied, so nobody has to know who decided last;
7. `purge` what has been in trash long enough.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

P = TypeVar("P", bound=Hashable)
O = TypeVar("O", bound=Hashable)  # noqa: E741


@dataclass(frozen=True, slots=True)
class Sighting:
    """A lease as an observer saw it."""

    counter: int
    """Grows whenever the session renews its lease."""
    observer: str
    """Whose clock `at` is of: host and boot."""
    at: float
    """Seconds of the observer's monotonic clock."""


def is_expired(before: Sighting | None, now: Sighting, patience: float) -> bool:
    """Whether a lease was not renewed while one observer watched for `patience` seconds.

    No two clocks are compared: what another observer saw says nothing.
    """
    return (
        before is not None
        and before.observer == now.observer
        and before.counter == now.counter
        and now.at - before.at >= patience
    )


def first_sighting(before: Sighting | None, now: Sighting) -> Sighting:
    """Since when one observer has seen a lease unchanged."""
    if before and before.observer == now.observer and before.counter == now.counter:
        return before
    return now


def acknowledges(in_flight: Iterable[int]) -> int | None:
    """The epoch that a lease acknowledges, given those its commits in flight are bound by.

    None is all of them, also future ones: without a commit in flight it relies on no pack.
    """
    return min(in_flight, default=None)


def must_validate(began: int, newest: int, *, fenced: bool, doubtful: bool) -> bool:
    """Whether a commit may rely on packs that are condemned.

    Args:
        began: The epoch it is bound by.
        newest: The newest epoch, read after its ref was visible.
        fenced: Its session counted as gone for a while.
        doubtful: A pack that it relies on or has added is condemned, or not there.
    """
    return fenced or doubtful or newest != began


def may_remove(condemned_in: int, acknowledged: Iterable[int | None], waited: bool) -> bool:
    """Whether a condemned pack can go, given what all leases that stand acknowledge.

    Args:
        condemned_in: The epoch that condemned it.
        acknowledged: The epoch each lease acknowledges.
        waited: The time of grace is over. A margin only: clocks may be wrong.
    """
    return waited and all(epoch is None or epoch >= condemned_in for epoch in acknowledged)


@dataclass(frozen=True, slots=True)
class Choice(Generic[P, O]):
    """What becomes of packs."""

    stay: frozenset[P]
    condemn: frozenset[P]
    copy: Mapping[P, frozenset[O]]
    """By pack: live objects that no pack that stays has."""


def choose(
    packs: Mapping[P, Mapping[O, int]],
    live: Collection[O],
    *,
    condemned: Collection[P],
    held: Collection[P],
    bound: float,
    small: Collection[P] = (),
) -> Choice[P, O]:
    """Decide which packs stay: each live object in one of them, little else in any.

    Args:
        packs: The objects of each pack, with their bytes.
        live: Objects that something needs.
        condemned: Packs that cannot stay, but may have what is live.
        held: Packs that stay, those of commits in flight for instance.
        bound: A pack is worth keeping from this share of bytes that no better pack has.
        small: Packs that are not worth keeping unless they are held.
    """
    useful = {
        pack: {oid: size for oid, size in objects.items() if oid in live}
        for pack, objects in packs.items()
    }
    total = {pack: sum(objects.values()) for pack, objects in packs.items()}
    stay = {pack for pack in packs if pack in held and pack not in condemned}
    covered = {oid for pack in stay for oid in useful[pack]}
    # Large packs with nothing else first: what is in several packs stays where it lies best.
    rest = sorted(
        (pack for pack in packs if pack not in stay and pack not in condemned),
        key=lambda p: (sum(useful[p].values()) / max(1, total[p]), total[p], p),
        reverse=True,
    )
    for pack in rest:
        new = sum(size for oid, size in useful[pack].items() if oid not in covered)
        if new and pack not in small and new >= bound * total[pack]:
            stay.add(pack)
            covered.update(useful[pack])
    copy: dict[P, frozenset[O]] = {}
    for pack in [*rest, *(p for p in packs if p in condemned)]:
        if pack not in stay and (left := useful[pack].keys() - covered):
            copy[pack] = frozenset(left)
            covered |= left
    gone = frozenset(p for p in packs if p not in stay and p not in condemned)
    return Choice(stay=frozenset(stay), condemn=gone, copy=copy)
