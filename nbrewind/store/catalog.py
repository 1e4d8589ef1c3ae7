"""Where each object is: the indexes of all packs, loaded no earlier than needed.

A record's pack is named by its ref, so the usual lookup reads one footer. The first
object that is found in no loaded pack brings in the rest, from index segments where
there are some and from the packs' own footers otherwise.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from nbrewind.errors import ObjectDamaged
from nbrewind.model.blobs import ObjectId
from nbrewind.store import segments
from nbrewind.store.durable import discard
from nbrewind.store.listing import Listing
from nbrewind.store.packs import ENTRY, Entry, entry_at, read_index
from nbrewind.store.segments import Segment

_log = logging.getLogger(__name__)

SEGMENT_PACKS = 64
"""Packs without a segment from which one is written."""
PACK_SUFFIX = ".pack"


class Location(NamedTuple):
    """One copy of an object."""

    pack: ObjectId
    entry: Entry


def pack_place(name: ObjectId) -> tuple[str, str]:
    """Folder and file name of a pack below `packs/`."""
    text = name.hex()
    return text[:2], text + PACK_SUFFIX


class Catalog:
    """The objects of a store.

    Not thread-safe: the store serialises access.
    """

    def __init__(self, root: str, *, read_only: bool) -> None:
        self._packs = os.path.join(root, "packs")
        self._idx = os.path.join(root, "idx")
        self._read_only = read_only
        self._trash = os.path.join(root, "trash")
        self._listing = Listing(self._packs, PACK_SUFFIX)
        self._trash_listing = Listing(self._trash, PACK_SUFFIX)
        self._on_disk: set[ObjectId] = set()
        self._in_trash: set[ObjectId] = set()
        self._complete = False
        self._indexes: dict[ObjectId, bytes] = {}
        self._places: dict[ObjectId, list[tuple[ObjectId, int]]] = {}
        self._segments: dict[str, Segment] = {}
        self._in_segments: set[ObjectId] = set()
        self._useless: set[str] = set()
        self._bad: set[tuple[ObjectId, ObjectId]] = set()
        self._unreadable: set[tuple[ObjectId, ObjectId]] = set()
        self.damaged: dict[ObjectId, str] = {}
        """Packs that were skipped, with a sentence about why."""

    def path(self, pack: ObjectId) -> str:
        """The file of a pack."""
        is_trash = pack in self._in_trash and pack not in self._on_disk
        return os.path.join(self._trash if is_trash else self._packs, *pack_place(pack))

    def is_standing(self, pack: ObjectId) -> bool:
        """Whether a pack is part of the store, as far as is known: not gone, not in trash."""
        return pack in self._on_disk

    def stale(self) -> None:
        """Packs may have appeared or disappeared since the last look."""
        self._complete = False
        self._unreadable.clear()

    def locate(self, oid: ObjectId, hints: Iterable[ObjectId] = ()) -> list[Location]:
        """All copies of an object that are not known to be damaged; those in trash if none else.

        Args:
            oid: The object.
            hints: Packs in which it probably is.
        """
        found = self._known(oid)
        if found and (self._complete or found[0].pack in self._on_disk):
            return found
        for pack in hints:
            if pack not in self._indexes and pack not in self.damaged:
                self._load(pack)
        found = self._known(oid)
        if not self._complete and not (found and found[0].pack in self._on_disk):
            self.complete()
            found = self._known(oid)
        return found

    def is_bad(self, oid: ObjectId) -> bool:
        """Whether a copy of the object was found damaged."""
        return any(bad == oid for bad, _ in self._bad | self._unreadable)

    def forget(self, oid: ObjectId, pack: ObjectId) -> None:
        """A copy turned out to be damaged: another one may be added."""
        self._bad.add((oid, pack))

    def leave_out(self, oid: ObjectId, pack: ObjectId) -> None:
        """A copy cannot be read at the moment: it is not used until the next refresh."""
        self._unreadable.add((oid, pack))

    def gone(self, pack: ObjectId) -> None:
        """A pack's file turned out not to be there any more; it may be in trash now."""
        self._on_disk.discard(pack)
        self._in_trash.discard(pack)
        self._complete = False

    def add(self, pack: ObjectId, index: bytes) -> None:
        """Note a pack whose index is known to be right."""
        self._on_disk.add(pack)
        self.damaged.pop(pack, None)
        # A pack written anew under its old name replaced a damaged one.
        self._bad = {bad for bad in self._bad if bad[1] != pack}
        self._learn(pack, index)

    def _learn(self, pack: ObjectId, index: bytes) -> None:
        if pack in self._indexes:
            return
        self._indexes[pack] = index
        for number in range(len(index) // ENTRY.size):
            at = number * ENTRY.size
            self._places.setdefault(index[at : at + 32], []).append((pack, number))

    def publish(self, pack: ObjectId, index: bytes) -> None:
        """Note a pack that this process has just written."""
        self._listing.note(*pack_place(pack))
        self.add(pack, index)
        self._write_segment()

    def note(self, pack: ObjectId) -> None:
        """Note a pack that another process has just written."""
        self._listing.note(*pack_place(pack))
        self._on_disk.add(pack)
        self._load(pack)

    def unseen(self) -> list[str]:
        """A sentence about each folder whose names could not be listed."""
        return list(self._listing.unseen.values())

    def complete(self) -> None:
        """Load what is known of every pack on disk."""
        added, removed = self._listing.scan()
        for folder, name in removed:
            if (pack := _pack_name(folder, name)) is not None:
                self._on_disk.discard(pack)
                self.damaged.pop(pack, None)
        names = [_pack_name(folder, name) for folder, name in added]
        self._on_disk.update(pack for pack in names if pack is not None)
        # After the packs: one that is moved meanwhile is seen twice rather than not at all.
        added, removed = self._trash_listing.scan()
        for folder, name in removed:
            if (pack := _pack_name(folder, name)) is not None:
                self._in_trash.discard(pack)
        names = [_pack_name(folder, name) for folder, name in added]
        self._in_trash.update(pack for pack in names if pack is not None)
        for pack in list(self.damaged):
            self._load(pack)  # another writer may have replaced it
        if self._missing():
            self._read_segments()
        for pack in self._missing():
            self._load(pack)
        self._complete = True
        self._write_segment()

    def everything(self, *, trash: bool = False) -> Iterator[Location]:
        """Every copy of every object in readable packs; with `trash`, in those there instead."""
        self.complete()
        wanted = self._in_trash - self._on_disk if trash else self._on_disk
        seen: set[ObjectId] = set()
        for pack in self._indexes.keys() & wanted:
            seen.add(pack)
            index = self._indexes[pack]
            for number in range(len(index) // ENTRY.size):
                yield Location(pack, entry_at(index, number))
        for segment in self._segments.values():
            fresh = (wanted - seen).intersection(segment.packs)
            for entry in segment:
                if segment.packs[entry.pack] in fresh:
                    yield Location(segment.packs[entry.pack], entry)
            seen |= fresh

    def counts(self) -> tuple[int, dict[int, int]]:
        """Number of readable packs, and of distinct objects by kind."""
        kinds: dict[ObjectId, int] = {}
        packs: set[ObjectId] = set()
        for place in self.everything():
            kinds[place.entry.oid] = place.entry.kind
            packs.add(place.pack)
        totals: dict[int, int] = {}
        for kind in kinds.values():
            totals[kind] = totals.get(kind, 0) + 1
        return len(packs), totals

    def _known(self, oid: ObjectId) -> list[Location]:
        found = [
            Location(pack, entry_at(self._indexes[pack], number))
            for pack, number in self._places.get(oid, ())
        ]
        for segment in self._segments.values():
            found += [Location(segment.packs[entry.pack], entry) for entry in segment.find(oid)]
        sound = [
            place
            for place in found
            if (oid, place.pack) not in self._bad and (oid, place.pack) not in self._unreadable
        ]
        standing = [place for place in sound if place.pack in self._on_disk]
        return standing or [place for place in sound if place.pack in self._in_trash]

    def _missing(self) -> list[ObjectId]:
        known = self._indexes.keys() | self._in_segments | self.damaged.keys()
        return sorted((self._on_disk | self._in_trash) - known)

    def _load(self, pack: ObjectId) -> None:
        path = self.path(pack)
        try:
            index = read_index(path, pack)
            if pack in self._in_trash and pack not in self._on_disk:
                self._learn(pack, index)
            else:
                self.add(pack, index)
        except FileNotFoundError:
            self._on_disk.discard(pack)
            self._in_trash.discard(pack)
        except (OSError, ObjectDamaged) as exc:
            if pack not in self._on_disk:
                self._in_trash.discard(pack)
                return
            if pack not in self.damaged:
                _log.warning("the pack %s was skipped: %s", path, exc)
            self.damaged[pack] = f"the pack {path} was skipped: {exc}"

    def _read_segments(self) -> None:
        try:
            names = [n for n in os.listdir(self._idx) if n.endswith(segments.SUFFIX)]
        except OSError:
            return
        for name in names:
            if name in self._segments or name in self._useless:
                continue
            try:
                segment = segments.read(os.path.join(self._idx, name))
            except (OSError, ObjectDamaged) as exc:
                _log.info("the index segment %s was skipped: %s", name, exc)
                self._useless.add(name)
                continue
            if self._in_segments.issuperset(segment.packs):
                self._useless.add(name)  # it would only make lookups slower
            else:
                self._segments[name] = segment
                self._in_segments.update(segment.packs)

    def _write_segment(self) -> None:
        """Move what is known of many single packs into a segment; failing to is no loss.

        Segments that are no larger are merged into it: then there are few, and each entry is
        written again only as often as their number doubles.
        """
        if self._read_only or len(self._indexes) < SEGMENT_PACKS:
            return
        single = self._indexes.keys() & self._on_disk - self._in_segments
        if len(single) < SEGMENT_PACKS:
            return
        indexes = {pack: self._indexes[pack] for pack in sorted(single)}
        size = sum(map(len, indexes.values()))
        superseded = [*self._useless]
        for old, segment in sorted(self._segments.items(), key=lambda item: item[1].count):
            if segment.count * ENTRY.size > size:
                break
            size += segment.count * ENTRY.size
            superseded.append(old)
            for pack, index in segments.split(segment).items():
                if pack in self._on_disk:
                    indexes.setdefault(pack, index)
        content = segments.build(indexes)
        name = segments.file_name(content)
        try:
            segments.publish(self._idx, name, content)
        except OSError as exc:
            _log.info("no index segment was written in %s: %s", self._idx, exc)
            return
        for old in superseded:
            discard(os.path.join(self._idx, old))
            self._segments.pop(old, None)
            self._useless.discard(old)
        self._segments[name] = Segment(content)
        # Not what was in the others: of that, packs that are not there now may come back.
        self._in_segments = {pack for each in self._segments.values() for pack in each.packs}
        self._indexes.clear()
        self._places.clear()


def _pack_name(folder: str, name: str) -> ObjectId | None:
    try:
        pack = bytes.fromhex(name.removesuffix(PACK_SUFFIX))
    except ValueError:
        return None
    return pack if len(pack) == 32 and pack_place(pack) == (folder, name) else None
