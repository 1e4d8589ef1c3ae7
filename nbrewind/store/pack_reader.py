"""Reading objects out of packs; everything read is verified against its id."""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

from nbrewind.errors import ObjectDamaged, ObjectMissing
from nbrewind.model.blobs import LEAF_BYTES
from nbrewind.store import codec, durable
from nbrewind.store.catalog import Catalog, Location
from nbrewind.store.leaves import object_id
from nbrewind.store.packs import KINDS
from nbrewind.store.runs import RUN_BYTES, Part, Run, batches, plan
from nbrewind.store.workers import run_all

_T = TypeVar("_T")

_OPEN_PACKS = 64
_AHEAD_BYTES = 16 * 1024 * 1024
"""How far ahead the system is told what will be read."""
_MOST_GAIN = 65536
"""No real object is compressed further than zstd can: refuses to allocate for a lie."""


class _Pack:
    """An open file, closed when the last thread that reads from it is done."""

    def __init__(self, path: str) -> None:
        self.fd = -1
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self.fd >= 0:
            durable.close(self.fd)


class Unreadable(ObjectDamaged):
    """The system could not read it at this moment; nothing is known against it."""


class PackReader:
    """Reads from packs, of which it keeps a few open. Safe to share between threads."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._open: OrderedDict[bytes, _Pack] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, place: Location) -> bytes:
        """The content of one copy of an object.

        Raises:
            ObjectMissing: its pack is gone.
            ObjectDamaged: it does not match its id, or (`Unreadable`) cannot be read now.
        """
        entry = place.entry
        if entry.kind == KINDS.index("chunk") + 1 and entry.size > LEAF_BYTES:
            raise self._damaged(place, "it is larger than a chunk can be")
        if entry.size > max(entry.stored, 64) * _MOST_GAIN:
            raise self._damaged(place, "its length cannot be right")
        payload = self._payload(place, entry.stored)
        try:
            content = codec.decode(entry.codec, payload, entry.size)
        except ObjectDamaged as exc:
            raise self._damaged(place, str(exc)) from exc
        if object_id(content) != entry.oid:
            raise self._damaged(place, "its content does not match its id")
        return content

    def read_into(self, place: Location, target: memoryview) -> None:
        """As `read`, into memory of exactly the content's size."""
        entry = place.entry
        if entry.size != target.nbytes:
            raise self._damaged(place, "its length is not the expected one")
        if entry.codec != codec.RAW or entry.stored != entry.size:
            target[:] = self.read(place)
            return
        self._fill(place, target)
        if object_id(target) != entry.oid:
            raise self._damaged(place, "its content does not match its id")

    def read_parts(self, parts: Sequence[Part]) -> list[Part]:
        """Read many objects as fast as the disk allows.

        Returns:
            Those that could not be read so, for whatever reason: `read_into` says why.
        """
        groups = list(batches(plan(parts), _AHEAD_BYTES))
        left: list[Part] = []
        self._announce(*groups[:1])
        for group, following in itertools.zip_longest(groups, groups[1:], fillvalue=()):
            self._announce(following)
            left += itertools.chain.from_iterable(run_all(self._read_run, group))
        return left

    def drop(self, pack: bytes) -> None:
        """Forget a pack that is open: its file was replaced, or its server forgot it."""
        with self._lock:
            self._open.pop(pack, None)

    def close(self) -> None:
        """Close all packs."""
        with self._lock:
            self._open.clear()

    def _announce(self, runs: Sequence[Run] = ()) -> None:
        """Let the system fetch what will be read, where it can be told.

        It notices long runs by itself, and is faster then.
        """
        if not hasattr(os, "posix_fadvise"):
            return
        for run in runs:
            first, last = run[0].place.entry, run[-1].place.entry
            length = last.offset + last.stored - first.offset
            if length >= RUN_BYTES:
                continue
            try:
                pack = self._pack(run[0].place.pack)
                os.posix_fadvise(pack.fd, first.offset, length, os.POSIX_FADV_WILLNEED)
            except OSError:
                continue  # whoever reads it says so

    def _read_run(self, run: Run) -> list[Part]:
        """Read neighbours at once; returns those that were not read or are not right."""
        if any(not _plausible(part) for part in run):
            return run
        first, last = run[0].place.entry, run[-1].place.entry
        payloads: list[memoryview] = []
        pieces: list[memoryview] = []
        at = first.offset
        try:
            pack = self._pack(run[0].place.pack)
            if os.fstat(pack.fd).st_size < last.offset + last.stored:
                return run
            for place, target in run:
                entry = place.entry
                raw = entry.codec == codec.RAW
                payloads.append(target if raw else memoryview(bytearray(entry.stored)))
                pieces += [memoryview(bytearray(entry.offset - at)), payloads[-1]]
                at = entry.offset + entry.stored
            if not _read_pieces(pack.fd, pieces, first.offset):
                return run
        except OSError:
            return run
        return [
            part for part, payload in zip(run, payloads, strict=True) if not _decoded(part, payload)
        ]

    def _payload(self, place: Location, length: int) -> memoryview:
        size = self._with_pack(place, lambda fd: os.fstat(fd).st_size)
        if place.entry.offset + length > size:
            raise self._damaged(place, "its pack is truncated")
        payload = memoryview(bytearray(length))
        self._fill(place, payload)
        return payload

    def _fill(self, place: Location, target: memoryview) -> None:
        if not self._with_pack(place, lambda fd: _read_pieces(fd, [target], place.entry.offset)):
            raise self._damaged(place, "its pack is truncated")

    def _with_pack(self, place: Location, action: Callable[[int], _T]) -> _T:
        """Do something with an object's pack, opened once more if its server forgot it."""

        def attempt() -> _T:
            pack = self._pack(place.pack)
            try:
                return action(pack.fd)
            except OSError:
                self.drop(place.pack)
                raise

        try:
            return durable.again_if_stale(attempt)
        except FileNotFoundError as exc:
            raise self._missing(place) from exc
        except OSError as exc:
            raise Unreadable(
                f"object {place.entry.oid.hex()[:16]} cannot be read now "
                f"({self._catalog.path(place.pack)}: {exc.strerror}); the cell that made it will "
                "be executed again"
            ) from exc

    def _pack(self, name: bytes) -> _Pack:
        with self._lock:
            found = self._open.get(name)
            if found is not None:
                self._open.move_to_end(name)
                return found
        try:
            opened = _Pack(self._catalog.path(name))
        except OSError as exc:
            if exc.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            self.close()  # the session has many files open; these can be opened again
            opened = _Pack(self._catalog.path(name))
        with self._lock:
            self._open[name] = opened
            if len(self._open) > _OPEN_PACKS:
                self._open.popitem(last=False)
        return opened

    def _damaged(self, place: Location, why: str) -> ObjectDamaged:
        return ObjectDamaged(
            f"object {place.entry.oid.hex()[:16]} in {self._catalog.path(place.pack)} is damaged: "
            f"{why}; the cell that made it will be executed again"
        )

    def _missing(self, place: Location) -> ObjectMissing:
        return ObjectMissing(
            f"object {place.entry.oid.hex()[:16]} is missing: {self._catalog.path(place.pack)} "
            "is gone; the cell that made it will be executed again"
        )


def _read_pieces(fd: int, pieces: Sequence[memoryview], at: int) -> bool:
    """Read into one piece of memory after the other; False if the file ends before."""
    left = [piece for piece in pieces if piece.nbytes]
    while left:
        done = os.preadv(fd, left, at)
        if done == 0:
            return False
        at += done
        while left and done >= left[0].nbytes:
            done -= left[0].nbytes
            del left[0]
        if done:
            left[0] = left[0][done:]
    return True


def _plausible(part: Part) -> bool:
    """Whether an index entry may be believed enough to allocate what it says."""
    entry = part.place.entry
    expected = entry.stored if entry.codec == codec.RAW else entry.size
    return entry.size == part.target.nbytes == expected and entry.stored <= entry.size


def _decoded(part: Part, payload: memoryview) -> bool:
    """Put a payload's content where it belongs; whether it is right."""
    entry = part.place.entry
    if entry.codec != codec.RAW:
        try:
            part.target[:] = codec.decode(entry.codec, payload, entry.size)
        except ObjectDamaged:
            return False
    return object_id(part.target) == entry.oid
