"""A layer between the store's modules and the operating system, where faults happen.

It stands in for the modules `os` and `time` and for the built-in `open` in the namespaces
of `nbrewind.store.*`, so the code under test is the code that ships. Only paths below its
root are touched. `fsync` of those is not passed on: whether it was asked for is what counts
here, and a disk makes a thousand runs slow (`durable=True` passes it on).
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import importlib
import io
import os
import pkgutil
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import IO, Any, TypeVar

import nbrewind.store
from nbrewind.testing.faults.plan import Fault, Operation, Plan
from nbrewind.testing.faults.power import Journal

_T = TypeVar("_T")

Path = str | os.PathLike[str]


class Layer:
    """Performs operations on files below `root`, or the faults of a plan instead.

    Args:
        root: The folder.
        plan: The faults.
        journal: Is told what happens to files, so that a power failure can be played later.
        durable: Pass `fsync` on.
    """

    def __init__(
        self, root: Path, plan: Plan, journal: Journal | None = None, *, durable: bool = False
    ) -> None:
        self.root = os.path.abspath(root)
        self.plan = plan
        self.journal = journal
        self.clock = 0.0
        """What the clock is ahead, in seconds."""
        self._durable = durable
        self._paths: dict[int, str] = {}
        self._lock = threading.Lock()
        self.os: Any = _FaultyOS(self)
        self.time: Any = _FaultyTime(self)

    def below(self, path: object) -> str | None:
        """A path relative to the root; None if it is elsewhere."""
        if isinstance(path, int):
            return self._paths.get(path)
        text = os.path.abspath(os.fsdecode(path))  # type: ignore[arg-type]
        if text == self.root:
            return "."
        return text[len(self.root) + 1 :] if text.startswith(self.root + os.sep) else None

    def opened(self, fd: int, path: str) -> None:
        """A descriptor belongs to a file below the root."""
        self._paths[fd] = path

    def closed(self, fd: int) -> None:
        """A descriptor is about to be closed."""
        self._paths.pop(fd, None)

    def perform(self, operation: Operation, path: str, action: Callable[[], _T]) -> _T:
        """Do something, or fail at it."""
        fault = self.plan.due(operation, path)
        if fault is None:
            return action()
        if fault.effect == "delay":
            time.sleep(fault.amount)
        elif fault.effect == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault.effect == "killed":
            action()
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault.effect == "lost":
            action()
            raise self.failure(fault, path)
        elif fault.effect in ("error", "partial", "drop"):
            raise self.failure(fault, path)
        return action()

    def write(self, fd: int, path: str, pieces: Sequence[Any]) -> int:
        """Write, perhaps less than everything."""
        data = b"".join(bytes(memoryview(piece).cast("B")) for piece in pieces)
        fault = self.plan.due("write", path)
        if fault is not None and fault.effect in ("short", "partial") and len(data) > 1:
            data = data[: max(1, len(data) // 3)]
            self._written(fd, data)
            if fault.effect == "partial":
                raise self.failure(fault, path)
            return len(data)
        if fault is not None:
            self._strike(fault, path, lambda: self._written(fd, data))
        return self._written(fd, data)

    def _written(self, fd: int, data: bytes) -> int:
        at = os.lseek(fd, 0, os.SEEK_CUR)
        done = os.write(fd, data)
        if self.journal is not None:
            self.journal.write(os.fstat(fd).st_ino, at, data[:done])
        return done

    def fsync(self, fd: int, path: str) -> None:
        """Synchronise a file or directory."""
        info = os.fstat(fd)
        folder = stat.S_ISDIR(info.st_mode)
        fault = self.plan.due("sync directory" if folder else "fsync", path)
        mark = self.journal.begin() if self.journal is not None else 0

        def action() -> None:
            if self._durable:
                os.fsync(fd)
            if self.journal is not None:
                self.journal.sync(path if folder else info.st_ino, mark)

        if fault is not None:
            if fault.effect == "drop" and not folder:
                half = info.st_size // 2
                os.pwrite(fd, bytes(info.st_size - half), half)
            self._strike(fault, path, action)
        action()

    def _strike(self, fault: Fault, path: str, action: Callable[[], object]) -> None:
        """What a fault does that either ends the operation or precedes it."""
        if fault.effect == "delay":
            time.sleep(fault.amount)
        elif fault.effect == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault.effect == "killed":
            action()
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault.effect != "short":
            if fault.effect == "lost":
                action()
            raise self.failure(fault, path)

    def failure(self, fault: Fault, path: str) -> OSError:
        """The error of a fault."""
        number = fault.errno or errno.EIO
        return OSError(number, os.strerror(number), os.path.join(self.root, path))

    @contextlib.contextmanager
    def installed(self) -> Iterator[Layer]:
        """Stand between the store's modules and the system meanwhile."""
        undo = self.install()
        try:
            yield self
        finally:
            undo()

    def install(self) -> Callable[[], None]:
        """Stand between the store's modules and the system; returns what ends that."""
        kept: list[tuple[ModuleType, str, Any]] = []
        for module in _modules():
            names = vars(module)
            for name, ours in (("os", self.os), ("time", self.time), ("open", self.os.open_file)):
                if name == "open" or isinstance(names.get(name), ModuleType):
                    kept.append((module, name, names.get(name)))
                    setattr(module, name, ours)

        def undo() -> None:
            for module, name, before in kept:
                if before is None:
                    delattr(module, name)
                else:
                    setattr(module, name, before)

        return undo


