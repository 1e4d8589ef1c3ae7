"""Manifests: how a co-variable's bytes are kept."""

from __future__ import annotations

import msgspec

from nbrewind.model.blobs import BlobRef

MANIFEST_FORMAT = 2


def hash_mark() -> int:
    """Tells processes apart in which texts hash differently; never 0."""
    return hash("nbrewind") & 0xFFFFFFFF | 1


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One co-variable as stored: the stream of the tuple of its values, and its buffers."""

    format: int = MANIFEST_FORMAT
    names: tuple[str, ...]
    """Sorted names; `stream` loads to a tuple with one value for each."""
    stream: BlobRef
    """Pickle protocol 5 stream with out-of-band buffers, and perhaps a second one: see the spec."""
    buffers: tuple[BlobRef, ...]
    """The out-of-band buffers in order."""
    readonly: tuple[bool, ...]
    """For each buffer whether it was read-only."""
    codes: dict[str, BlobRef]
    """Marshalled code objects by canonical code digest; not part of the version."""
    hashes: int = 0
    """`hash_mark()` of the process that wrote it: elsewhere sets may come back in another order."""
    python: str
    """`major.minor` of the Python that wrote it; code objects need the same."""
