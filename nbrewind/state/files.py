"""Which files a run read and wrote.

`FileTracker` turns what it is told into a `FileReport`. Python's audit events tell what
Python code opens, lists, makes, removes and renames, stand-ins in `os` what it looks for;
`FolderWatch` tells what readers in C (HDF5, Parquet) and child processes do besides.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from nbrewind.model.records import FileAccess
from nbrewind.model.versions import Version
from nbrewind.state import audit, existence, inotify
from nbrewind.state.askers import asker
from nbrewind.state.baseline import Baseline
from nbrewind.state.children import Children
from nbrewind.state.command_lines import Told
from nbrewind.state.digests import digest_file
from nbrewind.state.file_events import (
    EVENTS,
    How,
    Touch,
    absolute,
    flag_of,
    is_probe,
    is_tooling,
    tell_command,
    touches,
)
from nbrewind.state.file_history import History
from nbrewind.state.filesystems import is_remote
from nbrewind.state.folder_watch import FolderWatch, Traffic
from nbrewind.state.locations import inside, is_library_file, library_folders, machine_folders
from nbrewind.state.named_paths import Named
from nbrewind.state.unseen import Unseen, may_write_files

_KERNEL_THREADS = (
    *("IOPub", "IOStream", "Heartbeat", "Control", "IPythonHistory", "HistorySaving"),
    "nbrewind-",
)

_FOLDERS_MADE = frozenset({How.MAKE_FOLDER, How.ENSURE_FOLDER, How.NAME_FOLDER})
_FOLDER_MAKERS = frozenset(
    function.__code__.co_filename
    for function in (os.makedirs, pathlib.Path.mkdir, tempfile.mkdtemp, shutil.copytree)
)
"""Where the code is that makes folders on behalf of others."""


@dataclass(frozen=True)
class FileReport:
    """What a run did to files."""

    accesses: list[FileAccess] = field(default_factory=list)
    """One per path, in the order of first use; `content` is left to who stores it."""
    flags: set[str] = field(default_factory=set)
    """`process`, `subprocess`, `network`, `external-write`, `untracked`: see `records.FLAGS`."""
    modules: frozenset[str] = frozenset()
    """Modules that Python programs imported in child processes."""


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
        self.before_fork: Callable[[], None] = lambda: None
        """Called when the process is about to be forked, with the notebook's code in the child."""
        self._history: History | None = None
        self._named = Named()
        self._flags: set[str] = set()
        self._thread = 0
        self._still_open: set[str] = set()
        self._open_before: dict[str, Version] = {}
        self._libraries: dict[str, bool] = {}
        self._checked: set[tuple[str, How, str]] = set()
        self._explained: Counter[str] = Counter()
        self._watch: FolderWatch | None = None
        self._outside: set[str] = set()
        """What is watched outside the folder: files, and folders with a separator at the end."""
        self._children = Children()
        self._baseline = Baseline()
        self._told = Told()
        self._starts = self._probes = 0
        # Not only in `begin`: restored values may refer to the functions.
        existence.install()

    def begin(self, named: Named | None = None) -> None:
        """Start noting what happens.

        Args:
            named: The paths that the code about to run names.
        """
        self._history = History()
        self._named = named or Named()
        self._flags = set()
        self._checked.clear()
        self._explained.clear()
        self._thread = threading.get_ident()
        self._baseline, self._told = Baseline(), Told()
        self._starts = self._probes = 0
        with audit.unheard():
            if self._watch is None:
                self._watch = FolderWatch(str(self._root), self._is_foreign)
            self._open_before = {path: digest_file(path) for path in self._still_open}
            for path, version in self._open_before.items():
                self._baseline.learn(path, version)
            self._expect(self._named.paths)
            self._children.begin()
            self._watch.begin()
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
            traffic, complete = self._watch.end() if self._watch is not None else ({}, False)
            for path, before in self._open_before.items():
                history.changed_through_open_file(path, before)
            used = self._add_unseen(history, traffic, complete)
            accesses = [self._named_relative(access) for access in history.accesses()]
            if history.untracked:
                self._flags.add("untracked")
            written = {access.path for access in accesses if access.write is not None}
            if any(self._is_outside(path) for path in written):
                self._flags.add("external-write")
            candidates = {*history.written_files(), *self._still_open, *used}
            self._still_open = self._open_now(candidates)
        return FileReport(accesses, self._judged_flags(), frozenset(self._told.modules))

    def close(self) -> None:
        """End the session."""
        if self._watch is not None:
            self._watch.close()

    # -- code in C and children ---------------------------------------------------------

    def _expect(self, paths: Iterable[str]) -> None:
        """Paths may be used by code that announces nothing: know them, and watch them."""
        paths = [path for path in paths if not self._is_ignored(path)]
        self._baseline.note(path for path in paths if os.path.isfile(path))
        outside = [path for path in paths if not self._is_inside(path)]
        if self._watch is None or not outside:
            return
        for path in outside:
            folder = f"{path}{os.sep}" if os.path.isdir(path) else path
            if folder not in self._outside and path.count(os.sep) > 1:
                self._outside.add(folder)
                self._watch.also(path)

    def _add_unseen(
        self, history: History, traffic: dict[str, Traffic], complete: bool
    ) -> set[str]:
        """Add what was not announced; returns the files among it."""
        started = self._starts > 0 or (not self._probes and self._children.were_started())
        children = started or self._children.working_before
        if children and not self._starts:
            self._own_code_in_child()
        unseen = Unseen(
            history,
            self._named,
            self._baseline,
            self._told,
            children,
            self._explained,
            set(self._open_before),
        )
        seen = {path: one for path, one in traffic.items() if self._is_of_interest(path)}
        unseen.take(seen)
        if started:
            self._flags.add("process" if complete and self._is_followed() else "subprocess")
        if unseen.doubtful or (not complete and inotify.AVAILABLE and may_write_files()):
            self._flags.add("untracked")
        return {path for path, one in seen.items() if not one.folder}

    def _is_followed(self) -> bool:
        """Whether everything that children did that matters was seen."""
        return (
            self._watch is not None
            and not self._watch.fault
            and not self._told.elsewhere
            and not is_remote(str(self._root))
            and not self._children.go_on()
        )

    def _judged_flags(self) -> set[str]:
        if "process" in self._flags and "external-write" in self._flags:
            return self._flags - {"process"} | {"subprocess"}
        return self._flags

    def _child_starts(self, event: str, args: tuple[Any, ...]) -> None:
        """Know how files are before the child changes them."""
        history, watch = self._history, self._watch
        if history is None or watch is None:
            return
        self._starts += 1
        if event == "os.fork":
            self.before_fork()
        with watch.ours():
            if self._starts == 1:
                self._baseline.note(history.paths())
                self._baseline.note_folders(watch.folders())
            if not tell_command(self._told, event, args, audit.caller(5), self._named.texts):
                self._own_code_in_child()
            self._expect({*self._told.named, *self._told.overwritten})

    def _own_code_in_child(self) -> None:
        self._told.python = True
        self._told.careful = self._told.careful or self._named.updates
        self._told.words(self._named.words)

    def _is_of_interest(self, path: str) -> bool:
        if self._is_ignored(path) and not path.endswith(".pyc"):
            return False
        return (
            self._is_inside(path)
            or path in self._outside
            or path.startswith(tuple(p for p in self._outside if p.endswith(os.sep)))
        )

    # -- what Python announces ----------------------------------------------------------

    def _on_event(self, event: str, args: tuple[Any, ...]) -> None:
        history = self._history
        if history is None:
            return
        try:
            self._note_event(history, event, args)
        except BaseException:
            self._flags.add("untracked")
            raise

    def _note_event(self, history: History, event: str, args: tuple[Any, ...]) -> None:
        if not self._is_counted_thread():
            self._explained.update(touch.path for touch in touches(event, args))
            return
        frame = audit.caller(4)  # past the hook and what it calls
        if is_tooling(event, frame):
            self._explained.update(touch.path for touch in touches(event, args))
            return
        flag = flag_of(event, args)
        if flag == "process":
            if is_probe(event, args):
                self._probes += 1
            else:
                self._child_starts(event, args)
            return
        if flag:
            self._flags.add(flag)
            return
        for touch in touches(event, args, frame):
            if not self._is_ignored(touch.path) and not self._is_folder_of_library(touch, frame):
                history.note(touch)

    def _on_check(self, event: str, args: tuple[Any, ...]) -> None:
        history = self._history
        if history is None or not self._is_counted_thread():
            return
        try:
            self._note_check(history, event, args)
        except BaseException:
            self._flags.add("untracked")
            raise

    def _note_check(self, history: History, event: str, args: tuple[Any, ...]) -> None:
        asked = asker(audit.caller(4), event)  # past the functions that tell, and the check
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

    def _is_folder_of_library(self, touch: Touch, frame: FrameType | None) -> bool:
        """Whether a library makes a folder for itself elsewhere: no affair of the cell's."""
        if touch.how not in _FOLDERS_MADE or self._is_inside(touch.path):
            return False
        while frame is not None and frame.f_code.co_filename in _FOLDER_MAKERS:
            frame = frame.f_back
        return frame is not None and self._is_of_library(frame.f_code.co_filename)

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

    def _is_foreign(self, path: str) -> bool:
        return f"{path}{os.sep}".startswith(self._ignored) or path in self._excluded

    def _is_ignored(self, path: str) -> bool:
        return (
            self._is_foreign(path)
            or path.endswith((".pyc", os.sep + "__pycache__"))
            or f"{os.sep}__pycache__{os.sep}" in path
            or f"{os.sep}.ipynb_checkpoints{os.sep}" in path
        )

    def _named_relative(self, access: FileAccess) -> FileAccess:
        path = inside(self._root, access.path)
        if path == access.path:
            path = inside(self._real_root, access.path)
        return msgspec.structs.replace(access, path=path)

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
                    if _is_writable(number):
                        held.add(os.readlink(f"/proc/self/fd/{number}"))
                except OSError:
                    continue  # closed meanwhile: the listing's own descriptor, at least
            with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
                held.update(
                    line.split(None, 5)[-1].rstrip("\n") for line in file if " rw-s " in line
                )
        except OSError:
            return candidates  # no such table on this system: look at all of them again
        return {path for path in candidates if os.path.realpath(path) in held}


def _is_writable(number: str) -> bool:
    with open(f"/proc/self/fdinfo/{number}", encoding="ascii") as file:
        flags = next(line for line in file if line.startswith("flags:"))
    return int(flags.split()[1], 8) & (os.O_WRONLY | os.O_RDWR) != 0
