"""Taking back a prune: records whose refs are in trash, and how they return.

To a collector a ref that returns is the end of a commit like any other (see
`nbrewind.store.validation`): its packs are named in the lease, and once it is visible
everything it needs is copied out of packs that are to go.
"""

from __future__ import annotations

import os

import msgspec

from nbrewind.errors import ObjectDamaged, ObjectMissing, StoreNotWritable
from nbrewind.model.refs import RefBody
from nbrewind.store import durable, refs
from nbrewind.store.local import LocalStore
from nbrewind.store.marking import Reach
from nbrewind.store.publish import create_exclusively, links_refused
from nbrewind.store.trash import TrashedRef, trashed_refs
from nbrewind.store.validation import kinds_in, validate


class PrunedRef(msgspec.Struct, frozen=True, kw_only=True):
    """A record that is in trash."""

    body: RefBody
    trashed: TrashedRef
    missing: int
    """Objects it needs that are gone for good: it cannot be restored if there are any."""


def pruned_refs(store: LocalStore) -> list[PrunedRef]:
    """The records in trash that the store has not, newest first; what cannot be read is left out.

    Raises:
        OSError: trash cannot be listed.
    """
    store.refresh()
    there = {(ref.body.lineage, ref.body.seq) for ref in store.refs()}
    found: dict[refs.Place, PrunedRef] = {}
    for trashed in trashed_refs(store.location):
        if trashed.place in there:
            continue
        try:
            body, _ = refs.decode(_content(trashed), *trashed.place)
        except (OSError, ObjectDamaged):
            continue
        found[trashed.place] = PrunedRef(
            body=body, trashed=trashed, missing=len(_reach(store, body).missing)
        )
    return sorted(found.values(), key=lambda one: one.body.created, reverse=True)


def restore(store: LocalStore, pruned: PrunedRef) -> None:
    """Make a record in trash part of the store again, durably.

    Raises:
        ObjectMissing: something it needs is gone; it stays in trash.
        StoreNotWritable: the store cannot be written, or another record has its number.
    """
    body = pruned.body
    if store.read_only:
        raise StoreNotWritable(f"{store.location} was opened read-only: nothing can be restored")
    with durable.writing(store.location):
        flight = store.lease.begin()
        try:
            store.follow_epochs(look=True)
            reach = _reach(store, body)
            if reach.missing or reach.problems:
                raise ObjectMissing(
                    f"{body.lineage}/{body.seq} cannot be restored: {len(reach.missing)} objects "
                    "that it needs were removed for good; run its cell again"
                )
            relies_on = {place.pack for oid in reach.there for place in store.copies_of(oid)[:1]}
            path = _publish(store, pruned)
            try:
                validate(store, flight, body.record, relies_on)
            except BaseException:
                durable.discard(path)
                raise
            durable.discard(pruned.trashed.path)
        finally:
            flight.end()
    store.refresh()


def _publish(store: LocalStore, pruned: PrunedRef) -> str:
    lineage, seq = pruned.trashed.place
    folder = os.path.join(store.location, "refs", refs.check_lineage(lineage))
    durable.make_directory(folder)
    path = os.path.join(folder, refs.file_name(seq))
    try:
        os.link(pruned.trashed.path, path)
    except OSError as problem:
        if not durable.same_file(pruned.trashed.path, path) and not (
            links_refused(problem) and create_exclusively(path, _content(pruned.trashed))
        ):
            if isinstance(problem, FileExistsError) or links_refused(problem):
                raise StoreNotWritable(
                    f"{lineage}/{seq} cannot be restored: another record has its number"
                ) from problem
            raise
    durable.sync_directory(folder)
    return path


def _content(trashed: TrashedRef) -> bytes:
    with open(trashed.path, "rb") as file:
        return file.read()


def _reach(store: LocalStore, body: RefBody) -> Reach:
    reach = Reach()
    reach.follow([body.record], kinds_in(store), store.get)
    return reach
