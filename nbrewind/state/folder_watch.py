"""What any process did to the files of a folder, by inotify: also code in C, and children.

`FolderWatch` watches the notebook's folder with all that is below it, and whatever else
it is asked to. It tells what happened between `begin` and `end`, one `Traffic` per path,
and whether that is all of it. It cannot tell who did it: `unseen` judges that.
"""

from __future__ import annotations

import _thread
import os
import select
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from nbrewind.state import inotify
from nbrewind.state.inotify import Event, Inotify

MOST_FOLDERS = 8192
"""Folders that are watched, those nearest to the top first."""
MOST_ENTRIES = 400_000
"""Directory entries that are looked at to find them."""

_SECONDS = 2.0
"""How long that may take, on a network file system say."""
_MOST_BYTES = 32 << 20
_PAUSE_MS = 50

_NEVER = frozenset(
    {".git", ".hg", ".svn", ".nbrewind", ".ipynb_checkpoints", "node_modules", "site-packages"}
    | {".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".cache", ".idea", ".vscode"}
)
"""Folders in which nothing of a notebook's is read or written: tools keep them."""
_MARKS = frozenset({"pyvenv.cfg", "conda-meta"})
"""What is in the folder of a Python installation."""


@dataclass(slots=True)
class Traffic:
    """What happened to one path."""

    path: str
    folder: bool = False
    opened: bool = False
    """It was opened or read before anything changed it; for a folder: listed."""
    openings: int = 0
    """How many times it was opened before anything changed it."""
    accessed: bool = False
    """It was read from before anything changed it."""
    changed: bool = False
    created: bool = False
    """The first change was that it was made: it was not there before."""
    arrived: bool = False
    """The first change was that something was renamed to it: it may have been there before."""
    mode_only: bool = False
    """Nothing but its permissions, times or links changed."""
    source: str = ""
    """What was renamed to it last."""


class FolderWatch:
    """The watches of one session.

    Args:
        root: The notebook's folder, absolute.
        is_ignored: Whether what happens to a path, absolute, is of no interest.

    Where inotify cannot be had, `fault` says why and nothing is seen.
    """

    def __init__(self, root: str, is_ignored: Callable[[str], bool]) -> None:
        self.root = root
        self.fault = ""
        """Why not everything in the notebook's folder is seen; empty if it is."""
        self._is_ignored = is_ignored
        self._paths: dict[int, str] = {}
        self._files: set[int] = set()
        """Watches of single files."""
        self._queue: _Queue | None = None
        self._entries = 0
        try:
            self._queue = _Queue()
        except OSError as problem:
            self.fault = f"files cannot be watched: {problem}"
            return
        weakref.finalize(self, self._queue.close)
        self._watch_tree(root)

    # -- one run ------------------------------------------------------------------------

    def begin(self) -> None:
        """Forget what has happened so far."""
        if self._queue is None:
            return
        chunks, complete = self._queue.take()
        _, lost = self._sort_out(chunks)  # folders may have been made and moved
        if lost or not complete:
            self._start_anew()

    def end(self) -> tuple[dict[str, Traffic], bool]:
        """What happened since `begin`, by path in the order of first traffic.

        Returns:
            The traffic, and whether nothing was lost.
        """
        if self._queue is None:
            return {}, False
        chunks, complete = self._queue.take()
        traffic, lost = self._sort_out(chunks)
        if lost or not complete:
            self._start_anew()
        return traffic, complete and not lost

    @contextmanager
    def ours(self) -> Iterator[None]:
        """What is read meanwhile is read by us."""
        if self._queue is None:
            yield
            return
        with self._queue.aside():
            yield

    def also(self, path: str) -> None:
        """Watch what is outside the root: a file, a folder with what is in it, or its place."""
        if self._queue is None:
            return
        fault, entries = self.fault, self._entries
        if os.path.isdir(path):
            self._watch_tree(path)
        elif os.path.isfile(path):
            self._add(path, is_file=True)
        self.fault, self._entries = fault, entries  # what is outside is watched as far as it goes

    def folders(self) -> list[str]:
        """The folders that are watched."""
        return [path for watch, path in self._paths.items() if watch not in self._files]

    def close(self) -> None:
        """End all watches."""
        if self._queue is not None:
            self._queue.close()
            self._queue = None

    # -- watching -----------------------------------------------------------------------

    def _start_anew(self) -> None:
        """Events were lost: folders may have been made that are not watched."""
        self._entries = 0
        for folder in self.folders():
            if not os.path.isdir(folder):
                self._drop(folder)
        self._watch_tree(self.root)

    def _watch_tree(self, top: str) -> list[tuple[str, bool]]:
        """Watch a folder and what is below it, nearest first.

        Returns:
            What is in it: paths, and whether they are folders.
        """
        found: list[tuple[str, bool]] = []
        known: set[str] = set()
        waiting = [top]
        until = time.perf_counter() + _SECONDS
        for folder in waiting:  # grows
            try:
                entries = list(os.scandir(folder))
            except OSError:
                continue
            if not _MARKS.isdisjoint(entry.name for entry in entries):
                continue
            self._entries += len(entries)
            most = len(self._paths) >= MOST_FOLDERS or self._entries > MOST_ENTRIES
            if most or time.perf_counter() > until:
                self.fault = "there are too many folders in the notebook's folder"
                break
            if not self._add(folder, is_file=False):
                break
            for entry in entries:
                is_folder, is_link = entry.is_dir(), entry.is_symlink()
                found.append((entry.path, is_folder))
                if is_link:
                    real = os.path.realpath(entry.path)
                    if real in known or self._is_within(real):
                        continue  # events come under the other name
                    known.add(real)
                    if self._is_ignored(real):
                        continue
                if not is_folder:
                    if is_link and entry.is_file():
                        self._add(entry.path, is_file=True)
                elif entry.name not in _NEVER and not self._is_ignored(entry.path):
                    waiting.append(entry.path)
        return found

    def _is_within(self, real: str) -> bool:
        return real.startswith(os.path.realpath(self.root) + os.sep)

    def _add(self, path: str, is_file: bool) -> bool:
        assert self._queue is not None
        try:
            watch = self._queue.inotify.add(path)
        except FileNotFoundError:
            return True  # gone meanwhile
        except PermissionError:
            return True
        except OSError as problem:
            self.fault = f"not every folder can be watched: {problem}"
            return False
        if watch not in self._paths:
            self._paths[watch] = path
            if is_file:
                self._files.add(watch)
        return True

    def _drop(self, top: str) -> None:
        """Stop watching a folder and what is below it: it is not there any more."""
        below = top + os.sep
        for watch, path in list(self._paths.items()):
            if path == top or path.startswith(below):
                del self._paths[watch]
                self._files.discard(watch)
                if self._queue is not None:
                    self._queue.inotify.remove(watch)

    # -- understanding ------------------------------------------------------------------

    def _sort_out(self, chunks: list[tuple[bytes, bool]]) -> tuple[dict[str, Traffic], bool]:
        """Traffic by path, and whether the kernel lost some of it."""
        seen: dict[str, Traffic] = {}
        moves: dict[int, str] = {}
        lost = False
        for data, ours in chunks:
            for event in inotify.events(data):
                if event.mask & inotify.OVERFLOW:
                    lost = True
                else:
                    self._take(event, ours, seen, moves)
        for path in moves.values():  # moved out of sight
            self._drop(path)
        return seen, lost

    def _take(
        self, event: Event, ours: bool, seen: dict[str, Traffic], moves: dict[int, str]
    ) -> None:
        mask = event.mask
        if mask & inotify.IGNORED:
            self._paths.pop(event.watch, None)
            self._files.discard(event.watch)
            return
        base = self._paths.get(event.watch)
        if base is None:
            return
        path = os.path.join(base, event.name) if event.name else base
        if self._is_ignored(path) or (ours and not mask & ~(_READS | inotify.IS_FOLDER)):
            return
        traffic = seen.get(path)
        if traffic is None:
            traffic = seen[path] = Traffic(path)
        folder = bool(mask & inotify.IS_FOLDER)
        traffic.folder = traffic.folder or folder
        if mask & _READS and not traffic.changed and not (folder and event.name):
            traffic.opened = True  # a folder tells that itself; what its parent tells is the same
            traffic.openings += bool(mask & inotify.OPEN)
            traffic.accessed = traffic.accessed or bool(mask & inotify.ACCESS)
        if mask & inotify.ATTRIB and not folder and not traffic.changed:
            traffic.mode_only = traffic.changed = True
        if not mask & _CHANGES or (folder and mask & inotify.MODIFY):
            return
        if not traffic.changed:
            traffic.created = bool(mask & inotify.CREATE)
            traffic.arrived = bool(mask & inotify.MOVED_TO)
        traffic.changed, traffic.mode_only = True, False
        if mask & inotify.MOVED_FROM:
            moves[event.cookie] = path
        elif mask & inotify.MOVED_TO:
            traffic.source = moves.pop(event.cookie, "")
        if folder and mask & (inotify.CREATE | inotify.MOVED_TO):
            self._folder_appeared(path, traffic.source, seen)

    def _folder_appeared(self, path: str, source: str, seen: dict[str, Traffic]) -> None:
        """A folder was made or moved here; what is in it already is new with it."""
        if source:
            below = source + os.sep
            for watch, known in self._paths.items():
                if known == source or known.startswith(below):
                    self._paths[watch] = path + known[len(source) :]
        for inner, folder in self._watch_tree(path):
            if self._is_ignored(inner):
                continue
            before = source + inner[len(path) :] if source else ""
            if before:
                seen.setdefault(before, Traffic(before, folder)).changed = True
            if inner not in seen:
                made = not before
                seen[inner] = Traffic(
                    inner, folder, changed=True, created=made, arrived=not made, source=before
                )


_READS = inotify.OPEN | inotify.ACCESS
_CHANGES = inotify.MODIFY | inotify.CREATE | inotify.DELETE | inotify.MOVED_FROM | inotify.MOVED_TO


class _Queue:
    """Takes events out of the kernel's queue, which is short, as they come.

    A thread of its own waits for them. It is started the low-level way, so that
    `threading.enumerate()` is what it is without NBRewind, and pauses after each reading,
    so that a cell that opens thousands of files is not interrupted for each.
    """

    def __init__(self) -> None:
        self.inotify = Inotify()
        self._chunks: list[tuple[bytes, bool]] = []
        self._size = 0
        self._complete = True
        self._lock = _thread.allocate_lock()
        self._process = os.getpid()
        self._closed = False
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        _thread.start_new_thread(self._serve, ())

    def take(self) -> tuple[list[tuple[bytes, bool]], bool]:
        """What has come, as (events, whether they are ours), and whether all of it was kept."""
        with self._lock:
            self._read(ours=False)
            chunks, self._chunks = self._chunks, []
            complete, self._complete = self._complete, True
            self._size = 0
        return chunks, complete

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What comes meanwhile is ours."""
        with self._lock:
            self._read(ours=False)
            try:
                yield
            finally:
                self._read(ours=True)

    def close(self) -> None:
        """End all watches, by way of the thread; a forked child has no part in them."""
        if os.getpid() == self._process and not self._closed:
            self._closed = True
            os.write(self._waker, b"x")

    def _read(self, ours: bool) -> None:
        while data := self.inotify.read():
            if self._size > _MOST_BYTES:
                self._complete = False
                continue
            self._chunks.append((data, ours))
            self._size += len(data)

    def _serve(self) -> None:
        """Wait for events; the pause is a wait for the end, since users replace `time.sleep`."""
        waiting, pausing = select.poll(), select.poll()
        waiting.register(self.inotify.number, select.POLLIN)
        waiting.register(self._wake, select.POLLIN)
        pausing.register(self._wake, select.POLLIN)
        try:
            while not pausing.poll(_PAUSE_MS):
                waiting.poll()
                with self._lock:
                    self._read(ours=False)
        finally:
            with self._lock:
                self.inotify.close()
                os.close(self._wake)
                os.close(self._waker)
