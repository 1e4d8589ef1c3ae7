"""A session's side of its flusher: what waits, what has ended, and whom to send it to.

A commit is handed over by one small message; its objects lie in shared memory, and stay
there until the flusher says that the commit has ended. So another flusher can take over
when one is gone. Should none live long enough to end anything, the session's own process
does what they were to do.

A forked child has no part in it: what its parent handed over is its parent's.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from nbrewind.errors import NBRewindError, StoreNotWritable
from nbrewind.model.blobs import ObjectId
from nbrewind.model.refs import StoredRef
from nbrewind.model.spans import stopwatch
from nbrewind.store import arena, messages
from nbrewind.store.arena import Arena, Segment, Staged
from nbrewind.store.messages import Commit, Ended, GoneSegment, Hello, NewSegment, StagedCommit

if TYPE_CHECKING:
    from nbrewind.store.local import LocalStore

log = logging.getLogger(__name__)

Quietly = Callable[[], contextlib.AbstractContextManager[None]]

_FRUITLESS = 3
"""Flushers in a row that were gone before they ended a commit, until there is no other."""
_MOST_WAITING = 4096
_PACKAGES = ("nbrewind", "blake3", "xxhash", "msgspec", "zstandard", "cryptography", "cffi")
_VARIABLES = (
    "HOME",
    "PATH",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "TZ",
    "LD_LIBRARY_PATH",
    "XDG_CONFIG_HOME",
)
_PROGRAM = """
import os, sys
if os.fork(): os._exit(0)
import json
sys.path[:0] = json.loads(sys.argv[3])
from nbrewind.store.flusher import main
main(sys.argv[1], int(sys.argv[2]))
"""


@dataclass(eq=False)
class Handed:
    """A commit that was handed over."""

    number: int
    epoch: int
    commit: StagedCommit
    staged: Staged
    where: tuple[arena.Piece, ...]
    failed: Callable[[Exception], None]
    stored: StoredRef | None = None
    failure: Exception | None = None
    ended: threading.Event = field(default_factory=threading.Event)


class Flushing:
    """The commits of one session that have not ended, and the process that ends them.

    Args:
        store: The session's store.
        quietly: What background work is done within: nothing of it is the user's doing.
    """

    def __init__(self, store: LocalStore, quietly: Quietly = contextlib.nullcontext) -> None:
        self.arena = Arena(arena.budget(), self._announce)
        self.waiting_for_room: Callable[[], None] = lambda: None
        """Called when a commit has to wait because the arena is full."""
        self._store = store
        self._quietly = quietly
        self._owner = os.getpid()
        self._pid = 0
        self._changed = threading.Condition()
        self._sending = threading.RLock()
        self._handed: dict[int, Handed] = {}
        self._pending: dict[ObjectId, int] = {}
        self._numbers = 0
        self._epoch = 0
        self._base = 0
        self._fruitless = 0
        self._alone = False
        self._taken: list[Handed] = []
        self._closing = False
        self._connection = self._start()
        _sessions.add(self)
        self._thread = threading.Thread(target=self._serve, name="nbrewind-flushing", daemon=True)
        self._thread.start()

    @property
    def here(self) -> bool:
        """Whether this process is the one that hands over, and there is somebody to hand it to."""
        return self._owner == os.getpid() and not self._alone and not self._closing

    @property
    def pid(self) -> int:
        """The flusher's process; 0 until it has said so."""
        return self._pid

    @property
    def epoch(self) -> int:
        """Grows with every failure: a commit begun in an earlier epoch cannot end."""
        return self._epoch

    @property
    def captured(self) -> frozenset[ObjectId]:
        """Records of the commits that have not ended."""
        with self._changed:
            return frozenset(each.commit.body.record for each in self._handed.values())

    def holds(self, oid: ObjectId) -> bool:
        """Whether an object is part of a commit that has not ended."""
        return oid in self._pending and self._owner == os.getpid()

    def hand_over(
        self,
        commit: StagedCommit,
        staged: Staged,
        epoch: int,
        failed: Callable[[Exception], None],
    ) -> Handed:
        """Hand over a commit; it is captured when this returns.

        Args:
            commit: Its objects lie in the arena.
            staged: The part of the arena that is its own; given back when it has ended.
            epoch: `epoch` when the commit began.
            failed: Called, from another thread, if the commit fails.

        Raises:
            ArenaFullError: there is no memory for it.
        """
        where = staged.add(memoryview(messages.encode(commit)))
        with self._changed:
            while len(self._handed) >= _MOST_WAITING:
                self._changed.wait()
        with self._sending:
            with self._changed:
                handed = Handed(self._numbers, epoch, commit, staged, where, failed)
                self._numbers += 1
                self._handed[handed.number] = handed
                for each in commit.objects:
                    self._pending[each.oid] = handed.number
            self._send(Commit(handed.number, epoch - self._base, where))
        if self._alone:
            self._finish_here()
        return handed

    def wait(self, handed: Handed | None = None) -> None:
        """Wait until a commit, or every one handed over so far, has ended."""
        if self._owner != os.getpid():
            return
        with self._changed:
            while self._handed if handed is None else not handed.ended.is_set():
                self._changed.wait()

    def room(self) -> bool:
        """Wait until a commit has ended, so that a block may be free; False if none waits."""
        with self._changed:
            before = len(self._handed)
            if not before:
                return False
            self.waiting_for_room()
            while self._handed and len(self._handed) >= before:
                self._changed.wait()
        return True

    def close(self) -> None:
        """Wait until everything has ended, and let the flusher go."""
        if self._owner != os.getpid() or self._closing:
            return
        self.wait()
        self._closing = True
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)
        self._thread.join(10)
        self._connection.close()
        self.arena.close()

    # -- to the flusher -----------------------------------------------------------------------

    def _start(self) -> socket.socket:
        """Start a flusher; it is no child of this process, whose user may wait for children."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environ = {
            key: value
            for key, value in os.environ.items()
            if key in _VARIABLES or key.startswith("NBREWIND_")
        }
        number = theirs.fileno()
        command = [sys.executable, "-I", "-c", _PROGRAM, self._store.location, str(number)]
        try:
            with (
                theirs,
                subprocess.Popen(
                    [*command, json.dumps(_paths()), "nbrewind-flusher"],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env=environ,
                    pass_fds=[number],
                    start_new_session=True,
                ) as process,
            ):
                process.wait()
        except BaseException:
            ours.close()
            raise
        return ours

    def _announce(self, number: int, segment: Segment) -> None:
        with self._sending:
            self._send(NewSegment(number), segment.fd)

    def _send(self, message: messages.Request, *fds: int) -> None:
        """Send to the flusher there is; to one that comes after it, everything is sent anew."""
        with contextlib.suppress(OSError):
            socket.send_fds(self._connection, [messages.encode(message)], fds)

    def leave_to_parent(self) -> None:
        """This process is a forked child."""
        with contextlib.suppress(OSError):
            self._connection.close()  # lest the flusher waits for this process too

    # -- from the flusher ---------------------------------------------------------------------

    def _serve(self) -> None:
        with self._quietly():
            try:
                self.arena.grow()  # before it is needed
                self._listen()
            except Exception:
                # A fault of ours must not make anybody wait for ever.
                log.exception("this process writes to %s from now on", self._store.location)
                self._alone = True
                self._finish_here()

    def _listen(self) -> None:
        while True:
            answer = messages.receive_answer(self._connection)
            if isinstance(answer, Hello):
                self._pid = answer.pid
            elif answer is not None:
                self._fruitless = 0
                self._end(answer)
                self._tidy_arena()
            elif self._closing or not self._replace():
                return

    def _end(self, answer: Ended) -> None:
        stopwatch.note(answer.spans)
        handed = self._handed[answer.number]
        if answer.failure:
            failure = StoreNotWritable(answer.failure)
            self._conclude(handed, failure, max(self._epoch, self._base + answer.epoch))
            return
        try:
            handed.stored = self._store.noticed(handed.commit.body, answer.seq)
        except (NBRewindError, OSError) as failure:
            # The flusher knows of no failure: its count stays the measure.
            self._conclude(handed, failure, self._epoch)
        else:
            self._conclude(handed, None, self._epoch)

    def _conclude(self, handed: Handed, failure: Exception | None, epoch: int) -> None:
        handed.failure = failure
        handed.staged.release()
        with self._changed:
            self._epoch = epoch
        try:
            if failure is not None:
                handed.failed(failure)
        finally:
            # Whoever waits takes silence for success: this comes last.
            with self._changed:
                del self._handed[handed.number]
                for each in handed.commit.objects:
                    if self._pending.get(each.oid) == handed.number:
                        del self._pending[each.oid]
                handed.ended.set()
                self._changed.notify_all()

    def _tidy_arena(self) -> None:
        if self._handed:
            if self.arena.is_short():
                self.arena.grow()
            return
        for number in self.arena.shrink():
            with self._sending:
                self._send(GoneSegment(number))

    # -- when a flusher is gone ---------------------------------------------------------------

    def _replace(self) -> bool:
        """Send everything to another flusher; False if there is none."""
        self._fruitless += 1
        log.warning("the process that writes to %s is gone", self._store.location)
        with self._sending:
            self._connection.close()
            if self._fruitless <= _FRUITLESS:
                with contextlib.suppress(OSError):
                    self._connection = self._start()
                    self._base = self._epoch
                    for number, segment in self.arena.segments.items():
                        self._send(NewSegment(number), segment.fd)
                    for handed in [*self._handed.values()]:
                        epoch = handed.epoch - self._base
                        self._send(Commit(handed.number, epoch, handed.where, again=True))
                    return True
            self._alone = True
        self._finish_here()
        return False

    def _finish_here(self) -> None:
        """Do in this process what no flusher does."""
        while True:
            with self._changed:
                waiting = [each for each in self._handed.values() if each not in self._taken]
                if not waiting:
                    return
                handed = waiting[0]
                self._taken.append(handed)
            try:
                if handed.epoch != self._epoch:
                    raise StoreNotWritable("a commit before this one failed")
                writer = self._store.begin_here()
                commit = handed.commit
                writer.add_staged(commit.objects, commit.relies_on, handed.staged.read)
                handed.stored = writer.commit(handed.commit.body)
            except Exception as failure:
                self._conclude(handed, failure, self._epoch + 1)
            else:
                self._conclude(handed, None, self._epoch)


_sessions: weakref.WeakSet[Flushing] = weakref.WeakSet()


def _leave_to_parent() -> None:
    for session in list(_sessions):
        session.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)


def _paths() -> list[str]:
    """Where what the flusher imports is found; the notebook's own modules are not there."""
    found: dict[str, None] = {}
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            origin = Path(spec.origin)
            folder = origin.parent.parent if origin.name.startswith("__init__.") else origin.parent
            found[str(folder)] = None
    return list(found)
