"""How bytes of any size are named: leaves of fixed size, and a digest over them."""

from __future__ import annotations

import msgspec

ObjectId = bytes
"""BLAKE3-256 of an object's uncompressed content: 32 bytes."""

LEAF_BYTES = 256 * 1024
"""Size of the leaves a blob digest is built from; part of every version, never changes."""


class BlobRef(msgspec.Struct, frozen=True, array_like=True):
    """A sequence of bytes kept in a store, whatever its chunking."""

    size: int
    """Length in bytes."""
    digest: bytes
    """BLAKE3-256 over the concatenated BLAKE3-256 digests of the leaves."""
    chunks: tuple[ObjectId, ...]
    """The store's chunks, in order; joined they are the content."""
