"""What a commit does after its ref is visible: it makes sure that nothing it needs can go.

A collection that looked before the ref was visible may have condemned what the commit
relies on, and one that took the session for gone may have removed it. Whoever finds an
epoch that is not the one it began in, or that it was fenced, looks at everything its
record leads to, and copies what is at risk while it is there: in a condemned pack, or in
trash.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from nbrewind.errors import StoreNotWritable
from nbrewind.model.blobs import ObjectId
from nbrewind.store import rules
from nbrewind.store.abc import Kind
from nbrewind.store.copying import copy_objects
from nbrewind.store.marking import Reach
from nbrewind.store.packs import KINDS

if TYPE_CHECKING:
    from nbrewind.store.leases import Flight
    from nbrewind.store.local import LocalStore

_log = logging.getLogger(__name__)


def validate(
    store: LocalStore, flight: Flight, record: ObjectId, relies_on: Iterable[ObjectId]
) -> None:
    """Make sure that a commit whose ref is visible will stay whole.

    Args:
        store: The store.
        flight: The commit.
        record: What its ref names.
        relies_on: Its packs, and those with objects that it did not add, as whoever prepared it
            saw them.

    Raises:
        StoreNotWritable: something it needs was removed: the ref must be taken back.
        OSError: what is at risk cannot be copied; the same.
    """
    since = flight.began
    fenced = store.lease.is_fenced(flight)
    doubtful = not all(_is_there(store, pack) for pack in relies_on)
    while True:
        newest = store.epochs.newest().number
        if not rules.must_validate(since, newest, fenced=fenced, doubtful=doubtful):
            return
        since, doubtful = newest, False
        if store.lease.is_fenced():
            store.lease.renew()
            secure(store, store.lease.holds, store.lease.keep_packs)
        missing = secure(store, [record], flight.hold_packs)
        if missing:
            raise StoreNotWritable(
                f"{len(missing)} objects that this commit relies on were removed from "
                f"{store.location} while it was being made: run the cell again"
            )
        fenced = store.lease.is_fenced()


def secure(
    store: LocalStore, roots: Iterable[ObjectId], named: Callable[[list[ObjectId]], None]
) -> set[ObjectId]:
    """Copy whatever these objects lead to out of packs that are to go.

    Args:
        store: The store.
        roots: Objects that are needed.
        named: Called with the names of packs before they become visible: they must be held.

    Returns:
        Objects that are needed and nowhere to be found.

    Raises:
        StoreError: one of them cannot be read.
        OSError: they cannot be written.
    """
    store.refresh()
    store.follow_epochs(look=True)

    reach = Reach()
    reach.follow(roots, kinds_in(store), lambda oid: store.read_copy(store.copies_of(oid)[0]))
    for problem in reach.problems:
        _log.info("not followed: %s", problem)
    copies = [store.copies_of(oid) for oid in reach.there]
    at_risk = [each[0] for each in copies if not any(store.is_staying(c.pack) for c in each)]
    if at_risk:
        at_risk.sort(key=lambda place: (place.pack, place.entry.offset))
        _log.info("%d objects are copied out of packs that are to go", len(at_risk))
        copy_objects(store, store.session_directory(), at_risk, named)
    return reach.missing


def kinds_in(store: LocalStore) -> Callable[[ObjectId], Kind | None]:
    """Tells the kind of each object of which there is a copy, in trash perhaps."""

    def kind_of(oid: ObjectId) -> Kind | None:
        copies = store.copies_of(oid)
        return KINDS[copies[0].entry.kind - 1] if copies else None

    return kind_of


def _is_there(store: LocalStore, pack: ObjectId) -> bool:
    return not store.is_condemned(pack) and os.path.exists(store.pack_path(pack))
