"""Opening a store wherever it is."""

from __future__ import annotations

import os

from nbrewind.store import places
from nbrewind.store.abc import Store
from nbrewind.store.flushing import Quietly
from nbrewind.store.leaves import LeafHasher
from nbrewind.store.local import open_store as open_directory


def open_store(
    place: str | os.PathLike[str],
    *,
    create: bool = True,
    read_only: bool = False,
    hasher: LeafHasher | None = None,
    flusher: Quietly | None = None,
) -> Store:
    """Open the store in a directory or a bucket.

    Args:
        place: A directory, usually `.nbrewind` next to the notebook, or `s3://bucket/prefix`.
        create: Make a store there if there is none.
        read_only: Write nothing at all, not even into an existing store.
        hasher: Shares what was hashed already with whoever else uses it.
        flusher: Commit to a directory through a process of its own; see `local.open_store`.

    Raises:
        StoreFormatError: there is no store, or it is not of a format this version knows.
        StoreNotWritable: it cannot be written, and `read_only` was not asked for.
        StoreUnreachable: its server does not answer, or refuses access.
    """
    text = os.fspath(place)
    if places.is_bucket(text):
        from nbrewind.store.remote.store import open_bucket

        return open_bucket(text, create=create, read_only=read_only, hasher=hasher)
    return open_directory(text, create=create, read_only=read_only, hasher=hasher, flusher=flusher)
