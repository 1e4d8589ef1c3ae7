"""Leases: what the sessions at work in a store need, and since which epoch they look.

`sessions/<session>.lease` is replaced whole by its session, `sessions/<session>.fenced` is
made by a collector that takes the session for gone. Leases carry no times: their counter
grows, and an observer's own clock tells how long it has not.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable

import msgspec

from nbrewind.errors import ObjectDamaged
from nbrewind.model.blobs import ObjectId
from nbrewind.store import durable, rules
from nbrewind.store.epochs import Epochs
from nbrewind.store.sealed import seal, unseal
from nbrewind.store.session import is_alive, is_dead

_log = logging.getLogger(__name__)

MAGIC = b"NBRWLEA\x01"
FOLDER = "sessions"
LEASE = ".lease"
FENCED = ".fenced"

BEAT_SECONDS = 300.0
"""Between renewals by a process that has nothing else to do; far below any patience."""
_IDLE_SECONDS = 2.0
"""Between looks whether a lease says more than needed."""


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """What a session says of itself."""

    counter: int = 0
    epoch: int | None = None
    """The epoch of its oldest commit in flight; None if there is none."""
    holds: tuple[ObjectId, ...] = ()
    """Manifests and records that its namespace refers to."""
    packs: tuple[ObjectId, ...] = ()
    """Packs that its commits in flight have added."""
    vouches: tuple[str, ...] = ()
    """Other sessions whose processes it sees alive: they may be too busy to renew theirs."""


def _covers(written: Lease, needed: Lease, *, exactly: bool) -> bool:
    """Whether what is written protects all that has to be; with `exactly`, nothing else."""
    if exactly:
        return written == needed
    return (
        needed.epoch in (None, written.epoch)
        and written.vouches == needed.vouches
        and set(needed.holds) <= set(written.holds)
        and set(needed.packs) <= set(written.packs)
    )


UNKNOWN = Lease(epoch=-1)
"""Stands for a session that says nothing that can be read: it acknowledges nothing."""


def read_leases(root: str) -> dict[str, Lease]:
    """The leases of all sessions that are not fenced or known to be dead.

    A session of `tmp` without a lease, of an older version perhaps, counts as `UNKNOWN`.

    Raises:
        OSError: they cannot be listed.
    """
    found: dict[str, Lease] = {}
    seen: set[str] = set()
    # A session that was fenced takes a new lease before it drops the old one: look until
    # nothing new appears, lest it is overlooked between the two.
    while unseen := _names(root) - seen:
        for name in unseen:
            seen.add(name)
            if not is_fenced(root, name) and not is_dead(os.path.join(root, "tmp"), name):
                found[name] = _read(root, name)
    return found


def _names(root: str) -> set[str]:
    try:
        listed = os.listdir(os.path.join(root, FOLDER))
    except FileNotFoundError:
        listed = []
    names = {name.removesuffix(LEASE) for name in listed if name.endswith(LEASE)}
    for name in os.listdir(os.path.join(root, "tmp")):
        # A lease that was renewed is named after its session, too.
        if "~" in name and not any(lease.startswith(name) for lease in names):
            names.add(name)
    return names


def _read(root: str, name: str) -> Lease:
    try:
        with open(_path(root, name, LEASE), "rb") as file:
            return unseal(MAGIC, file.read(), Lease)
    except FileNotFoundError:
        if not os.path.isdir(os.path.join(root, "tmp", name)):
            return Lease()  # it has ended meanwhile
        return UNKNOWN
    except (OSError, ObjectDamaged) as exc:
        _log.warning("the lease of %s cannot be read: %s", name, exc)
        return UNKNOWN


def is_fenced(root: str, name: str) -> bool:
    """Whether a collector takes a session for gone. Raises `OSError` if that is not to be seen."""
    return durable.exists(_path(root, name, FENCED))


def fence(root: str, name: str) -> None:
    """Take a session for gone, so that it can find out; durable before its lease is ignored."""
    folder = os.path.join(root, FOLDER)
    durable.make_directory(folder)
    try:
        durable.close(durable.create(_path(root, name, FENCED)))
    except FileExistsError:
        return
    durable.sync_directory(folder)


def remove_dead(root: str) -> None:
    """Remove the leases of sessions of this machine whose process is gone, no others."""
    try:
        listed = os.listdir(os.path.join(root, FOLDER))
    except OSError:
        return
    for file in listed:
        name, suffix = os.path.splitext(file)
        if suffix in (LEASE, FENCED) and is_dead(os.path.join(root, "tmp"), name):
            durable.discard(os.path.join(root, FOLDER, file))


def _path(root: str, name: str, suffix: str) -> str:
    return os.path.join(root, FOLDER, name + suffix)


class Flight:
    """A commit in flight: what it makes its session's lease say. Made by `LeaseHolder.begin`."""

    def __init__(self, lease: LeaseHolder, began: int, generation: int) -> None:
        self.began = began
        """The epoch it is bound by."""
        self.generation = generation
        self.packs: list[ObjectId] = []
        """Packs it has added."""
        self._lease = lease

    @property
    def session(self) -> str:
        """Its process's temporary directory."""
        return self._lease.session()

    def hold_packs(self, packs: Iterable[ObjectId]) -> None:
        """It is about to add packs. Raises `OSError`: then it must not."""
        self.packs += packs
        self._lease.update(self)

    def end(self) -> None:
        """It has ended; may be called again."""
        self._lease.end(self)


