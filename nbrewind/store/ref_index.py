"""The refs of a store in memory: found by source digest, believed only if signed."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

from nbrewind.errors import ObjectDamaged
from nbrewind.model.blobs import ObjectId
from nbrewind.model.refs import RefBody, StoredRef
from nbrewind.store import durable, ref_segments, refs, trust
from nbrewind.store.listing import Listing, NameListing
from nbrewind.store.ref_segments import RefSegments
from nbrewind.store.refs import Place, SignedRef

_log = logging.getLogger(__name__)


class RefIndex:
    """What is known of a store's refs.

    Not thread-safe: the store serialises access.

    Args:
        root: The `refs` directory.
        listing: Finds the files there; for stores that are not in a directory.
        segments: Copies of many refs, which spare reading each.
    """

    def __init__(
        self,
        root: str,
        listing: NameListing | None = None,
        segments: RefSegments | None = None,
    ) -> None:
        self._root = root
        self._segments = segments
        self._listing = listing or Listing(root, refs.SUFFIX)
        self._found: dict[Place, tuple[RefBody, SignedRef]] = {}
        self._by_source: dict[str, set[Place]] = {}
        self._by_record: dict[ObjectId, Place] = {}
        self._genuine: dict[Place, bool] = {}
        self._last: dict[str, int] = {}
        self.damaged: dict[Place, str] = {}
        """Refs that were skipped, with a sentence about why."""

    def scan(self) -> None:
        """Notice refs that appeared or disappeared."""
        again = list(self.damaged)  # it may have been read while it was being written
        added, removed = self._listing.scan()
        for lineage, name in removed:
            self._drop((lineage, refs.sequence(name) or 0))
        numbered = [(lineage, refs.sequence(name)) for lineage, name in added]
        places = [(lineage, seq) for lineage, seq in numbered if seq is not None]
        copies: dict[Place, bytes] = {}
        if self._segments is not None and len(places) >= ref_segments.SEGMENT_REFS:
            copies = self._segments.load()
        rest = [place for place in places if not self._take(place, copies.get(place))]
        self._prepare(rest)
        for place in rest:
            self._read(place)
        for place in again:
            self._read(place)
        if self._segments is not None:
            self._segments.extend(self._found)

    def read_again(self) -> None:
        """Read every ref from its own file, whatever copies there are."""
        for place in list(self._found):
            self._read(place)

    def unseen(self) -> list[str]:
        """A sentence about each folder whose names could not be listed."""
        return list(self._listing.unseen.values())

    def add(self, body: RefBody, signed: SignedRef) -> StoredRef:
        """Note a ref that this process has just published."""
        place = (body.lineage, body.seq)
        self._listing.note(body.lineage, refs.file_name(body.seq))
        self._keep(place, body, signed)
        self._genuine[place] = True
        return StoredRef(body=body, key=signed.key, trusted=True)

    def note(self, lineage: str, seq: int) -> StoredRef | None:
        """Note a ref that another process has just published; None if it cannot be read."""
        place = (lineage, seq)
        self._read(place)
        if place not in self._found:
            return None
        self._listing.note(lineage, refs.file_name(seq))
        return self._stored(place, trust.trusts({self._found[place][1].key}))

    def find(self, source_digest: str | None = None) -> list[StoredRef]:
        """Refs, newest first; signatures are verified of those returned."""
        places = self._found if source_digest is None else self._by_source.get(source_digest, set())
        chosen = sorted(places, key=lambda p: (self._found[p][0].created, p[1], p[0]), reverse=True)
        trusted = trust.trusts({self._found[place][1].key for place in chosen})
        return [self._stored(place, trusted) for place in chosen]

    def packs_of(self, record: ObjectId) -> tuple[ObjectId, ...]:
        """The packs that the commit of a record wrote."""
        place = self._by_record.get(record)
        return self._found[place][0].objects if place is not None else ()

    def next_seq(self, lineage: str) -> int:
        """The number after the last one seen of a lineage."""
        return self._last.get(lineage, -1) + 1

    def path(self, place: Place) -> str:
        """The file of a ref."""
        return os.path.join(self._root, place[0], refs.file_name(place[1]))

    def _stored(self, place: Place, trusted: frozenset[bytes]) -> StoredRef:
        body, signed = self._found[place]
        believed = signed.key in trusted
        if believed:
            if place not in self._genuine:
                genuine = trust.verify(signed.body, signed.key, signed.signature)
                self._genuine[place] = genuine
                if not genuine:
                    _log.warning("ref %s/%d has a wrong signature: it is not used", *place)
            believed = self._genuine[place]
        return StoredRef(body=body, key=signed.key, trusted=believed)

    def _take(self, place: Place, content: bytes | None) -> bool:
        """Use a copy of a ref if there is one and it is right."""
        if content is None:
            return False
        try:
            self._keep(place, *refs.decode(content, *place))
        except ObjectDamaged as exc:
            _log.info("the copy of ref %s/%d is not used: %s", *place, exc)
            return False
        return True

    def _read(self, place: Place) -> None:
        path = self.path(place)
        try:
            content = durable.again_if_stale(lambda: self._content(place))
            self._keep(place, *refs.decode(content, *place))
        except FileNotFoundError:
            self._drop(place)
        except (OSError, ObjectDamaged) as exc:
            if place not in self.damaged:
                _log.warning("the ref %s was skipped: %s", path, exc)
            self.damaged[place] = f"the ref {path} was skipped: {exc}"

    def _prepare(self, places: Sequence[Place]) -> None:
        """These will be read one after the other."""

    def _content(self, place: Place) -> bytes:
        with open(self.path(place), "rb", buffering=0) as file:
            return file.read()

    def _keep(self, place: Place, body: RefBody, signed: SignedRef) -> None:
        self.damaged.pop(place, None)
        self._found[place] = (body, signed)
        self._by_source.setdefault(body.source_digest, set()).add(place)
        self._by_record[body.record] = place
        self._last[place[0]] = max(place[1], self._last.get(place[0], -1))

    def _drop(self, place: Place) -> None:
        self.damaged.pop(place, None)
        self._genuine.pop(place, None)
        if self._segments is not None:
            self._segments.forget(place)
        known = self._found.pop(place, None)
        if known is not None:
            body = known[0]
            self._by_source[body.source_digest].discard(place)
            if self._by_record.get(body.record) == place:
                del self._by_record[body.record]