def _modules() -> list[ModuleType]:
    """The modules of the store, all of them imported."""
    for found in pkgutil.walk_packages(nbrewind.store.__path__, "nbrewind.store."):
        with contextlib.suppress(ImportError):  # a backend whose library is not installed
            importlib.import_module(found.name)
    return [
        module
        for name, module in list(sys.modules.items())
        if name == "nbrewind.store" or name.startswith("nbrewind.store.")
    ]


class _FaultyTime:
    """The module `time`, with a clock that may jump."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def _look(self) -> float:
        fault = self._layer.plan.due("clock", "")
        if fault is not None and fault.effect == "lie":
            self._layer.clock += fault.amount
        return self._layer.clock

    def time(self) -> float:
        return time.time() + self._look()

    def time_ns(self) -> int:
        return time.time_ns() + int(self._look() * 1e9)


class _FaultyPath:
    """The module `os.path`, asking the layer about files."""

    def __init__(self, faulty: _FaultyOS) -> None:
        self._os = faulty

    def __getattr__(self, name: str) -> Any:
        return getattr(os.path, name)

    def exists(self, path: Any) -> bool:
        try:
            self._os.stat(path)
        except (OSError, ValueError):
            return False
        return True

    def isdir(self, path: Any) -> bool:
        try:
            return stat.S_ISDIR(self._os.stat(path).st_mode)
        except (OSError, ValueError):
            return False

    def getsize(self, path: Any) -> int:
        return int(self._os.stat(path).st_size)


class _FaultyOS:
    """The module `os`, as far as a store uses it, by way of a layer."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self.path = _FaultyPath(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        below = self._layer.below(path) if "dir_fd" not in more else None
        if below is None:
            return os.open(path, flags, mode, **more)
        new = bool(flags & os.O_CREAT) and not os.path.lexists(path)

        opened: list[int] = []

        def action() -> int:
            fd = os.open(path, flags, mode)
            opened.append(fd)
            if new and self._layer.journal is not None:
                self._layer.journal.created(os.fstat(fd).st_ino)
                self._entered(below, os.fstat(fd).st_ino)
            return fd

        try:
            fd = self._layer.perform("create" if flags & os.O_CREAT else "open", below, action)
        except OSError:
            for fd in opened:  # the answer was lost: nobody has the descriptor
                os.close(fd)
            raise
        self._layer.opened(fd, below)
        return fd

    def open_file(self, file: Any, mode: str = "r", buffering: int = -1, **more: Any) -> IO[Any]:
        """The built-in `open`."""
        if isinstance(file, int) or self._layer.below(file) is None:
            return builtins.open(file, mode, buffering, **more)
        plain = mode.replace("b", "").replace("t", "")
        flags = {"r": os.O_RDONLY, "r+": os.O_RDWR}.get(plain)
        if flags is None:
            flags = (os.O_RDWR if "+" in plain else os.O_WRONLY) | os.O_CREAT
            flags |= {"x": os.O_EXCL, "w": os.O_TRUNC, "a": os.O_APPEND}[plain[0]]
        fd = self.open(file, flags | os.O_CLOEXEC, 0o666)
        raw = _FaultyFile(fd, plain, self._layer)
        if buffering == 0:
            return raw
        buffered: Any = io.BufferedReader(raw) if plain == "r" else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, **more)

    def close(self, fd: int) -> None:
        below = self._layer.below(fd)
        if below is None:
            os.close(fd)
            return
        self._layer.closed(fd)
        os.close(fd)  # a failed close has closed
        self._layer.perform("close", below, lambda: None)

    def write(self, fd: int, data: Any) -> int:
        return self.writev(fd, [data])

    def writev(self, fd: int, pieces: Sequence[Any]) -> int:
        below = self._layer.below(fd)
        if below is None:
            return os.writev(fd, pieces)
        return self._layer.write(fd, below, pieces)

    def read(self, fd: int, length: int) -> bytes:
        return self._read(fd, lambda: os.read(fd, length))

    def pread(self, fd: int, length: int, at: int) -> bytes:
        return self._read(fd, lambda: os.pread(fd, length, at), lambda: os.pread(fd, 1, at))

    def preadv(self, fd: int, targets: Sequence[Any], at: int) -> int:
        def short() -> int:
            part = [memoryview(targets[0]).cast("B")[: max(1, memoryview(targets[0]).nbytes // 3)]]
            return os.preadv(fd, part, at)

        return self._read(fd, lambda: os.preadv(fd, targets, at), short)

    def _read(self, fd: int, action: Callable[[], _T], short: Callable[[], _T] | None = None) -> _T:
        below = self._layer.below(fd)
        if below is None:
            return action()
        before = len(self._layer.plan.hit)
        result = self._layer.perform("read", below, action)
        hit = self._layer.plan.hit[before:]
        if short is not None and any(f.effect == "short" for f, path in hit if path == below):
            return short()
        return result

    def fsync(self, fd: int) -> None:
        below = self._layer.below(fd)
        if below is None:
            os.fsync(fd)
        else:
            self._layer.fsync(fd, below)

    fdatasync = fsync

    def stat(self, path: Any, **more: Any) -> os.stat_result:
        return self._stat(path, lambda: os.stat(path, **more))

    def lstat(self, path: Any) -> os.stat_result:
        return self._stat(path, lambda: os.lstat(path))

    def fstat(self, fd: int) -> os.stat_result:
        return self._stat(fd, lambda: os.fstat(fd))

    def _stat(self, path: Any, action: Callable[[], os.stat_result]) -> os.stat_result:
        below = self._layer.below(path)
        if below is None:
            return action()
        before = len(self._layer.plan.hit)
        info = self._layer.perform("stat", below, action)
        for fault, _ in self._layer.plan.hit[before:]:
            if fault.effect == "lie":
                fields = list(info)
                fields[stat.ST_NLINK] = int(fault.amount)
                return os.stat_result(fields, {name: getattr(info, name) for name in _MORE})
        return info

    def access(self, path: Any, mode: int) -> bool:
        below = self._layer.below(path)
        if below is None:
            return os.access(path, mode)
        try:
            return self._layer.perform("stat", below, lambda: os.access(path, mode))
        except OSError:
            return False

    def listdir(self, path: Any = ".") -> list[str]:
        return self._simple("list", path, lambda: os.listdir(path))

    def scandir(self, path: Any = ".") -> Any:
        return self._simple("list", path, lambda: os.scandir(path))

    def link(self, source: Any, target: Any, **more: Any) -> None:
        def action() -> None:
            os.link(source, target, **more)
            self._entered(self._layer.below(target), os.stat(target).st_ino)

        self._simple("link", target, action)

    def rename(self, source: Any, target: Any) -> None:
        def action() -> None:
            os.replace(source, target)
            self._left(source)
            self._entered(self._layer.below(target), os.stat(target).st_ino)

        self._simple("rename", target, action)

    replace = rename

    def unlink(self, path: Any) -> None:
        def action() -> None:
            os.unlink(path)
            self._left(path)

        self._simple("unlink", path, action)

    remove = unlink

    def mkdir(self, path: Any, mode: int = 0o777) -> None:
        def action() -> None:
            os.mkdir(path, mode)
            self._entered(self._layer.below(path), None)

        self._simple("mkdir", path, action)

    def makedirs(self, path: Any, mode: int = 0o777, exist_ok: bool = False) -> None:
        if os.path.isdir(path) and exist_ok:
            return
        parent = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(parent):
            self.makedirs(parent, mode, exist_ok=True)
        try:
            self.mkdir(path, mode)
        except FileExistsError:
            if not exist_ok or not os.path.isdir(path):
                raise

    def rmdir(self, path: Any) -> None:
        def action() -> None:
            os.rmdir(path)
            self._left(path)

        self._simple("rmdir", path, action)

    def _simple(self, operation: Operation, path: Any, action: Callable[[], _T]) -> _T:
        below = self._layer.below(path)
        return action() if below is None else self._layer.perform(operation, below, action)

    def _entered(self, path: str | None, node: int | None) -> None:
        if self._layer.journal is not None and path is not None:
            self._layer.journal.enter(path, node)

    def _left(self, path: Any) -> None:
        below = self._layer.below(path)
        if self._layer.journal is not None and below is not None:
            self._layer.journal.leave(below)


_MORE = ("st_atime_ns", "st_mtime_ns", "st_ctime_ns", "st_blksize", "st_blocks", "st_rdev")


class _FaultyFile(io.FileIO):
    """What the built-in `open` is based on."""

    def __init__(self, fd: int, mode: str, layer: Layer) -> None:
        super().__init__(fd, mode)
        self._layer = layer

    def readinto(self, target: Any) -> int:
        data = self._layer.os._read(self.fileno(), lambda: os.read(self.fileno(), len(target)))
        target[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        return self._layer.os._read(self.fileno(), super().readall)  # type: ignore[no-any-return]

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            return self.readall()
        fd = self.fileno()
        return self._layer.os.read(fd, size)  # type: ignore[no-any-return]

    def write(self, data: Any) -> int:
        return self._layer.os.write(self.fileno(), data)  # type: ignore[no-any-return]

    def close(self) -> None:
        if self.closed:
            return
        below = self._layer.below(self.fileno())
        self._layer.closed(self.fileno())
        super().close()
        if below is not None:
            self._layer.perform("close", below, lambda: None)
