"""Opening a store wherever it is."""

from __future__ import annotations

import logging
import os

from nbrewind.errors import StoreFormatError
from nbrewind.store import places
from nbrewind.store.abc import Store
from nbrewind.store.flushing import Quietly
from nbrewind.store.leaves import LeafHasher
from nbrewind.store.local import open_store as open_directory

_log = logging.getLogger(__name__)


def open_store(
    place: str | os.PathLike[str],
    *,
    create: bool = True,
    read_only: bool = False,
    hasher: LeafHasher | None = None,
    flusher: Quietly | None = None,
) -> Store:
    """Open the store in a directory or a bucket, or a chain of them.

    Args:
        place: A directory, usually `.nbrewind` next to the notebook, or `s3://bucket/prefix`; or
            several, fastest first, with commas between them. Commits to a chain go to the first;
            a process in the background copies them to the others.
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
    if len(chain := places.tiers_of(text)) > 1:
        return _open_chain(
            chain, create=create, read_only=read_only, hasher=hasher, flusher=flusher
        )
    if places.is_bucket(text):
        from nbrewind.store.remote.store import open_bucket

        return open_bucket(text, create=create, read_only=read_only, hasher=hasher)
    return open_directory(text, create=create, read_only=read_only, hasher=hasher, flusher=flusher)


def _open_chain(
    chain: tuple[str, ...],
    *,
    create: bool,
    read_only: bool,
    hasher: LeafHasher | None,
    flusher: Quietly | None,
) -> Store:
    from nbrewind.store.tiers import promoter
    from nbrewind.store.tiers.chain import Tier
    from nbrewind.store.tiers.store import TieredStore

    hasher = hasher or LeafHasher()
    start, first = _first_of(
        chain, create=create, read_only=read_only, hasher=hasher, flusher=flusher
    )
    tiers = [
        Tier(
            place,
            number,
            hasher=hasher,
            create=create and not read_only,
            read_only=read_only,
            store=first if number == start else None,
        )
        for number, place in enumerate(chain)
        if number >= start
    ]
    if read_only or flusher is None:
        return TieredStore(tiers)
    try:
        with flusher():
            stop = promoter.start(chain)
    except OSError as problem:
        _log.warning("nothing is copied to slower tiers in the background: %s", problem)
        return TieredStore(tiers)
    return TieredStore(tiers, stop)


def _first_of(
    chain: tuple[str, ...],
    *,
    create: bool,
    read_only: bool,
    hasher: LeafHasher,
    flusher: Quietly | None,
) -> tuple[int, Store]:
    """The fastest tier: for those who only read, the first there is; with its number.

    A node's own disk is empty before its first job, and not there on other machines.
    """
    missing: StoreFormatError | None = None
    for number, place in enumerate(chain):
        try:
            return number, open_store(
                place, create=create, read_only=read_only, hasher=hasher, flusher=flusher
            )
        except StoreFormatError as problem:
            if not read_only or not places.is_missing_directory(place):
                raise
            missing = missing or problem
    assert missing is not None
    raise missing
