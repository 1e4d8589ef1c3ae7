"""Writing one pack to a temporary file: large sequential writes, one `fsync` at its end."""

from __future__ import annotations

import errno
import logging
import os

from nbrewind.errors import ObjectDamaged
from nbrewind.model.blobs import ObjectId
from nbrewind.model.spans import stopwatch
from nbrewind.store import codec as codecs
from nbrewind.store import durable
from nbrewind.store.leaves import object_id
from nbrewind.store.packs import (
    ENTRY,
    HEAD,
    TAIL,
    Entry,
    pack_footer,
    pack_header,
    read_at,
    record_head,
)
from nbrewind.store.staging import Copies

_log = logging.getLogger(__name__)

_WRITE_BYTES = 4 * 1024 * 1024
_COPY_BYTES = 32 * 1024
"""Smaller payloads are copied; larger ones are written from the caller's memory."""


class PackWriter:
    """A pack being written. Methods raise `OSError`; the caller discards the file.

    Args:
        path: The file, which is made when something is written to it.
        copies: Keep copies of all payloads there until `finish`, which may then be called
            by another thread; without, they are written as they come.
    """

    def __init__(self, path: str, copies: Copies | None = None) -> None:
        self.path = path
        self._fd = -1
        self._copies = copies
        self._pieces: list[bytes | memoryview] = [pack_header()]
        self.waiting = 0
        """Bytes added and not written yet."""
        self._borrowed = False
        self._entries: list[Entry] = []
        self.size = len(self._pieces[0])
        """Bytes added so far."""

    def add(
        self, kind: int, codec: int, payload: bytes | memoryview, size: int, oid: ObjectId
    ) -> None:
        """Append an object; `payload` must stay as it is until `settle`."""
        stored = len(payload)
        if isinstance(payload, memoryview):
            if stored < _COPY_BYTES:
                payload = bytes(payload)
            elif self._copies is not None:
                payload = self._copies.copy(payload)
            else:
                self._borrowed = True
        self._pieces += [record_head(kind, codec, stored, size, oid), payload]
        self._entries.append(Entry(oid, 0, kind, codec, self.size + HEAD.size, stored, size))
        self.size += HEAD.size + stored
        self.waiting += HEAD.size + stored
        if self.waiting >= _WRITE_BYTES and self._copies is None:
            self._flush()

    def settle(self) -> None:
        """Stop referring to the caller's memory."""
        if self._borrowed:
            self._flush()

    def finish(self) -> tuple[ObjectId, bytes]:
        """Complete the pack durably and close it; returns its name and index."""
        footer, name = pack_footer(self._entries)
        self._pieces.append(footer)
        self._flush()
        self.size += len(footer)
        try:
            durable.sync_file(self._fd)
        except OSError as exc:
            if exc.errno != errno.EIO:
                raise
            _log.warning("fsync of %s failed: it is written once more", self.path)
            self._write_anew(footer)
        self.close()
        return name, footer[: -TAIL.size]

    def close(self) -> None:
        """Close the file; a no-op after `finish`."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            durable.close(fd)
        self._pieces.clear()
        if self._copies is not None:
            self._copies.release()

    def _flush(self) -> None:
        if self._fd < 0:
            self._fd = durable.create(self.path)
        with stopwatch.measure("write", self.waiting):
            durable.write_all(self._fd, self._pieces)
        self._pieces.clear()
        self.waiting = 0
        self._borrowed = False

    def _write_anew(self, footer: bytes) -> None:
        """Copy to another file what is still right of this one, verified, and use that."""
        path = self.path + "-2"
        fd = durable.create(path)
        try:
            durable.write_all(fd, [pack_header()])
            for entry in self._entries:
                payload = read_at(self._fd, entry.offset, entry.stored)
                try:
                    content = codecs.decode(entry.codec, payload, entry.size)
                except ObjectDamaged as exc:
                    raise OSError(errno.EIO, str(exc)) from exc
                if object_id(content) != entry.oid:
                    raise OSError(errno.EIO, "written data was lost")
                head = record_head(entry.kind, entry.codec, entry.stored, entry.size, entry.oid)
                durable.write_all(fd, [head, payload])
            durable.write_all(fd, [footer])
            durable.sync_file(fd)
        except OSError:
            durable.discard(path)
            raise
        finally:
            durable.close(fd)
        os.rename(path, self.path)


ENTRY_OVERHEAD = HEAD.size + ENTRY.size
"""Bytes an object takes besides its payload."""
