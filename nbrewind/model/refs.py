"""Refs: the signed names under which execution records are committed."""

from __future__ import annotations

import msgspec

from nbrewind.model.blobs import ObjectId

REF_FORMAT = 1


class RefBody(msgspec.Struct, frozen=True, kw_only=True):
    """What a ref says; signed as a whole."""

    format: int = REF_FORMAT
    lineage: str
    """Hex uuid of the session that committed it."""
    seq: int
    """Position in the lineage, from 0; claimed by creating the ref's file."""
    source_digest: str
    """The key records are looked up by."""
    record: ObjectId
    objects: tuple[ObjectId, ...] = ()
    """Pack files this commit wrote, so that a reader finds them without a scan."""
    notebook: str = ""
    cell_id: str = ""
    ordinal: int = -1
    created: float = 0.0
    """Seconds since the epoch, UTC."""
    status: str = "ok"
    writer: str = ""
    """`host:boot id:pid:uuid` of the process."""


class StoredRef(msgspec.Struct, frozen=True, kw_only=True):
    """A ref as found in a store."""

    body: RefBody
    key: bytes
    """Ed25519 public key it is signed with: 32 bytes."""
    trusted: bool
    """The signature is valid and the key is trusted on this machine."""
