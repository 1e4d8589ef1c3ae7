"""The kernel's side of a launch: work to the ranks, output and results back, and their end.

One thread does it all, the one that launches: a loop over sockets. Signals are noted by
handlers and passed on from the loop, so that nothing is cut off in the middle.
"""

from __future__ import annotations

import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import msgspec

from nbrewind.errors import LaunchError, RankFailed
from nbrewind.state.file_events import LAUNCHER
from nbrewind.training.context import outputs
from nbrewind.training.launching import frames
from nbrewind.training.launching.agent import Ended, Job, Verdict
from nbrewind.training.launching.console import Console
from nbrewind.training.launching.frames import Failure, Hello, Incoming, Kind
from nbrewind.training.launching.hanging import Watch
from nbrewind.training.launching.rank import ADDRESS, TOKEN

_TICK = 0.2
_PIECE = 1 << 16
_STARTING = 900.0
"""Seconds that ranks have to connect: torch alone may take a minute from a slow disk."""


@dataclass
class _Rank:
    """What is known of one rank."""

    control: socket.socket | None = None
    pid: int = 0
    host: str = ""
    unsent: list[memoryview] = field(default_factory=list)
    result: bytes | None = None
    failure: Failure | None = None
    ended: Ended | None = None
    lost: float = 0.0
    """When its connection broke without a word, in seconds since the epoch."""


@dataclass
class _Connection:
    socket: socket.socket
    rank: int = -1
    channel: str = ""
    incoming: Incoming = field(default_factory=Incoming)


