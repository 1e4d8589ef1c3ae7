"""The end of commits: the steps, in order, that make what was added durable and visible.

Several commits can end together. They then share the synchronisation of directories,
and their files are synchronised side by side, for which a file system often needs no
more time than for one. The order of steps is that of a single commit: all packs of all
of them, the names of the packs, the refs, the names of the refs.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, TypeVar

import msgspec

from nbrewind.errors import NBRewindError, StoreNotWritable, TrustError
from nbrewind.model.blobs import ObjectId
from nbrewind.model.refs import RefBody, StoredRef
from nbrewind.store import durable
from nbrewind.store.catalog import pack_place
from nbrewind.store.pack_writer import PackWriter
from nbrewind.store.publish import RefFile
from nbrewind.store.validation import validate

if TYPE_CHECKING:
    from nbrewind.store.leases import Flight
    from nbrewind.store.local import LocalStore

log = logging.getLogger(__name__)

_T = TypeVar("_T")


class Ending:
    """What is left to do for one commit once all its objects were added.

    Args:
        store: The store.
        session: This process's temporary directory.
        packs: The packs with the commit's objects, unfinished.
        relies_on: Packs with objects that the commit did not have to add.
        body: The ref.
        flight: What the session's lease says of the commit.
    """

    def __init__(
        self,
        store: LocalStore,
        session: str,
        packs: Sequence[PackWriter],
        relies_on: Iterable[ObjectId],
        body: RefBody,
        flight: Flight,
    ) -> None:
        self.failure: Exception | None = None
        self.stored: StoredRef | None = None
        self._store = store
        self._session = session
        self._packs = packs
        self._relies_on = relies_on
        self._body = body
        self._flight = flight
        self._done: list[tuple[str, ObjectId, bytes]] = []
        self._ref: RefFile | None = None

    @property
    def staged(self) -> int:
        """Bytes that wait in memory."""
        return sum(pack.waiting for pack in self._packs)

    @property
    def ref(self) -> RefFile:
        """The ref, once it is written."""
        assert self._ref is not None
        return self._ref

    def write_packs(self) -> None:
        """Finish the packs under their temporary names, durably."""
        for pack in self._packs:
            name, index = pack.finish()
            self._done.append((pack.path, name, index))

    def name_packs(self) -> set[str]:
        """Move the packs to their names; returns the directories to synchronise.

        Another writer's pack is visible before its name is durable; a commit that relies on
        it waits for that too.
        """
        folders: set[str] = set()
        self._flight.hold_packs([name for _, name, _ in self._done])
        for path, name, _ in self._done:
            folder, file = pack_place(name)
            folder = os.path.join(self._store.location, "packs", folder)
            durable.make_directory(folder)
            durable.move(path, os.path.join(folder, file))
            folders.add(folder)
        for pack in self._relies_on:
            if self._store.unsettled(pack):
                folder = os.path.dirname(self._store.pack_path(pack))
                durable.make_directory(folder)
                folders.add(folder)
        return folders

    def write_ref(self) -> None:
        """Write the ref under a temporary name; the packs' names are durable now."""
        for _, name, index in self._done:
            self._store.pack_written(name, index)
        self._store.settled(self._relies_on)
        body = msgspec.structs.replace(
            self._body,
            objects=tuple(name for _, name, _ in self._done),
            seq=max(self._body.seq, self._store.next_seq(self._body.lineage)),
        )
        self._ref = RefFile(os.path.join(self._store.location, "refs"), self._session, body)
        durable.make_directory(self._ref.folder)
        self._ref.write()

    def validate(self) -> None:
        """Make sure, now that the ref is visible, that no collection takes what it needs."""
        # Its own packs, too: one with the objects of a condemned pack has the name of that.
        relies_on = {*self._relies_on, *self._flight.packs}
        validate(self._store, self._flight, self.ref.body.record, relies_on)

    def publish(self) -> None:
        """The ref's name is durable: the commit is acknowledged."""
        assert self.ref.signed is not None
        self.stored = self._store.published(self.ref.body, self.ref.signed)

    def fail(self, failure: Exception) -> None:
        """The commit has failed, for the reason that is told first."""
        if self.failure is None:
            if isinstance(failure, TrustError):
                failure = StoreNotWritable(f"nothing can be recorded: {failure}")
            elif isinstance(failure, OSError):
                path = str(failure.filename or self._store.location)
                failure = durable.not_writable(path, failure)
            self.failure = failure

    def discard(self) -> None:
        """Remove what is left in the temporary directory."""
        for pack in self._packs:
            pack.close()
            durable.discard(pack.path)
        if self._ref is not None and self.stored is None:
            self._ref.discard()
        self._flight.end()


