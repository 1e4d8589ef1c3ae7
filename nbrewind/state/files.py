"""Which files a run read and wrote, seen through Python's audit events.

`FileTracker` turns events into a `FileReport`. It sees what Python code opens, lists,
makes, removes, renames and looks for. It is blind to readers written in C (HDF5,
Parquet) and to child processes (it says that one was started).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbrewind.model.records import FileAccess
from nbrewind.model.versions import Version
from nbrewind.state import audit, existence
from nbrewind.state.askers import asker
from nbrewind.state.digests import digest_file
from nbrewind.state.file_events import EVENTS, How, Touch, absolute, flag_of, is_tooling, touches
from nbrewind.state.file_history import History
from nbrewind.state.locations import inside, is_library_file, library_folders, machine_folders

_KERNEL_THREADS = (
    *("IOPub", "IOStream", "Heartbeat", "Control", "IPythonHistory", "HistorySaving"),
    "nbrewind-",
)


@dataclass(frozen=True)
class FileReport:
    """What a run did to files."""

    accesses: list[FileAccess] = field(default_factory=list)
    """One per path, in the order of first use; `content` is left to who stores it."""
    flags: set[str] = field(default_factory=set)
    """`subprocess`, `network`, `external-write`, `untracked`: see `records.FLAGS`."""


def is_notebook_thread(name: str) -> bool:
    """Whether a thread of this name may run the notebook's code, not only the kernel's."""
    return not name.startswith(_KERNEL_THREADS)


class FileTracker:
    """The files of one session.

    Args:
        root: The notebook's folder.
        exclude: Folders nothing in which is ever reported (the store).
        counts: Which threads count, by name.

    Digests before a change are taken at the moment the change is announced; all others
    in `end`. Nothing here raises into the notebook's code.
    """

    def __init__(
        self,
        root: Path,
        exclude: Iterable[Path] = (),
        counts: Callable[[str], bool] = is_notebook_thread,
    ) -> None:
        self._root = root.absolute()
        self._real_root = root.resolve()
        self._counts = counts
        excluded = {str(path.absolute()) for path in exclude}
        excluded |= {str(path.resolve()) for path in exclude}
        self._ignored = (
            *(f"{folder}{os.sep}" for folder in sorted(excluded)),
            *library_folders(self._real_root),
            *machine_folders(self._real_root),
        )
        self._excluded = frozenset(excluded)
        self._history: History | None = None
        self._flags: set[str] = set()
        self._thread = 0
        self._still_open: set[str] = set()
        self._open_before: dict[str, Version] = {}
        self._libraries: dict[str, bool] = {}
        self._checked: set[tuple[str, How, str]] = set()
        # Not only in `begin`: restored values may refer to the functions.
        existence.install()

    def begin(self) -> None:
        """Start noting what happens."""
        self._history = History()
        self._flags = set()
        self._checked.clear()
        self._thread = threading.get_ident()
        self._open_before = {path: digest_file(path) for path in self._still_open}
        audit.listen(EVENTS, self._on_event)
        existence.listen(self._on_check)

    def end(self) -> FileReport:
        """Stop, and tell what happened since `begin`."""
        existence.ignore(self._on_check)
        audit.ignore(EVENTS, self._on_event)
        history, self._history = self._history, None
        if history is None:
            return FileReport()
        with audit.unheard():
            for path, before in self._open_before.items():
                history.changed_through_open_file(path, before)
            accesses = [self._named(access) for access in history.accesses()]
            if history.untracked:
                self._flags.add("untracked")
            written = {access.path for access in accesses if access.write is not None}
            if any(self._is_outside(path) for path in written):
                self._flags.add("external-write")
            self._still_open = self._open_now({*history.written_files(), *self._still_open})
        return FileReport(accesses, self._flags)

    def _on_event(self, event: str, args: tuple[Any, ...]) -> None:
        history = self._history
        if history is None or not self._is_counted_thread():
            return
        frame = audit.caller(3)  # past the two functions of the hook
        if is_tooling(event, frame):
            return
        flag = flag_of(event, args, frame)
        if flag:
            self._flags.add(flag)
            return
        for touch in touches(event, args):
            if not self._is_ignored(touch.path):
                history.note(touch)

    def _on_check(self, event: str, args: tuple[Any, ...]) -> None:
        history = self._history
        if history is None or not self._is_counted_thread():
            return
        asked = asker(audit.caller(3), event)  # past the function that tells, and the check
        path = absolute(args[0]) if asked is not None else None
        if asked is None or path is None or (event, asked.how, path) in self._checked:
            return
        if not self._is_inside(path) and self._is_of_library(asked.file):
            return  # a library looks for its own settings and caches
        self._checked.add((event, asked.how, path))
        if "\0" in path or self._is_ignored(path):
            return
        history.note(Touch(asked.how, path))
        if event != "os.lstat" and os.path.islink(path):
            target = os.path.realpath(path)
            if not self._is_ignored(target):
                history.note(Touch(asked.how, target))

    def _is_inside(self, path: str) -> bool:
        return inside(self._root, path) != path or inside(self._real_root, path) != path

    def _is_of_library(self, file: str) -> bool:
        known = self._libraries.get(file)
        if known is None:
            known = self._libraries[file] = is_library_file(file, self._real_root)
        return known

    def _is_counted_thread(self) -> bool:
        ident = threading.get_ident()
        if ident == self._thread:
            return True
        # Looking a thread up the public way would make an entry for foreign ones.
        thread = getattr(threading, "_active", {}).get(ident)
        return thread is None or self._counts(thread.name)

    def _is_ignored(self, path: str) -> bool:
        return (
            f"{path}{os.sep}".startswith(self._ignored)
            or path in self._excluded
            or path.endswith((".pyc", os.sep + "__pycache__"))
            or f"{os.sep}__pycache__{os.sep}" in path
            or f"{os.sep}.ipynb_checkpoints{os.sep}" in path
        )

    def _named(self, access: FileAccess) -> FileAccess:
        path = inside(self._root, access.path)
        if path == access.path:
            path = inside(self._real_root, access.path)
        return FileAccess(
            path=path,
            read=access.read,
            write=access.write,
            mode=access.mode,
            directory=access.directory,
        )

    def _is_outside(self, path: str) -> bool:
        # A path below the notebook's folder may lead out of it through a link.
        real = os.path.realpath(self._root / path)
        return inside(self._real_root, real) == real

    def _open_now(self, candidates: set[str]) -> set[str]:
        """Those of `candidates` that this process still holds open: later runs may write them."""
        if not candidates:
            return set()
        held = set()
        try:
            for number in os.listdir("/proc/self/fd"):
                try:
                    held.add(os.readlink(f"/proc/self/fd/{number}"))
                except OSError:
                    continue  # closed meanwhile: the listing's own descriptor, at least
        except OSError:
            return candidates  # no such table on this system: look at all of them again
        return {path for path in candidates if os.path.realpath(path) in held}