class Supervisor:
    """One launch.

    Args:
        ranks: how many.
        work: what each of them is to run, encoded.
        grace: seconds that ranks have to end after an interrupt, or after one failed.
        timeout: seconds after which a rank that others wait for counts as hanging; None: never.
        environ: environment of the ranks.
    """

    def __init__(
        self,
        ranks: int,
        work: bytes,
        *,
        grace: float,
        timeout: float | None,
        environ: dict[str, str],
    ) -> None:
        self._ranks = [_Rank() for _ in range(ranks)]
        self._work = work
        self._grace = grace
        self._environ = environ
        self._token = secrets.token_hex(16)
        self._selector = selectors.DefaultSelector()
        digits = len(str(ranks - 1))
        self._consoles = {"out": Console(sys.stdout, digits), "err": Console(sys.stderr, digits)}
        self._watch = Watch(ranks, timeout)
        self._signals: list[int] = []
        self._passed = 0
        self._stop_at: float | None = None
        self._hanging = ""
        self._verdict = b""
        self._noise = bytearray()

    def run(self) -> list[bytes]:
        """Start the ranks and wait until all have ended.

        Returns:
            The result of each rank, pickled.

        Raises:
            RankFailed: the code of a rank raised, or its process ended or hung.
            LaunchError: the ranks could not be started.
            KeyboardInterrupt: a signal told the ranks to end.
        """
        __tracebackhide__ = True  # IPython leaves such frames out
        with _listening() as (listener, address), self._signals_noted():
            self._selector.register(listener, selectors.EVENT_READ, "listener")
            process = self._start_agent(address)
            try:
                self._loop(process)
            finally:
                self._end(process)
        return self._outcome()

    # -- starting ------------------------------------------------------------------------

    def _start_agent(self, address: str) -> subprocess.Popen[bytes]:
        environ = {**self._environ, ADDRESS: address, TOKEN: self._token}
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", LAUNCHER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ,
            start_new_session=True,  # Ctrl-C reaches ranks through us, in order
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        job = Job(
            ranks=len(self._ranks),
            nodes=1,
            run=self._token[:8],
            endpoint="localhost:0",
            address="localhost",
            grace=max(1, round(self._grace)),
            kernel=os.getpid(),
        )
        with suppress(BrokenPipeError):  # it ended at once; what it said tells why
            process.stdin.write(msgspec.json.encode(job) + b"\n")
            process.stdin.flush()
        self._selector.register(process.stdout, selectors.EVENT_READ, "verdict")
        self._selector.register(process.stderr, selectors.EVENT_READ, "noise")
        return process

    # -- the loop ------------------------------------------------------------------------

    def _loop(self, process: subprocess.Popen[bytes]) -> None:
        started = time.monotonic()
        open_pipes = 2
        while open_pipes:
            self._pass_signals_on()
            if self._stop_at is not None and time.monotonic() > self._stop_at:
                return
            for key, events in self._selector.select(_TICK):
                if key.data == "listener":
                    self._accept(key.fileobj)  # type: ignore[arg-type]
                elif isinstance(key.data, str):
                    open_pipes -= self._read_pipe(key.fileobj, key.data)
                else:
                    self._serve(key.data, events)
            if self._watch.is_time():
                self._ask_where()
            self._hanging = self._watch.hanging()
            if self._hanging:
                return
            missing = [n for n, rank in enumerate(self._ranks) if rank.control is None]
            if missing and time.monotonic() - started > _STARTING:
                return
        self._drain()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            connected, _ = listener.accept()
            connected.setblocking(False)
            self._selector.register(connected, selectors.EVENT_READ, _Connection(connected))

    def _read_pipe(self, pipe: Any, what: str) -> int:
        data = os.read(pipe.fileno(), _PIECE)
        if not data:
            self._selector.unregister(pipe)
            return 1
        if what == "verdict":
            self._verdict += data
        else:
            self._noise += data
            del self._noise[:-_PIECE]
        return 0

    def _serve(self, connection: _Connection, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._send_on(connection)
        if events & selectors.EVENT_READ:
            self._read(connection)

    def _read(self, connection: _Connection) -> bool:
        """Take what a connection brings; returns whether there may be more."""
        try:
            data = connection.socket.recv(_PIECE)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._close(connection)
            return False
        if connection.channel in self._consoles:
            self._print(connection, data)
            return True
        for kind, body in connection.incoming.feed(data):
            if connection.rank >= 0:
                self._take(self._ranks[connection.rank], connection.rank, kind, body)
            elif not self._greet(connection, kind, body):
                self._close(connection)
                return False
            if connection.channel in self._consoles:
                self._print(connection, connection.incoming.rest())
                break
        return True

    def _print(self, connection: _Connection, data: bytes) -> None:
        if data:
            self._watch.got_on(connection.rank)
            self._consoles[connection.channel].feed(connection.rank, data)

    def _greet(self, connection: _Connection, kind: Kind, body: bytes) -> bool:
        """A new connection says who it is; returns whether it may stay."""
        try:
            hello = msgspec.msgpack.decode(body, type=Hello)
        except msgspec.MsgspecError:
            return False
        known = secrets.compare_digest(hello.token, self._token)
        if kind is not Kind.HELLO or not known or not 0 <= hello.rank < len(self._ranks):
            return False
        connection.rank, connection.channel = hello.rank, hello.channel
        if hello.channel == "control":
            rank = self._ranks[hello.rank]
            rank.control, rank.pid, rank.host = connection.socket, hello.pid, hello.host
            self._watch.got_on(hello.rank)
            self._send(hello.rank, Kind.WORK, self._work)
        return True

    def _take(self, rank: _Rank, number: int, kind: Kind, body: bytes) -> None:
        if kind is Kind.RESULT:
            rank.result = body
            self._watch.ended(number)
        elif kind is Kind.ERROR:
            rank.failure = msgspec.msgpack.decode(body, type=Failure)
            rank.lost = rank.lost or time.time()
            self._watch.ended(number)
        elif kind is Kind.SEEN:
            self._watch.seen(number, msgspec.msgpack.decode(body, type=frames.Position))
        elif kind is Kind.OUTPUTS:
            self._read_output()  # what was written before it asked belongs to it
            kept = outputs()
            self._send(number, Kind.OUTPUTS, kept.so_far() if kept is not None else b"")
        elif kind is Kind.SHOW and (kept := outputs()) is not None:
            self._read_output()
            kept.show_again(body)

    def _close(self, connection: _Connection) -> None:
        with suppress(KeyError):
            self._selector.unregister(connection.socket)
        connection.socket.close()
        if connection.rank < 0:
            return
        if connection.channel in self._consoles:
            self._consoles[connection.channel].end(connection.rank)
            return
        rank = self._ranks[connection.rank]
        rank.unsent.clear()
        self._watch.ended(connection.rank)
        if rank.result is None and not rank.lost:
            rank.lost = time.time()

    def _send(self, number: int, kind: Kind, body: bytes) -> None:
        rank = self._ranks[number]
        if rank.control is None or rank.control.fileno() < 0:
            return
        rank.unsent += frames.encode(kind, body)
        key = self._selector.get_key(rank.control)
        self._selector.modify(rank.control, selectors.EVENT_READ | selectors.EVENT_WRITE, key.data)

    def _send_on(self, connection: _Connection) -> None:
        unsent = self._ranks[connection.rank].unsent
        try:
            while unsent:
                count = connection.socket.send(unsent[0])
                if count < len(unsent[0]):
                    unsent[0] = unsent[0][count:]
                    return
                unsent.pop(0)
        except BlockingIOError:
            return
        except OSError:
            unsent.clear()  # reading will tell that the rank has gone
        self._selector.modify(connection.socket, selectors.EVENT_READ, connection)

    def _read_output(self) -> None:
        """Show what ranks have written by now."""
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, _Connection) and key.data.channel in self._consoles:
                while self._read(key.data):
                    continue

    def _drain(self) -> None:
        """Read what ranks wrote before they ended. What they started may keep sockets open."""
        again = True
        while again:
            again = False
            for key, _ in self._selector.select(0):
                if isinstance(key.data, _Connection) and self._read(key.data):
                    again = True
                elif key.data == "listener":
                    self._accept(key.fileobj)  # type: ignore[arg-type]
                    again = True

    # -- signals and hanging ranks -------------------------------------------------------

    @contextmanager
    def _signals_noted(self) -> Iterator[None]:
        """While this lasts, signals are noted for the ranks; SIGTERM then ends the kernel."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before: dict[int, Any] = {}
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            known = signal.getsignal(number)
            if number == signal.SIGUSR1 and known is not signal.SIG_DFL:
                continue  # the notebook has use for it
            before[number] = signal.signal(number, self._note_signal)
        try:
            yield
        finally:
            for taken, handler in before.items():
                signal.signal(taken, handler)
            if signal.SIGTERM in self._signals:
                os.kill(os.getpid(), signal.SIGTERM)

    def _note_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signals.append(number)

    def _pass_signals_on(self) -> None:
        for number in self._signals[self._passed :]:
            for rank in range(len(self._ranks)):
                self._send(rank, Kind.SIGNAL, msgspec.msgpack.encode(int(number)))
            now = time.monotonic()
            # Asked a second time, they are given no more time.
            self._stop_at = now + self._grace if self._stop_at is None else now
            self._passed += 1

    def _ask_where(self) -> None:
        for number in self._watch.asked():
            self._send(number, Kind.LOOK, b"")

    # -- the end -------------------------------------------------------------------------

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Make sure that nothing goes on, whatever state it is in."""
        assert process.stdin is not None
        if process.poll() is None:
            # It kills itself when its input is closed, and the system its ranks with it.
            with suppress(OSError):
                process.stdin.close()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._drain()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, _Connection):
                self._close(key.data)
        self._selector.close()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        here = socket.gethostname()
        kill_groups(
            [rank.pid for rank in self._ranks if rank.pid and rank.host == here], self._token
        )

    def _outcome(self) -> list[bytes]:
        __tracebackhide__ = True
        if self._signals:
            names = ", ".join(sorted({signal.Signals(n).name for n in self._signals}))
            raise KeyboardInterrupt(f"{names}: the ranks were told to end")
        if self._hanging:
            raise RankFailed(self._hanging)
        try:
            verdict = msgspec.json.decode(self._verdict, type=Verdict)
        except msgspec.MsgspecError:
            verdict = Verdict(problem="the process that starts the ranks was killed")
            if any(rank.lost for rank in self._ranks):
                raise LaunchError(f"{verdict.problem}, and they ended with it") from None
        for ended in verdict.failed:
            self._ranks[ended.rank].ended = ended
        results = [rank.result for rank in self._ranks]
        if any(rank.failure or rank.ended or rank.result is None for rank in self._ranks):
            if not any(rank.failure or rank.ended or rank.lost for rank in self._ranks):
                noise = self._noise.decode(errors="replace").strip()
                raise LaunchError(
                    f"the ranks could not be started: {verdict.problem}\n{noise[-2000:]}".rstrip()
                )
            raise RankFailed(describe(self._ranks))
        return [result for result in results if result is not None]


