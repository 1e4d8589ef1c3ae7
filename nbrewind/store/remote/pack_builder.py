"""One pack put together in memory: files of a bucket are written whole."""

from __future__ import annotations

from nbrewind.model.blobs import ObjectId
from nbrewind.store.packs import HEAD, TAIL, Entry, pack_footer, pack_header, record_head


class PackBuilder:
    """A pack being filled; what is added is copied."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = [pack_header()]
        self._entries: list[Entry] = []
        self.size = len(self._pieces[0])
        """Bytes added so far."""

    def add(
        self, kind: int, codec: int, payload: bytes | memoryview, size: int, oid: ObjectId
    ) -> None:
        """Append an object."""
        stored = len(payload)
        self._pieces += [record_head(kind, codec, stored, size, oid), bytes(payload)]
        self._entries.append(Entry(oid, 0, kind, codec, self.size + HEAD.size, stored, size))
        self.size += HEAD.size + stored

    def finish(self) -> tuple[ObjectId, bytes, bytes]:
        """The pack's name, its index and all of it."""
        footer, name = pack_footer(self._entries)
        content = b"".join([*self._pieces, footer])
        self._pieces.clear()
        return name, footer[: -TAIL.size], content
