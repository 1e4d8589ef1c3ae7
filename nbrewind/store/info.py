"""What `nbrewind store info` shows."""

from __future__ import annotations

from typing import Literal

import msgspec

Level = Literal["captured", "local", "shared", "remote"]
"""What an execution survives: the kernel's death; power loss; the loss of this machine, in a
directory that others have too; the same, in object storage."""


class TierInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One store of a chain in figures."""

    location: str
    level: Level
    """What the records in it have reached."""
    bytes: int = 0
    packs: int = 0
    refs: int = 0
    missing_refs: int = 0
    """Records that are in the tier before it and not here."""
    problem: str = ""
    """Why it cannot be used at present; then the figures say nothing."""


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
    levels: dict[Level, int] = {}
    """Number of committed records by the highest level each has reached."""
    tiers: tuple[TierInfo, ...] = ()
    """Of a chain of stores, fastest first; the other figures are those of the first."""