def describe(ranks: Sequence[_Rank]) -> str:
    """Which rank failed first, and how."""
    failed = [
        (rank.ended.moment if rank.ended and not rank.failure else rank.lost or time.time(), n)
        for n, rank in enumerate(ranks)
        if rank.failure or rank.ended or rank.result is None
    ]
    # A rank that raised or was killed on its own comes before those that were ended for it.
    order = sorted(failed, key=lambda one: (_was_ended(ranks[one[1]]), one))
    number = order[0][1]
    rank = ranks[number]
    text = f"rank {number} of {len(ranks)} {_how(rank)}"
    if rank.failure is not None:
        text += f"\n{rank.failure.traceback.rstrip()}"
    others = [str(n) for _, n in order[1:] if not _was_ended(ranks[n])]
    if others:
        text += f"\n(and after it: rank {', '.join(others)})"
    return text


def _was_ended(rank: _Rank) -> bool:
    """Whether it looks as if a rank was only ended because another failed."""
    if rank.failure is not None:
        return False
    return rank.ended is None or rank.ended.code in (-signal.SIGTERM, 143)


def _how(rank: _Rank) -> str:
    code = rank.ended.code if rank.ended is not None else None
    if rank.failure is not None:
        shown = f"{rank.failure.type}: {rank.failure.message}".rstrip(": ")
        ended = f" (exit code {code})" if code is not None else ""
        return f"failed{ended}: {shown}"
    if code is not None and code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name} (exit code {code})"
        except ValueError:
            return f"was killed by signal {-code} (exit code {code})"
    if code is not None:
        return f"ended without a word (exit code {code})"
    return "was lost"


@contextmanager
def _listening() -> Iterator[tuple[socket.socket, str]]:
    """A socket for the ranks of this machine, and its address; it leaves no file behind."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        if sys.platform.startswith("linux"):
            name = f"nbrewind-{secrets.token_hex(12)}"
            listener.bind(f"\0{name}")
            listener.listen(1024)
            listener.setblocking(False)
            yield listener, f"@{name}"
            return
        with tempfile.TemporaryDirectory(prefix="nbr") as folder:
            path = os.path.join(folder, "s")
            listener.bind(path)
            listener.listen(1024)
            listener.setblocking(False)
            yield listener, path


def kill_groups(leaders: Sequence[int], token: str) -> None:
    """Kill what ranks started and left: each rank leads a group of processes of its own."""
    for leader in leaders:
        try:
            os.killpg(leader, 0)
        except (ProcessLookupError, PermissionError):
            continue
        for pid in _members(leader):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    ours = token.encode() in file.read()
                if ours:
                    os.kill(pid, signal.SIGKILL)
            except OSError:
                continue  # ended meanwhile


def _members(leader: int) -> list[int]:
    found = []
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if not name.isdigit():
            continue
        with suppress(OSError):
            if os.getpgid(int(name)) == leader:
                found.append(int(name))
    return found
