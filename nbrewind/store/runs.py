"""Reading many objects: in the order in which they lie, neighbours together.

The chunks of a value that changed a little at a time lie in as many packs as it has
versions. Read one after the other, each would wait for its place on the disk; so the
reads are sorted, joined where objects are neighbours, announced to the system some way
ahead, and done by several threads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nbrewind.store.catalog import Location

RUN_BYTES = 1024 * 1024
"""Bytes from which a run is ended: enough to hide what a read costs besides its bytes."""
_RUN_PARTS = 256
"""Objects in a run at most: a system reads into so many places at once, and more."""
_GAP = 16 * 1024
"""Bytes between two objects that are read along rather than skipped."""


class Part(NamedTuple):
    """An object to be read, and the memory of exactly its size that it is read into."""

    place: Location
    target: memoryview


Run = list[Part]
"""Objects of one pack in ascending order, with little between them."""


def choose(copies: Sequence[Sequence[Location]]) -> list[Location]:
    """One copy of each object, so that few packs are read.

    Args:
        copies: All copies of each object, at least one.
    """
    if all(len(places) == 1 for places in copies):
        return [places[0] for places in copies]
    useful = Counter(place.pack for places in copies for place in places)
    return [max(places, key=lambda place: useful[place.pack]) for places in copies]


def plan(parts: Sequence[Part]) -> list[Run]:
    """Put objects into runs; those of one pack follow each other."""
    runs: list[Run] = []
    end, pack = 0, b""
    for part in sorted(parts, key=lambda part: (part.place.pack, part.place.entry.offset)):
        entry = part.place.entry
        if (
            part.place.pack == pack
            and 0 <= entry.offset - end <= _GAP
            and entry.offset - runs[-1][0].place.entry.offset < RUN_BYTES
            and len(runs[-1]) < _RUN_PARTS
        ):
            runs[-1].append(part)
        else:
            runs.append([part])
            pack = part.place.pack
        end = entry.offset + entry.stored
    return runs


def batches(runs: Sequence[Run], size: int) -> Iterator[Sequence[Run]]:
    """Runs in groups of some `size` bytes of content."""
    group: list[Run] = []
    total = 0
    for run in runs:
        group.append(run)
        total += sum(part.target.nbytes for part in run)
        if total >= size:
            yield group
            group, total = [], 0
    if group:
        yield group
