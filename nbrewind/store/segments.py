"""Index segments: the indexes of many packs in one file, so that opening stays fast.

```
magic    8 bytes    "NBRWIDX", then the version 1
counts   12 bytes   number of packs (u32), number of entries (u64)
packs    32 bytes each: their names
entries  64 bytes each, as in a pack, sorted by id; `pack` numbers the names
digest   32 bytes   BLAKE3-256 of everything before; also the file's name
```

Segments are a cache: they can be removed at any time and are rebuilt from the packs.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
import uuid
from bisect import bisect_left
from collections.abc import Iterator, Mapping

from blake3 import blake3

from nbrewind.errors import ObjectDamaged
from nbrewind.model.blobs import ObjectId
from nbrewind.store.durable import discard
from nbrewind.store.packs import ENTRY, Entry, entry_at

MAGIC = b"NBRWIDX\x01"
SUFFIX = ".idx"

_TEMPORARY = ".tmp"
_ABANDONED_SECONDS = 24 * 3600
"""Age from which an unfinished file is taken for one that its writer will not finish."""
_COUNTS = struct.Struct("<IQ")
_ID_BYTES = 32


class Segment:
    """A segment in memory, searched in place."""

    def __init__(self, content: bytes) -> None:
        """Takes a segment file's content.

        Raises:
            ObjectDamaged: it is not one, or damaged.
        """
        head = len(MAGIC) + _COUNTS.size
        if content[: len(MAGIC)] != MAGIC or len(content) < head + _ID_BYTES:
            raise ObjectDamaged("not an index segment")
        packs, self.count = _COUNTS.unpack_from(content, len(MAGIC))
        start = head + packs * _ID_BYTES
        end = start + self.count * ENTRY.size
        if len(content) != end + _ID_BYTES:
            raise ObjectDamaged("an index segment is truncated")
        if blake3(content[:end]).digest() != content[end:]:
            raise ObjectDamaged("an index segment is damaged")
        self.packs = [content[at : at + _ID_BYTES] for at in range(head, start, _ID_BYTES)]
        self._table = content[start:end]

    def find(self, oid: ObjectId) -> Iterator[Entry]:
        """The entries of one object."""
        at = bisect_left(range(self.count), oid, key=self._id)
        while at < self.count and self._id(at) == oid:
            yield entry_at(self._table, at)
            at += 1

    def __iter__(self) -> Iterator[Entry]:
        for number in range(self.count):
            yield entry_at(self._table, number)

    def rows(self) -> Iterator[bytes]:
        """The entries as stored."""
        for at in range(0, len(self._table), ENTRY.size):
            yield self._table[at : at + ENTRY.size]

    def _id(self, number: int) -> bytes:
        at = number * ENTRY.size
        return self._table[at : at + _ID_BYTES]


def build(indexes: Mapping[ObjectId, bytes]) -> bytes:
    """The content of a segment over packs, given the index of each."""
    rows: list[bytes] = []
    for number, index in enumerate(indexes.values()):
        pack = number.to_bytes(4, "little")
        for at in range(0, len(index), ENTRY.size):
            end = at + ENTRY.size
            rows.append(index[at : at + _ID_BYTES] + pack + index[at + _ID_BYTES + 4 : end])
    rows.sort()
    content = b"".join([MAGIC, _COUNTS.pack(len(indexes), len(rows)), *indexes, *rows])
    return content + blake3(content).digest()


def split(segment: Segment) -> dict[ObjectId, bytes]:
    """The index of each pack of a segment; the reverse of `build`."""
    rows: list[list[bytes]] = [[] for _ in segment.packs]
    for row in segment.rows():
        pack = int.from_bytes(row[_ID_BYTES : _ID_BYTES + 4], "little")
        rows[pack].append(row[:_ID_BYTES] + bytes(4) + row[_ID_BYTES + 4 :])
    return {name: b"".join(part) for name, part in zip(segment.packs, rows, strict=True)}


def file_name(content: bytes) -> str:
    """The name of a segment file."""
    return content[-_ID_BYTES:].hex() + SUFFIX


def read(path: str) -> Segment:
    """A segment from its file.

    Raises:
        ObjectDamaged: it is damaged.
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        content = file.read()
    if os.path.basename(path) != file_name(content):
        raise ObjectDamaged(f"{path} does not have the content its name says")
    return Segment(content)


def publish(folder: str, name: str, content: bytes) -> None:
    """Write a file of a cache. It is not synchronised: its digest shows a torn one.

    Raises:
        OSError: it cannot be written.
    """
    temporary = os.path.join(folder, uuid.uuid4().hex + _TEMPORARY)
    try:
        _tidy(folder)
        with open(temporary, "xb") as file:
            file.write(content)
        os.rename(temporary, os.path.join(folder, name))
    except OSError:
        discard(temporary)
        raise


def _tidy(folder: str) -> None:
    """Remove what interrupted writers left."""
    for name in os.listdir(folder):
        if name.endswith(_TEMPORARY):
            path = os.path.join(folder, name)
            with contextlib.suppress(FileNotFoundError):  # its writer has just finished it
                if time.time() - os.stat(path).st_mtime > _ABANDONED_SECONDS:
                    discard(path)
