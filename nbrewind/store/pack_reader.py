"""Reading objects out of packs; everything read is verified against its id."""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict

from nbrewind.errors import ObjectDamaged, ObjectMissing
from nbrewind.model.blobs import LEAF_BYTES
from nbrewind.store import codec
from nbrewind.store.catalog import Catalog, Location
from nbrewind.store.leaves import object_id
from nbrewind.store.packs import KINDS

_OPEN_PACKS = 32
_MOST_GAIN = 65536
"""No real object is compressed further than zstd can: refuses to allocate for a lie."""


class PackReader:
    """Reads from packs, of which it keeps a few open. Safe to share between threads."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._open: OrderedDict[bytes, int] = OrderedDict()
        # Held during the read itself: another thread must not close the descriptor meanwhile.
        self._lock = threading.Lock()

    def read(self, place: Location) -> bytes:
        """The content of one copy of an object.

        Raises:
            ObjectMissing: its pack is gone.
            ObjectDamaged: it does not match its id.
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

    def drop(self, pack: bytes) -> None:
        """Close a pack: its file was replaced, or its server forgot it."""
        with self._lock:
            fd = self._open.pop(pack, None)
            if fd is not None:
                os.close(fd)

    def close(self) -> None:
        """Close all packs."""
        with self._lock:
            while self._open:
                os.close(self._open.popitem()[1])

    def _payload(self, place: Location, length: int) -> memoryview:
        with self._lock:
            size = self._size(place)
        if place.entry.offset + length > size:
            raise self._damaged(place, "its pack is truncated")
        payload = memoryview(bytearray(length))
        self._fill(place, payload)
        return payload

    def _size(self, place: Location) -> int:
        try:
            return os.fstat(self._descriptor(place.pack)).st_size
        except FileNotFoundError as exc:
            raise self._missing(place) from exc
        except OSError as exc:
            raise self._damaged(place, f"its pack cannot be read ({exc.strerror})") from exc

    def _fill(self, place: Location, target: memoryview) -> None:
        for attempt in (1, 2):
            try:
                with self._lock:
                    fd = self._descriptor(place.pack)
                    self._read_exactly(fd, place, target)
                return
            except FileNotFoundError as exc:
                raise self._missing(place) from exc
            except OSError as exc:
                if exc.errno != errno.ESTALE or attempt == 2:
                    raise self._damaged(place, f"its pack cannot be read ({exc.strerror})") from exc
                self.drop(place.pack)

    def _read_exactly(self, fd: int, place: Location, target: memoryview) -> None:
        at = place.entry.offset
        while target.nbytes:
            done = os.preadv(fd, [target], at)
            if done == 0:
                raise self._damaged(place, "its pack is truncated")
            at += done
            target = target[done:]

    def _descriptor(self, pack: bytes) -> int:
        fd = self._open.get(pack)
        if fd is not None:
            self._open.move_to_end(pack)
            return fd
        fd = os.open(self._catalog.path(pack), os.O_RDONLY | os.O_CLOEXEC)
        self._open[pack] = fd
        if len(self._open) > _OPEN_PACKS:
            os.close(self._open.popitem(last=False)[1])
        return fd

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