class LeaseHolder:
    """The lease of one process. Safe to use from several threads.

    Args:
        root: The store.
        epochs: Its epochs.
        session: Gives the process's directory in `tmp`, and makes one if need be.
    """

    def __init__(self, root: str, epochs: Epochs, session: Callable[[], str]) -> None:
        self._root = root
        self._epochs = epochs
        self.session = session
        self._lock = threading.RLock()
        self._name = ""
        self._pid = 0
        self._counter = 0
        self._written: Lease | None = None
        self._generation = 0
        self._in_flight: list[Flight] = []
        self._holds: frozenset[ObjectId] = frozenset()
        self._kept: list[ObjectId] = []
        self._vouches: tuple[str, ...] = ()
        self._stopped = threading.Event()
        self._beating = False

    @property
    def holds(self) -> frozenset[ObjectId]:
        """What the session's values are in."""
        return self._holds

    def begin(self) -> Flight:
        """A commit begins, bound by what was decided up to the newest epoch.

        Raises:
            OSError: the lease cannot be written.
        """
        with self._lock:
            self._check_fork()
            while True:
                flight = Flight(self, self._epochs.newest().number, self._generation)
                self._in_flight.append(flight)
                try:
                    self._write()
                except OSError:
                    self._in_flight.remove(flight)
                    raise
                # Only what was written before the next epoch appears protects from it.
                if self._epochs.newest().number == flight.began:
                    return flight
                self._in_flight.remove(flight)

    def update(self, flight: Flight) -> None:
        """What a commit in flight holds has changed. Raises `OSError`."""
        with self._lock:
            if flight in self._in_flight:
                self._write()

    def end(self, flight: Flight) -> None:
        """A commit has ended."""
        with self._lock:
            if flight not in self._in_flight:
                return
            self._in_flight.remove(flight)
            if not self._beating:  # else the thread says it, unless the next commit comes first
                self._shrink()

    def keep_packs(self, packs: Iterable[ObjectId]) -> None:
        """Hold packs as long as the session lives. Raises `OSError`."""
        with self._lock:
            self._check_fork()
            self._kept += packs
            self._write()

    def hold(self, oids: Iterable[ObjectId]) -> None:
        """From now on, the session's values are in these objects. Raises `OSError`."""
        with self._lock:
            self._check_fork()
            before = self._holds
            self._holds = frozenset(oids)
            if not self._holds <= before:
                self._write()  # what is held no longer can wait for the next time

    def is_fenced(self, flight: Flight | None = None) -> bool:
        """Whether a collector took this session for gone; with `flight`, since that began."""
        with self._lock:
            renewed = flight is not None and flight.generation != self._generation
            return renewed or (self._pid == os.getpid() and self._lost())

    def renew(self) -> None:
        """Take a new lease in place of one that was fenced. Raises `OSError`."""
        with self._lock:
            old, tmp = self._name, os.path.join(self._root, "tmp")
            self._name = ""
            self._written = None
            session = self.session()
            self._name = f"{os.path.basename(session)}{os.urandom(4).hex()}"
            self._write()
            self._generation += 1
            for suffix in (LEASE, FENCED):
                durable.discard(_path(self._root, old, suffix))
            _log.warning("the lease %s in %s had expired: a new one was taken", old, tmp)

    def beat(self) -> None:
        """Renew the lease, and vouch for the sessions of this machine that are alive."""
        with self._lock:
            if self._pid != os.getpid() or not self._name:
                return
            self._vouches = tuple(sorted(n for n in _names(self._root) if is_alive(n)))
            self._written = None
            if not self._lost():
                self._write()

    def keep_beating(self) -> None:
        """Renew the lease from a thread until `close`; for a process that runs no user code."""
        self._beating = True
        threading.Thread(target=self._beat_on, name="nbrewind-lease", daemon=True).start()

    def close(self) -> None:
        """The session is over."""
        self._stopped.set()
        with self._lock:
            if self._pid == os.getpid() and self._name:
                for suffix in (LEASE, FENCED):
                    durable.discard(_path(self._root, self._name, suffix))
            self._name = ""
            self._written = None

    def _beat_on(self) -> None:
        waited = 0.0
        while not self._stopped.wait(_IDLE_SECONDS):
            waited += _IDLE_SECONDS
            with self._lock:
                if self._pid == os.getpid() and self._name and not self._in_flight:
                    self._shrink()
            if waited >= BEAT_SECONDS:
                waited = 0.0
                try:
                    self.beat()
                except OSError as exc:
                    _log.info("the lease was not renewed: %s", exc)

    def _shrink(self) -> None:
        """Stop saying more than needed."""
        try:
            self._write(exactly=True)
        except OSError as exc:
            _log.info("the lease says more than needed, until the next commit: %s", exc)

    def _lost(self) -> bool:
        if self._written is None or not self._name:
            return False
        gone = not durable.exists(_path(self._root, self._name, LEASE))
        return gone or is_fenced(self._root, self._name)

    def _check_fork(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._name = ""
            self._written = None
            self._in_flight = []
            self._holds = frozenset()
            self._kept = []

    def _write(self, *, exactly: bool = False) -> None:
        epochs = [flight.began for flight in self._in_flight]
        packs = [pack for flight in self._in_flight for pack in flight.packs]
        lease = Lease(
            epoch=rules.acknowledges(epochs),
            holds=tuple(sorted(self._holds)),
            packs=(*self._kept, *packs),
            vouches=self._vouches,
        )
        if self._written is not None and _covers(self._written, lease, exactly=exactly):
            return
        session = self.session()
        self._name = self._name or os.path.basename(session)
        self._counter += 1
        content = seal(MAGIC, msgspec.structs.replace(lease, counter=self._counter))
        temporary = os.path.join(session, LEASE)
        folder = os.path.join(self._root, FOLDER)
        # Not synchronised: a lease need not survive what its session does not.
        durable.discard(temporary)
        try:
            fd = durable.create(temporary)
            try:
                durable.write_all(fd, [content])
            finally:
                durable.close(fd)
            try:
                durable.move(temporary, os.path.join(folder, self._name + LEASE))
            except FileNotFoundError:
                durable.make_directory(folder)
                durable.move(temporary, os.path.join(folder, self._name + LEASE))
        except OSError:
            durable.discard(temporary)
            raise
        self._written = lease
