"""`nbrewind store check`: reads everything, lists all damage, and moves it out of the way.

A repair loses nothing that can still be read: what is right in a damaged pack is
written to a new pack before the old one goes to `quarantine/`. It may run while
others write.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Iterable

import msgspec

from nbrewind.errors import ObjectDamaged, ObjectMissing, StoreNotWritable
from nbrewind.model.blobs import ObjectId
from nbrewind.store import codec, durable
from nbrewind.store.abc import Kind
from nbrewind.store.catalog import Location, pack_place
from nbrewind.store.leaves import flat
from nbrewind.store.local import LocalStore
from nbrewind.store.losses import note_lost, read_lost
from nbrewind.store.marking import Reach
from nbrewind.store.pack_writer import PackWriter
from nbrewind.store.packs import KINDS, is_framed, scan
from nbrewind.store.session import make_session

_log = logging.getLogger(__name__)

_BEING_WRITTEN_SECONDS = 3600
"""Where hard links are refused, a ref looks torn while it is written."""


class CheckReport(msgspec.Struct, kw_only=True):
    """What a check found and a repair did."""

    packs: int
    """Packs read, damaged ones included."""
    objects: int
    """Objects of which at least one copy is right."""
    damage: list[str]
    """A sentence about each pack, object or ref that is damaged, and each record that is lost."""
    quarantined: list[str] = []
    """Files that a repair moved aside."""
    salvaged: int = 0
    """Objects that a repair wrote anew."""

    lost: int = 0
    """Objects that a repair noted as lost; they are not listed as damage again."""

    @property
    def sound(self) -> bool:
        """Nothing is damaged."""
        return not self.damage


def check_store(store: LocalStore, *, repair: bool = False) -> CheckReport:
    """Read and verify every object and ref of a store.

    Args:
        store: An opened store.
        repair: Move damaged files to `quarantine/`, after writing what is right in them anew.

    Raises:
        StoreNotWritable: a repair was asked for and the store cannot be written.
    """
    if repair and store.read_only:
        raise StoreNotWritable(f"{store.location} was opened read-only: it cannot be repaired")
    packs, unreadable = store.packs()
    damage = [*unreadable.values()]
    good: set[ObjectId] = set()
    doomed: dict[ObjectId, list[Location]] = {
        pack: _scanned(store.pack_path(pack), pack) for pack in unreadable
    }
    for pack, places in packs.items():
        wrong = [why for place in places if (why := _wrong(store, place, good))]
        if not wrong and not _is_framed(store.pack_path(pack), places):
            wrong = [
                f"the pack {store.pack_path(pack)} is damaged between its objects, which are right"
            ]
        damage += wrong
        if wrong:
            # In the order of the file, so that one which can be healed whole gets its name back.
            doomed[pack] = sorted(places, key=lambda place: place.entry.offset)
    damage += store.unseen()
    refs = store.damaged_refs()
    damage += refs.values()
    records = {ref.body.record for ref in store.refs()}
    damage += [
        f"the record of ref {ref.body.lineage}/{ref.body.seq} is lost"
        for ref in store.refs()
        if ref.body.record not in good
    ]
    damage += [
        f"object {oid.hex()[:16]} is missing: a record needs it"
        for oid in sorted(_missing(store, good) - read_lost(store.location) - records)
    ]
    report = CheckReport(packs=len(packs) + len(unreadable), objects=len(good), damage=damage)
    if repair:
        with durable.writing(store.location):
            report.salvaged, healed = _salvage(store, doomed)
            for pack in healed:
                del doomed[pack]
            _quarantine(store.location, map(store.pack_path, doomed), report)
            _quarantine(store.location, filter(_is_old, refs), report)
            store.refresh()
            # Collections go on once it is known what was lost, and that it was not garbage.
            there = {p.entry.oid for places in store.packs()[0].values() for p in places}
            lost = _missing(store, there) - read_lost(store.location)
            if lost and not store.unseen():
                note_lost(store.location, lost)
                report.lost = len(lost)
        store.refresh()
    return report


def _missing(store: LocalStore, there: set[ObjectId]) -> set[ObjectId]:
    """What the store's records need and what is not among these objects."""
    kinds: dict[ObjectId, Kind] = {
        place.entry.oid: KINDS[place.entry.kind - 1]
        for places in store.packs()[0].values()
        for place in places
        if place.entry.oid in there
    }
    reach = Reach()
    reach.follow((ref.body.record for ref in store.refs()), kinds.get, store.get)
    return reach.missing


def _scanned(path: str, pack: ObjectId) -> list[Location]:
    try:
        return [Location(pack, entry) for entry in scan(path)]
    except OSError as exc:
        _log.warning("nothing can be salvaged from %s: %s", path, exc)
        return []


def _is_framed(path: str, places: list[Location]) -> bool:
    try:
        return is_framed(path, [place.entry for place in places])
    except OSError as exc:
        _log.warning("not looked at: %s", exc)
        return True


def _wrong(store: LocalStore, place: Location, good: set[ObjectId]) -> str:
    try:
        store.read_copy(place)
    except (ObjectDamaged, ObjectMissing) as exc:
        return str(exc)
    good.add(place.entry.oid)
    return ""


def _salvage(
    store: LocalStore, doomed: dict[ObjectId, list[Location]]
) -> tuple[int, list[ObjectId]]:
    """Write what is right in these packs to new ones, durably.

    Returns:
        The number of objects written, and the packs that were replaced because all in them was
        right but their index.
    """
    count = 0
    healed: list[ObjectId] = []
    session = make_session(os.path.join(store.location, "tmp"))
    try:
        for number, (pack, places) in enumerate(doomed.items()):
            writer = PackWriter(os.path.join(session, f"{number}.pack"))
            kept: set[ObjectId] = set()
            for place in places:
                if place.entry.oid in kept:
                    continue
                try:
                    content = flat(store.read_copy(place))
                except (ObjectDamaged, ObjectMissing) as exc:
                    _log.info("not salvaged: %s", exc)
                    continue
                entry = place.entry
                # As it was, so that a pack of which all is right gets its name back.
                how, payload = codec.encode_as(entry.codec, content)
                writer.add(entry.kind, how, payload, content.nbytes, entry.oid)
                writer.settle()
                kept.add(entry.oid)
            if not kept:
                writer.close()
                durable.discard(writer.path)
                continue
            name, index = writer.finish()
            folder, file = pack_place(name)
            folder = os.path.join(store.location, "packs", folder)
            durable.make_directory(folder)
            os.rename(writer.path, os.path.join(folder, file))
            durable.sync_directory(folder)
            store.pack_written(name, index)
            count += len(kept)
            if name == pack:
                healed.append(pack)
    finally:
        for left in os.listdir(session):
            durable.discard(os.path.join(session, left))
        os.rmdir(session)
    return count, healed


def _quarantine(root: str, paths: Iterable[str], report: CheckReport) -> None:
    for path in paths:
        aside = f"{uuid.uuid4().hex[:8]}-{os.path.basename(os.path.dirname(path))}"
        target = os.path.join(root, "quarantine", f"{aside}-{os.path.basename(path)}")
        os.rename(path, target)
        report.quarantined.append(target)


def _is_old(path: str) -> bool:
    return time.time() - os.stat(path).st_mtime > _BEING_WRITTEN_SECONDS