def end_together(endings: Sequence[Ending], workers: Executor | None = None) -> None:
    """End commits; each has `stored` or `failure` afterwards.

    After one that fails the later ones fail as well: they may rely on what it was to add.

    Args:
        endings: The commits, in their order.
        workers: Threads that wait for the disk side by side.
    """
    try:
        standing = _step(endings, Ending.write_packs, workers)
        folders: dict[Ending, set[str]] = {}
        standing = _step(standing, lambda e: folders.update({e: e.name_packs()}), None)
        standing = _synchronise(standing, lambda e: sorted(folders[e]), workers)
        first = standing[:1]  # it makes the directory of the lineage
        standing = _step(first, Ending.write_ref, None) and standing
        standing = standing[:1] + _step(standing[1:], Ending.write_ref, workers)
        standing = linked = _step(standing, lambda e: e.ref.link(), None)
        standing = _synchronise(standing, lambda e: [e.ref.folder], None)
        standing = _step(standing, Ending.validate, None)
        for ending in linked[len(standing) :]:
            ending.ref.withdraw()
        _step(standing, Ending.publish, None)
    finally:
        why = next((e.failure for e in endings if e.failure is not None), None)
        for ending in endings:
            if ending.stored is None:
                ending.fail(why or StoreNotWritable("a commit was interrupted"))
            ending.discard()


def _step(
    endings: Sequence[Ending], step: Callable[[Ending], None], workers: Executor | None
) -> list[Ending]:
    """Do a step for each; returns those before the first that failed.

    Without workers, those after it are not tried: a step that is seen must not be done for them.
    """

    def attempt(ending: Ending) -> bool:
        try:
            step(ending)
        except (NBRewindError, OSError) as failure:
            ending.fail(failure)
        return ending.failure is None

    done = _all(attempt, endings, workers)
    return list(endings[: done.index(False)]) if False in done else list(endings)


def _synchronise(
    endings: list[Ending], folders_of: Callable[[Ending], list[str]], workers: Executor | None
) -> list[Ending]:
    """Make names durable; returns the commits before the first whose names may not be."""
    problems: dict[str, OSError] = {}

    def attempt(folder: str) -> None:
        try:
            durable.sync_directory(folder)
        except OSError as problem:
            problems[folder] = problem

    _all(attempt, list(dict.fromkeys(f for e in endings for f in folders_of(e))), workers)

    def check(ending: Ending) -> None:
        for folder in folders_of(ending):
            if folder in problems:
                raise problems[folder]

    return _step(endings, check, None)


def _all(
    function: Callable[[_T], bool | None], items: Sequence[_T], workers: Executor | None
) -> list[bool | None]:
    if workers is None or len(items) < 2:
        return list(_until_false(function, items))
    futures: list[Future[bool | None]] = []
    try:
        for item in items:
            futures.append(workers.submit(function, item))
    except RuntimeError:
        log.debug("the interpreter is going down and starts no threads any more")
    rest = items[len(futures) :]
    return [future.result() for future in futures] + list(_until_false(function, rest))


def _until_false(
    function: Callable[[_T], bool | None], items: Sequence[_T]
) -> Iterator[bool | None]:
    for item in items:
        done = function(item)
        yield done
        if done is False:
            return
