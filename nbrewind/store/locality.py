"""How scattered values lie, and which chunks to copy so that they do not.

A value that changes a little at a time shares most chunks with its earlier versions, so they
lie in the packs of many commits. `nbrewind.store.runs` reads them in as few pieces as there
are; where these are small, even that is slow, and a collector copies the value to packs of
its own (`nbrewind.store.copying`). What it reads from is chosen by `runs.choose`, copies in
few packs first; the old ones go when nothing else needs their packs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from nbrewind.errors import ObjectDamaged, ObjectMissing
from nbrewind.model.blobs import ObjectId
from nbrewind.store.catalog import Location
from nbrewind.store.config import PACK_BYTES
from nbrewind.store.runs import RUN_BYTES, Part, choose, plan

if TYPE_CHECKING:
    from nbrewind.store.local import LocalStore

MOST_SCATTERED = 1.3
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


def scattered(
    store: LocalStore, values: Iterable[Sequence[ObjectId]], most: float = MOST_SCATTERED
) -> list[Location]:
    """The objects to copy, in the order to copy them in.

    Args:
        store: An open store.
        values: The chunks of each value that is likely to be restored, most likely first.
        most: The factor up to which values are left as they are.
    """
    chosen: dict[ObjectId, Location] = {}
    for value in values:
        try:
            places = choose([store.places(oid) for oid in dict.fromkeys(value)])
        except (ObjectMissing, ObjectDamaged):
            continue  # it cannot be restored anyway
        size = sum(place.entry.size for place in places)
        rest = [place for place in places if place.entry.oid not in chosen]
        if rest and size >= _WORTHWHILE_BYTES and scatter(places) > most:
            chosen.update({place.entry.oid: place for place in rest})
    return list(chosen.values())
