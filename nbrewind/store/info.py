"""What `nbrewind store info` shows."""

from __future__ import annotations

import msgspec


class StoreInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A store in figures."""

    location: str
    format: int
    bytes: int
    """Of all its files."""
    packs: int
    """Readable ones."""
    objects: dict[str, int]
    """Number of objects by kind."""
    refs: int
    """Readable ones: committed execution records."""
    trusted_refs: int
    untrusted_refs: int
    damaged: tuple[str, ...] = ()
    """A sentence about each pack and ref that was skipped."""
