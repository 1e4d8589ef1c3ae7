"""Ambient state and files that reuse has changed in theory only, until code needs them.

Reusing a cell changes the *current version* of what it wrote. The random number
generators, options and files themselves are brought up to date before a cell
runs, and files once more at the end of the session.
"""

from __future__ import annotations

import importlib
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nbrewind.errors import NBRewindError
from nbrewind.model.records import ExecutionRecord, FileAccess
from nbrewind.model.versions import ABSENT, ENTROPY, Version
from nbrewind.state.put_back import put_back
from nbrewind.store.abc import Store
from nbrewind_analysis.book import RecordBook
from nbrewind_analysis.validity import PATCH, Situation
from nbrewind_kernels.observers import Observers

log = logging.getLogger(__name__)

_WHERE_MODULES_ARE = frozenset({"cwd", "sys.path"})
"""State that is put in force at once: which module a later cell imports depends on it."""


class VirtualState:
    """What is still to be put in force of the cells reused so far."""

    def __init__(
        self,
        observers: Observers,
        root: Path,
        store: Store | None,
        now: Situation,
        warn: Callable[[str], None],
    ) -> None:
        self._observers = observers
        self._root = root
        self._store = store
        self._now = now
        self._warn = warn
        self._ambient: dict[str, tuple[Version, bytes | None]] = {}
        self._files: dict[str, FileAccess] = {}
        self._imports: list[str] = []
        self._started: set[str] = set()

    def apply(self, record: ExecutionRecord) -> None:
        """Take over what a reused record wrote."""
        for file in record.files:
            if file.write is not None and not file.path.startswith("/"):
                self._files.pop(file.path, None)
                self._files[file.path] = file
        for access in record.ambient:
            if access.write is None or access.provider.startswith(PATCH):
                continue
            self._ambient[access.provider] = (access.write, access.state)
            if access.provider in _WHERE_MODULES_ARE:
                if any(file.directory for file in self._files.values()):
                    self.settle_files()  # the current folder may be one that a cell made
                self._settle_ambient(access.provider)
        self._imports += record.effects.imports

    def do_imports(self) -> None:
        """Import, in order, what reused cells imported."""
        waiting, self._imports = self._imports, []
        with _warnings_unshown():
            for name in waiting:
                try:
                    importlib.import_module(name)
                except Exception as problem:  # a module made at run time, or gone since
                    log.info("module %s of a reused cell is not imported: %s", name, problem)

    def settle(self, book: RecordBook, notebook: str, *, replay: bool) -> None:
        """Bring ambient state and files up to date: a cell is about to run."""
        if replay:
            self._start_generators(book, notebook)
        for provider in list(self._ambient):
            self._settle_ambient(provider)
        self.settle_files()

    def _settle_ambient(self, provider: str) -> None:
        version, state = self._ambient.pop(provider)
        if not self._observers.put(provider, version, state):
            self._warn(f"{provider} could not be put into the state a reused cell left it in")

    def settle_files(self) -> None:
        """Bring files up to date that reused cells wrote."""
        waiting, self._files = self._files, {}
        for path, access in sorted(waiting.items(), key=_turn):
            self._now.files.pop(path, None)
            there = self._now.surroundings.file(path, access.write or ABSENT) == access.write
            if there and bool(access.link) == os.path.islink(self._root / path):
                continue
            try:
                data = None
                if access.content is not None and self._store is not None:
                    data = bytes(self._store.get_blob(access.content))
                put_back(self._root, access, data)
            except NBRewindError as problem:
                self._warn(f"a file of a reused cell is not brought up to date: {problem}")

    def _start_generators(self, book: RecordBook, notebook: str) -> None:
        """Start every generator nobody seeded where the audited run started it."""
        tracker = self._observers.ambient
        fresh = [
            name
            for name, provider in tracker.providers.items()
            if provider.kind == "rng" and name not in self._started
        ]
        self._started.update(fresh)
        wanted = {n for n in fresh if n not in self._now.ambient and n not in self._ambient}
        if not wanted:
            return
        for entry in book.history(notebook).entries:
            for access in entry.record.ambient:
                if access.provider in wanted and access.start is not None:
                    wanted.discard(access.provider)
                    tracker.set(access.provider, ENTROPY, access.start)
            if not wanted:
                return


def _turn(item: tuple[str, FileAccess]) -> tuple[int, int]:
    """Files go before their folders, folders come before what is in them."""
    path, access = item
    depth = path.count("/")
    if access.write == ABSENT:
        return (1, -depth) if access.directory else (0, 0)
    return (2, depth) if access.directory else (4 if access.link else 3, 0)


@contextmanager
def _warnings_unshown() -> Iterator[None]:
    """What an import warned of is among the outputs of the cell that was reused."""
    shown = warnings.showwarning

    def unshown(*_: object, **__: object) -> None:
        pass

    warnings.showwarning = unshown
    try:
        yield
    finally:
        if warnings.showwarning is unshown:  # a module may have put in one of its own
            warnings.showwarning = shown
