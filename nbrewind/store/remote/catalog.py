"""Where each object is, of a store of which there is nothing but files.

As in a directory: a record's pack is named by its ref, and its footer is all that a usual
lookup fetches; the first object that is found nowhere brings in the segments, and the footers
of what they do not cover. Every footer is fetched once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor

from nbrewind.errors import ObjectDamaged
from nbrewind.model.blobs import ObjectId
from nbrewind.store import segments
from nbrewind.store.catalog import PACK_SUFFIX, SEGMENT_PACKS, Location, pack_place
from nbrewind.store.packs import ENTRY, entry_at, index_from
from nbrewind.store.remote.files import Files
from nbrewind.store.segments import Segment

_log = logging.getLogger(__name__)

PACKS = "packs"
SEGMENTS = "idx"
MOST_SEGMENTS = 8
"""Segments from which they are merged into one."""


def pack_name(pack: ObjectId) -> str:
    """The name of a pack's file."""
    return "/".join((PACKS, *pack_place(pack)))


def pack_of(name: str) -> ObjectId | None:
    """The pack that a file is; None if it is none."""
    file = name.rpartition("/")[2]
    try:
        pack = bytes.fromhex(file.removesuffix(PACK_SUFFIX))
    except ValueError:
        return None
    return pack if len(pack) == 32 and pack_name(pack) == name else None


def read_footer(files: Files, pack: ObjectId) -> bytes:
    """The verified index of a pack.

    Raises:
        ObjectDamaged: it is not the pack its name says.
        OSError: it cannot be read.
    """
    name = pack_name(pack)
    return index_from(lambda length: files.read_end(name, length), pack, f"{files.location}/{name}")


class RemoteCatalog:
    """The objects among some files.

    Not thread-safe: the store serialises access. Methods raise `OSError` if the files cannot be
    listed.
    """

    def __init__(self, files: Files, workers: Executor, *, read_only: bool) -> None:
        self._files = files
        self._workers = workers
        self._read_only = read_only
        self._complete = False
        self._here: set[ObjectId] = set()
        self._indexes: dict[ObjectId, bytes] = {}
        self._places: dict[ObjectId, list[tuple[ObjectId, int]]] = {}
        self._in_segments: set[ObjectId] = set()
        self._segments: set[str] = set()
        self._bad: set[tuple[ObjectId, ObjectId]] = set()
        self.damaged: dict[ObjectId, str] = {}
        """Packs that were skipped, with a sentence about why."""
        self.bytes = 0
        """Of all packs, at the last listing."""

    def stale(self) -> None:
        """Packs may have appeared or disappeared since the last look."""
        self._complete = False

    def locate(self, oid: ObjectId, hints: Iterable[ObjectId] = ()) -> list[Location]:
        """All copies of an object that are not known to be damaged; as `Catalog.locate`."""
        found = self._known(oid)
        if found:
            return found
        self._load([pack for pack in hints if pack not in self._indexes])
        found = self._known(oid)
        if not found and not self._complete:
            self.complete()
            found = self._known(oid)
        return found

    def is_bad(self, oid: ObjectId) -> bool:
        """Whether a copy of the object was found damaged."""
        return any(bad == oid for bad, _ in self._bad)

    def forget(self, oid: ObjectId, pack: ObjectId) -> None:
        """A copy turned out to be damaged: another one may be added."""
        self._bad.add((oid, pack))

    def gone(self, pack: ObjectId) -> None:
        """A pack turned out not to be there any more."""
        self._here.discard(pack)

    def add(self, pack: ObjectId, index: bytes) -> None:
        """Note a pack whose index is known to be right."""
        self._here.add(pack)
        self.damaged.pop(pack, None)
        self._bad = {bad for bad in self._bad if bad[1] != pack}
        if pack in self._indexes:
            return
        self._indexes[pack] = index
        for number in range(len(index) // ENTRY.size):
            at = number * ENTRY.size
            self._places.setdefault(index[at : at + 32], []).append((pack, number))

    def complete(self) -> None:
        """Load what is known of every pack."""
        sizes = {
            pack: size
            for name, size in self._files.names(PACKS)
            if (pack := pack_of(name)) is not None
        }
        self.bytes = sum(sizes.values())
        self._here = set(sizes)
        if self._here - self._indexes.keys():
            self._read_segments()
        self._load(sorted(self._here - self._indexes.keys()))
        self.damaged = {pack: why for pack, why in self.damaged.items() if pack in self._here}
        self._complete = True
        loose = self._indexes.keys() & self._here - self._in_segments
        if not self._read_only and len(loose) >= SEGMENT_PACKS:
            self._write_segment(loose)

    def everything(self) -> Iterator[Location]:
        """Every copy of every object in readable packs."""
        self.complete()
        for pack in sorted(self._indexes.keys() & self._here):
            index = self._indexes[pack]
            for number in range(len(index) // ENTRY.size):
                yield Location(pack, entry_at(index, number))

    def _known(self, oid: ObjectId) -> list[Location]:
        return [
            Location(pack, entry_at(self._indexes[pack], number))
            for pack, number in self._places.get(oid, ())
            if pack in self._here and (oid, pack) not in self._bad
        ]

    def _load(self, packs: list[ObjectId]) -> None:
        def footer(pack: ObjectId) -> bytes | Exception:
            try:
                return read_footer(self._files, pack)
            except (OSError, ObjectDamaged) as problem:
                return problem

        for pack, found in zip(packs, self._workers.map(footer, packs), strict=True):
            if isinstance(found, bytes):
                self.add(pack, found)
            elif isinstance(found, FileNotFoundError):
                self._here.discard(pack)
            else:
                why = f"the pack {self._files.location}/{pack_name(pack)} was skipped: {found}"
                if pack not in self.damaged:
                    _log.warning("%s", why)
                self.damaged[pack] = why

    def _read_segments(self) -> None:
        names = {n for n, _ in self._files.names(SEGMENTS) if n.endswith(segments.SUFFIX)}
        fresh = sorted(names - self._segments)

        def fetch(name: str) -> Segment | None:
            try:
                content = self._files.read(name)
                if not name.endswith(segments.file_name(content)):
                    raise ObjectDamaged("it does not have the content its name says")
                return Segment(content)
            except (OSError, ObjectDamaged) as exc:
                _log.info("the index segment %s was skipped: %s", name, exc)
                return None

        for name, segment in zip(fresh, self._workers.map(fetch, fresh), strict=True):
            self._segments.add(name)
            for pack, index in (segments.split(segment) if segment is not None else {}).items():
                self._in_segments.add(pack)
                if pack in self._here:
                    self.add(pack, index)

    def _write_segment(self, loose: set[ObjectId]) -> None:
        """Write what is known of single packs as a segment; failing to is no loss."""
        old = sorted(self._segments)
        merge = len(old) + 1 >= MOST_SEGMENTS
        packs = self._indexes.keys() & self._here if merge else loose
        content = segments.build({pack: self._indexes[pack] for pack in sorted(packs)})
        name = f"{SEGMENTS}/{segments.file_name(content)}"
        try:
            self._files.write(name, content)
            for superseded in old if merge else ():
                self._files.remove(superseded)
        except OSError as exc:
            _log.info("no index segment was written: %s", exc)
            return
        self._segments.add(name)
        self._in_segments.update(packs)
