"""Reading objects by ranges of packs; everything read is verified against its id.

Neighbouring objects come in one request, and several requests are under way at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from nbrewind.errors import ObjectDamaged, ObjectMissing, ObjectUnreachable, StoreError
from nbrewind.model.blobs import LEAF_BYTES
from nbrewind.store import codec
from nbrewind.store.catalog import Location
from nbrewind.store.leaves import object_id
from nbrewind.store.packs import KINDS, Entry
from nbrewind.store.remote.catalog import pack_name
from nbrewind.store.remote.files import Files

_GAP = 64 * 1024
"""Bytes read for nothing rather than asking again."""
_SPAN = 8 * 1024 * 1024
"""Most bytes of one request, unless a single object is larger."""
_MOST_GAIN = 65536
"""No real object is compressed further than zstd can: refuses to allocate for a lie."""
_CHUNK = KINDS.index("chunk") + 1


def content_of(entry: Entry, payload: memoryview | bytes) -> bytes:
    """The content of an object from its payload.

    Raises:
        ObjectDamaged: it does not match its id.
    """
    if (entry.kind == _CHUNK and entry.size > LEAF_BYTES) or (
        entry.size > max(entry.stored, 64) * _MOST_GAIN
    ):
        raise ObjectDamaged("its length cannot be right")
    if len(payload) != entry.stored:
        raise ObjectDamaged("its pack is truncated")
    content = codec.decode(entry.codec, payload, entry.size)
    if object_id(content) != entry.oid:
        raise ObjectDamaged("its content does not match its id")
    return content


@dataclass
class _Run:
    """Objects that one request brings."""

    pack: bytes
    start: int
    end: int
    places: list[Location] = field(default_factory=list)


class RemoteReader:
    """Reads from the packs among some files. Safe to share between threads."""

    def __init__(self, files: Files, workers: Executor) -> None:
        self._files = files
        self._workers = workers

    def read(self, place: Location) -> bytes:
        """The content of one copy of an object.

        Raises:
            ObjectMissing: its pack is gone.
            ObjectDamaged: it does not match its id, also when read a second time.
            ObjectUnreachable: it cannot be read at present.
        """
        found = self._read_run(_run_of(place))[0]
        if isinstance(found, ObjectDamaged):  # perhaps only on its way
            found = self._read_run(_run_of(place))[0]
        if isinstance(found, StoreError):
            raise found
        return found

    def read_all(self, places: Sequence[Location]) -> list[bytes | StoreError]:
        """The contents of several objects, or what is wrong with each, in order."""
        runs = _runs(places)
        results = dict(
            pair
            for run, found in zip(runs, self._workers.map(self._read_run, runs), strict=True)
            for pair in zip(run.places, found, strict=True)
        )
        return [results[place] for place in places]

    def _read_run(self, run: _Run) -> list[bytes | StoreError]:
        path = f"{self._files.location}/{pack_name(run.pack)}"
        try:
            content = self._files.read_range(pack_name(run.pack), run.start, run.end - run.start)
        except FileNotFoundError:
            return [
                ObjectMissing(
                    f"object {place.entry.oid.hex()[:16]} is missing: {path} is gone; the cell "
                    "that made it will be executed again"
                )
                for place in run.places
            ]
        except OSError as exc:
            return [ObjectUnreachable(f"an object cannot be read: {exc}")] * len(run.places)
        results: list[bytes | StoreError] = []
        for place in run.places:
            entry = place.entry
            at = entry.offset - run.start
            try:
                results.append(content_of(entry, content[at : at + entry.stored]))
            except ObjectDamaged as exc:
                results.append(
                    ObjectDamaged(
                        f"object {entry.oid.hex()[:16]} in {path} is damaged: {exc}; the cell "
                        "that made it will be executed again"
                    )
                )
        return results


def _run_of(place: Location) -> _Run:
    entry = place.entry
    return _Run(place.pack, entry.offset, entry.offset + entry.stored, [place])


def _runs(places: Sequence[Location]) -> list[_Run]:
    runs: list[_Run] = []
    for place in sorted(set(places), key=lambda p: (p.pack, p.entry.offset)):
        one = _run_of(place)
        last = runs[-1] if runs else None
        if (
            last is not None
            and last.pack == one.pack
            and one.start - last.end <= _GAP
            and one.end - last.start <= _SPAN
        ):
            last.places.append(place)
            last.end = max(last.end, one.end)
        else:
            runs.append(one)
    return runs
