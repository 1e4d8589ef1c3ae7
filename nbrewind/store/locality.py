"""How scattered values lie, and which chunks to copy so that they do not.

A value that changes a little at a time shares most chunks with its earlier versions, so they
lie in the packs of many commits. `nbrewind.store.runs` reads them in as few pieces as there
are; where these are small, even that is slow, and a collector copies the value to packs of
its own (`nbrewind.store.copying`). What it reads from is chosen by `runs.choose`, copies in
few packs first; the old ones go when nothing else needs their packs.

Copies that make reading faster are worth keeping beside the others, as long as they do: else
one collection would remove them for being copies, and the next one make them again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from nbrewind.errors import StoreError
from nbrewind.model.blobs import ObjectId
from nbrewind.model.manifests import Manifest
from nbrewind.model.records import ExecutionRecord
from nbrewind.store.catalog import Location
from nbrewind.store.config import PACK_BYTES
from nbrewind.store.runs import RUN_BYTES, Part, choose, plan

if TYPE_CHECKING:
    from nbrewind.store.local import LocalStore

_log = logging.getLogger(__name__)

Value = Sequence[ObjectId]
"""The chunks of a value, in their order."""

MOST_SCATTERED = 1.15
"""The factor in the time of reading a value from which it is worth copying."""

_PIECE_BYTES = 16 * 1024
"""What beginning another piece costs, in bytes of content read and verified meanwhile."""
_PACK_BYTES = 64 * 1024
"""The same for another file: measured on a virtual disk that reads 1 GB/s."""
_WORTHWHILE_BYTES = 4 * 1024 * 1024
"""Smaller values come back in milliseconds wherever they lie."""


def scatter(places: Sequence[Location]) -> float:
    """By what factor objects take longer to read than if they were neighbours; at least 1.

    Args:
        places: A copy of each object, as they would be read.
    """
    size = sum(place.entry.size for place in set(places))
    empty = memoryview(b"")
    pieces = len(plan([Part(place, empty) for place in set(places)]))
    packs = len({place.pack for place in places})
    fewest = 1 + size // PACK_BYTES
    more = max(0, pieces - 1 - size // RUN_BYTES) * _PIECE_BYTES
    more += max(0, packs - fewest) * _PACK_BYTES
    return 1 + more / max(size, 1)


class Together(NamedTuple):
    """What makes values lie together."""

    keep: frozenset[ObjectId]
    """Packs that hold copies for the purpose, and would go otherwise."""
    copy: list[Location]
    """Objects to copy, in the order to copy them in."""


def together(
    values: Iterable[Value],
    copies: Callable[[ObjectId], Sequence[Location]],
    stay: Collection[ObjectId],
    sizes: Mapping[ObjectId, int],
    *,
    bound: float,
    most: float = MOST_SCATTERED,
) -> Together:
    """What is to be kept or copied so that none of these values is slow to read.

    Args:
        values: Those that are likely to be restored, most likely first.
        copies: All copies of an object that can be used.
        stay: Packs that stay in any case.
        sizes: Bytes of each pack.
        bound: A pack is worth keeping from this share of bytes that a value is read from.
        most: The factor up to which values are left as they are.
    """

    def nearest(value: Value, packs: Collection[ObjectId]) -> list[Location]:
        found = [copies(oid) for oid in value]
        return choose([[c for c in each if c.pack in packs] or each for each in found])

    def is_slow(places: Sequence[Location]) -> bool:
        size = sum(place.entry.size for place in places)
        return size >= _WORTHWHILE_BYTES and scatter(places) > most

    known = ([*dict.fromkeys(value)] for value in values)
    whole = (value for value in known if all(map(copies, value)))  # others cannot be restored
    slow = [value for value in whole if is_slow(nearest(value, stay))]
    read = {place for value in slow for place in nearest(value, sizes)}
    wanted: Counter[ObjectId] = Counter()
    for place in read:
        wanted[place.pack] += place.entry.stored
    keep = {p for p, size in wanted.items() if p not in stay and size >= bound * sizes[p]}
    copy: dict[ObjectId, Location] = {}
    for value in slow:
        places = nearest(value, {*stay, *keep})
        if is_slow(places):
            for place in places:
                copy.setdefault(place.entry.oid, place)
    return Together(frozenset(keep), list(copy.values()))


def likely_values(store: LocalStore) -> Iterator[Value]:
    """The values that a replay restores: of the newest record of each cell, newest first."""
    seen: set[tuple[str, str]] = set()
    for ref in store.refs():
        cell = ref.body.notebook, ref.body.cell_id or ref.body.source_digest
        if ref.body.status == "ok" and cell not in seen:
            seen.add(cell)
            try:
                yield from _values_of(store, ref.body.record)
            except (StoreError, msgspec.MsgspecError) as problem:
                _log.debug("not looked at: %s", problem)


def _values_of(store: LocalStore, oid: ObjectId) -> Iterator[Value]:
    record = msgspec.msgpack.decode(store.get(oid), type=ExecutionRecord)
    for group in record.writes.groups:
        if group.manifest is not None:
            manifest = msgspec.msgpack.decode(store.get(group.manifest), type=Manifest)
            blobs = [manifest.stream, *manifest.buffers]
            yield [chunk for blob in blobs for chunk in blob.chunks]
