"""The stores of a chain: opened when they can be, left alone for a while when they fail."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from nbrewind.errors import NBRewindError, StoreFormatError, StoreNotWritable
from nbrewind.store import places
from nbrewind.store.abc import Store
from nbrewind.store.info import Level
from nbrewind.store.leaves import LeafHasher
from nbrewind.store.local import open_store as open_directory
from nbrewind.store.remote.files import Files
from nbrewind.store.remote.retrying import Patience
from nbrewind.store.tiers.guard import DirectoryGuard, Guard

_log = logging.getLogger(__name__)

_AGAIN_SECONDS = 30.0
"""A tier that failed is not asked for so long."""
HURRIED = Patience(attempts=2, first=0.2)
"""For those who read while a person waits."""
_HURRIED_SECONDS = 30.0
"""After which a request of theirs has failed."""


def level_of(place: str, number: int) -> Level:
    """What a record in a tier has reached.

    Args:
        place: Of the tier.
        number: Counted from the fastest, 0.
    """
    if places.is_bucket(place):
        return "remote"
    return "local" if number == 0 else "shared"


def open_files(place: str) -> Files:
    """The files of a tier, whose store exists; requests are not repeated."""
    if places.is_bucket(place):
        from nbrewind.store.remote.bucket import BucketFiles

        return BucketFiles(place, Patience(attempts=1))
    from nbrewind.store.remote.folder import FolderFiles

    return FolderFiles(place)


def guarded(place: str) -> Guard:
    """Make sure that there is a store that can be written, and guard it; raises as `open_store`."""
    hasher = LeafHasher(capacity=1)
    if places.is_bucket(place):
        open_single(place, create=True, read_only=False, hasher=hasher).close()
        return Guard()
    return DirectoryGuard(open_directory(place, hasher=hasher))


def open_single(place: str, *, create: bool, read_only: bool, hasher: LeafHasher) -> Store:
    """Open the store of one slower tier; raises as `open_store`."""
    if places.is_bucket(place):
        from nbrewind.store.remote.bucket import BucketFiles
        from nbrewind.store.remote.store import open_bucket

        files = BucketFiles(place, HURRIED, _HURRIED_SECONDS)
        return open_bucket(place, create=create, read_only=read_only, hasher=hasher, files=files)
    return open_directory(place, create=create, read_only=read_only, hasher=hasher)


class Tier:
    """A store of a chain that may be out of reach.

    Args:
        place: Where it is.
        number: Its place in the chain, from 0.
        hasher: Shared by all.
        create: Make a store there if there is none.
        read_only: Write nothing there.
        store: The store, if it is open already.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        place: str,
        number: int,
        *,
        hasher: LeafHasher,
        create: bool,
        read_only: bool,
        store: Store | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.place = place
        self.level = level_of(place, number)
        self.problem = ""
        """Why it could not be used when it was tried last."""
        self._store = store
        self._create = create
        self._read_only = read_only
        self._hasher = hasher
        self._clock = clock
        self._not_before = 0.0
        self._warned = False

    @property
    def store(self) -> Store | None:
        """The store; None while it is out of reach."""
        if self._clock() < self._not_before:
            return None
        if self._store is None:
            try:
                self._store = self._open()
            except (NBRewindError, OSError) as problem:
                self.failed(problem)
                return None
            self.problem = ""
        return self._store

    def failed(self, problem: Exception) -> None:
        """It did not answer: it is left alone for a while, which is said once."""
        self.problem = str(problem)
        self._not_before = self._clock() + _AGAIN_SECONDS
        if not self._warned:
            _log.warning("the tier %s is not used at present: %s", self.place, problem)
        self._warned = True

    def close(self) -> None:
        """Close the store if it is open."""
        if self._store is not None:
            self._store.close()

    def _open(self) -> Store:
        try:
            return open_single(
                self.place, create=self._create, read_only=self._read_only, hasher=self._hasher
            )
        except StoreNotWritable:
            return open_single(self.place, create=False, read_only=True, hasher=self._hasher)
        except StoreFormatError:
            if self._create:
                raise
            raise StoreFormatError(f"there is no store in {self.place} yet") from None
