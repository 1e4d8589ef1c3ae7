"""Copies to a directory that is collected: what they rely on must not go meanwhile.

A promotion is a commit like any other to the collector of its target (see
`nbrewind.store.validation`): it holds the packs it is about to write, and looks again after a
ref is visible. Stores in buckets are not collected.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from nbrewind.model.blobs import ObjectId

if TYPE_CHECKING:
    from nbrewind.store.leases import Flight
    from nbrewind.store.local import LocalStore


class Guard:
    """Of a target that nobody collects: nothing to do."""

    def begin(self) -> None:
        """A pass begins; called before the target is listed."""

    def hold(self, packs: Iterable[ObjectId]) -> None:
        """These packs are about to be written."""

    def rely_on(self, packs: Iterable[ObjectId]) -> None:
        """These packs need not be written."""

    def confirm(self, record: ObjectId) -> None:
        """The ref of a record is visible.

        Raises:
            StoreNotWritable: something it needs was removed: the ref must be taken back.
        """

    def end(self) -> None:
        """The pass has ended."""

    def close(self) -> None:
        """Release what is held."""


class DirectoryGuard(Guard):
    """Of a store in a directory.

    Args:
        store: The store, opened for writing; closed with this guard.
    """

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self._flight: Flight | None = None
        self._doubtful: list[ObjectId] = []

    def begin(self) -> None:
        """See `Guard.begin`."""
        self._flight = self._store.lease.begin()
        self._store.follow_epochs(look=True)

    def hold(self, packs: Iterable[ObjectId]) -> None:
        """See `Guard.hold`."""
        assert self._flight is not None
        self._flight.hold_packs(packs)

    def rely_on(self, packs: Iterable[ObjectId]) -> None:
        """See `Guard.rely_on`."""
        self._doubtful = [pack for pack in packs if not self._store.is_staying(pack)]

    def confirm(self, record: ObjectId) -> None:
        """See `Guard.confirm`."""
        from nbrewind.store.validation import validate

        assert self._flight is not None
        validate(self._store, self._flight, record, self._doubtful)

    def end(self) -> None:
        """See `Guard.end`."""
        if self._flight is not None:
            self._flight.end()
            self._flight = None

    def close(self) -> None:
        """See `Guard.close`."""
        self._store.close()
