"""Pack files: many objects in one file, each readable without the rest.

```
header   16 bytes   magic "NBRWPACK", format (u32), zero (u32)
records             each: 60-byte head, payload
index               64 bytes per object, sorted by id
tail     56 bytes   BLAKE3-256 of the index, entry count (u64), format (u32), zero (u32),
                    magic "NBRWTAIL"
```

A pack is named by the digest of its index. Every entry of the index has an object's
id, so the name stands for the content, at no cost; `docs/spec/store-format.md`.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

from blake3 import blake3

from nbrewind.errors import ObjectDamaged
from nbrewind.model.blobs import ObjectId
from nbrewind.store.abc import Kind
from nbrewind.store.durable import again_if_stale, close

PACK_FORMAT = 1
HEADER = struct.Struct("<8sII")
HEAD = struct.Struct("<4sBBHQQ32sI")
ENTRY = struct.Struct("<32sIBBHQQQ")
TAIL = struct.Struct("<32sQII8s")

PACK_MAGIC = b"NBRWPACK"
RECORD_MAGIC = b"NBRO"
TAIL_MAGIC = b"NBRWTAIL"

_FOOTER_READ = 16384
"""One read covers the footer of a typical commit."""

KINDS: tuple[Kind, ...] = ("chunk", "manifest", "record")
"""Object kinds; a kind's number is its position plus one."""


class Entry(NamedTuple):
    """One object as an index has it."""

    oid: ObjectId
    pack: int
    """Number of the pack in an index segment; 0 in a pack's own index."""
    kind: int
    codec: int
    offset: int
    """Of the payload, from the start of the pack."""
    stored: int
    """Bytes of the payload."""
    size: int
    """Bytes of the content."""

    def pack_bytes(self) -> bytes:
        """The entry as stored."""
        return ENTRY.pack(
            self.oid, self.pack, self.kind, self.codec, 0, self.offset, self.stored, self.size
        )


def entry_at(table: bytes, number: int) -> Entry:
    """An entry of an index."""
    oid, pack, kind, codec, _, offset, stored, size = ENTRY.unpack_from(table, number * ENTRY.size)
    return Entry(oid, pack, kind, codec, offset, stored, size)


def pack_header() -> bytes:
    """The first bytes of every pack."""
    return HEADER.pack(PACK_MAGIC, PACK_FORMAT, 0)


def record_head(kind: int, codec: int, stored: int, size: int, oid: ObjectId) -> bytes:
    """What precedes a payload, so that a pack can be read without its index."""
    fields = HEAD.pack(RECORD_MAGIC, kind, codec, 0, stored, size, oid, 0)[:-4]
    return fields + zlib.crc32(fields).to_bytes(4, "little")


def pack_footer(entries: Iterable[Entry]) -> tuple[bytes, bytes]:
    """The last bytes of a pack, and its name."""
    ordered = sorted(entries)
    index = b"".join(entry.pack_bytes() for entry in ordered)
    name = blake3(index).digest()
    return index + TAIL.pack(name, len(ordered), PACK_FORMAT, 0, TAIL_MAGIC), name


def read_index(path: str, name: bytes) -> bytes:
    """The verified index of the pack at `path`: 64 bytes per object, sorted by id.

    Raises:
        ObjectDamaged: the pack is torn, truncated, or not the one its name says.
        OSError: it cannot be read.
    """
    fd = again_if_stale(lambda: os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    try:
        size = os.fstat(fd).st_size

        def read_end(length: int) -> tuple[bytes, int]:
            start = max(0, size - length)
            return read_at(fd, start, size - start), size

        return index_from(read_end, name, path)
    finally:
        close(fd)


def index_from(read_end: Callable[[int], tuple[bytes, int]], name: bytes, place: str) -> bytes:
    """The verified index of a pack that is read from its end.

    Args:
        read_end: The last bytes of the pack, at most so many, and the size of the whole.
        name: Of the pack.
        place: Where it is, for messages.

    Raises:
        ObjectDamaged: the pack is torn, truncated, or not the one its name says.
    """
    last, size = read_end(_FOOTER_READ)
    if len(last) < TAIL.size or size < HEADER.size + TAIL.size:
        raise ObjectDamaged(f"{place} is truncated")
    digest, count, version, _, magic = TAIL.unpack(last[-TAIL.size :])
    if magic != TAIL_MAGIC or version != PACK_FORMAT:
        raise ObjectDamaged(f"{place} does not end like a pack: it is torn or damaged")
    needed = count * ENTRY.size + TAIL.size
    if size - needed < HEADER.size:
        raise ObjectDamaged(f"{place} is truncated")
    if len(last) < needed:
        last, _ = read_end(needed)
    index = last[-needed : -TAIL.size]
    if digest != name or blake3(index).digest() != name:
        raise ObjectDamaged(f"{place} does not have the content its name says")
    return index


def is_framed(path: str, entries: Iterable[Entry]) -> bool:
    """Whether all in a pack besides its payloads is as it was written.

    Readers do without most of that; a forward scan of a pack whose index is lost does not.

    Args:
        path: The pack.
        entries: All of its objects.

    Raises:
        OSError: it cannot be read.
    """
    found = sorted((entry._replace(pack=0) for entry in entries), key=lambda entry: entry.offset)
    with open(path, "rb") as file:
        if file.read(HEADER.size) != pack_header():
            return False
        at = HEADER.size
        for entry in found:
            head = record_head(entry.kind, entry.codec, entry.stored, entry.size, entry.oid)
            file.seek(at)
            if entry.offset != at + HEAD.size or file.read(HEAD.size) != head:
                return False
            at = entry.offset + entry.stored
        file.seek(at)
        return file.read() == pack_footer(found)[0]


def scan(path: str) -> list[Entry]:
    """The records of a pack found by reading it forward, without its index.

    Stops at the first head that is not whole; payloads are not verified.

    Raises:
        OSError: it cannot be read.
    """
    found: list[Entry] = []
    with open(path, "rb") as file:
        end = os.fstat(file.fileno()).st_size
        if not file.read(HEADER.size).startswith(PACK_MAGIC):
            return found
        at = HEADER.size
        while len(head := file.read(HEAD.size)) == HEAD.size:
            magic, kind, codec, _, stored, size, oid, crc = HEAD.unpack(head)
            at += HEAD.size
            if magic != RECORD_MAGIC or crc != zlib.crc32(head[:-4]) or at + stored > end:
                break
            found.append(Entry(oid, 0, kind, codec, at, stored, size))
            at += stored
            file.seek(at)
    return found


def read_at(fd: int, at: int, length: int) -> bytes:
    """Bytes of a file, fewer only at its end. Raises `OSError`."""
    parts = []
    while length:
        part = os.pread(fd, length, at)
        if not part:
            break
        parts.append(part)
        at += len(part)
        length -= len(part)
    return b"".join(parts)
