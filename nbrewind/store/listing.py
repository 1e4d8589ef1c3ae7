"""The names in a directory of directories, noticed again cheaply.

Packs and refs both live two levels deep. A directory is listed again only if its
modification time changed. A time that is fresh proves nothing (another file may
arrive within the same tick of the file system's clock), so a directory counts as
unchanged only once it kept its time for a while. Clocks of file servers and of this
machine differ, and jump: that while is measured here, by a clock that does not.
"""

from __future__ import annotations

import logging
import os
import time
from typing import Protocol

from nbrewind.store.durable import again_if_stale

_log = logging.getLogger(__name__)

_FRESH_SECONDS = 3.0
"""Ticks of file systems are up to 2 s."""


class NameListing(Protocol):
    """Names two levels deep, as they come and go."""

    unseen: dict[str, str]
    """Places that could not be listed, with a sentence about why."""

    def scan(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """Files that appeared and that disappeared since the last scan, as (folder, name)."""
        ...

    def note(self, folder: str, name: str) -> None:
        """This process made a file: it is not reported as added."""
        ...


class Listing:
    """The files below `root/<folder>/` that end in `suffix`."""

    def __init__(self, root: str, suffix: str) -> None:
        self._root = root
        self._suffix = suffix
        self._names: dict[str, set[str]] = {}
        self._first_seen: dict[str, tuple[int, float]] = {}
        self._settled: dict[str, int] = {}
        self.unseen: dict[str, str] = {}
        """Directories that could not be listed, with a sentence about why; names that were known
        there still count as there."""

    def scan(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """Files that appeared and that disappeared since the last scan, as (folder, name)."""
        added: list[tuple[str, str]] = []
        removed: list[tuple[str, str]] = []
        self.unseen = {}
        folders = self._folders()
        for folder in folders:
            new = self._list(folder)
            if new is None:
                continue
            old = self._names.get(folder, set())
            added += [(folder, name) for name in sorted(new - old)]
            removed += [(folder, name) for name in old - new]
            self._names[folder] = new
        for folder in self._names.keys() - set(folders):
            removed += [(folder, name) for name in self._names.pop(folder)]
            self._settled.pop(folder, None)
        return added, removed

    def note(self, folder: str, name: str) -> None:
        """This process made a file: it is not reported as added."""
        self._names.setdefault(folder, set()).add(name)

    def _folders(self) -> list[str]:
        def look() -> list[str]:
            with os.scandir(self._root) as found:
                return sorted(entry.name for entry in found if entry.is_dir())

        try:
            return again_if_stale(look)
        except FileNotFoundError:
            return []
        except OSError as exc:
            self._not_seen(self._root, exc)
            return sorted(self._names)

    def _list(self, folder: str) -> set[str] | None:
        """The files of one folder; None if they are known not to have changed, or not known."""
        path = os.path.join(self._root, folder)
        try:
            changed = again_if_stale(lambda: os.stat(path).st_mtime_ns)
            if self._settled.get(folder) == changed:
                return None
            names = again_if_stale(lambda: os.listdir(path))
        except (FileNotFoundError, NotADirectoryError):
            return set()
        except OSError as exc:
            self._not_seen(path, exc)
            return None
        self._judge(folder, changed)
        return {name for name in names if name.endswith(self._suffix)}

    def _judge(self, folder: str, changed: int) -> None:
        """A directory has just been listed: is the next listing needed if its time stays?"""
        now = time.monotonic()
        seen, since = self._first_seen.get(folder, (-1, now))
        if seen != changed:
            self._first_seen[folder] = (changed, now)
            self._settled.pop(folder, None)
        elif now - since > _FRESH_SECONDS:
            self._settled[folder] = changed

    def _not_seen(self, path: str, why: OSError) -> None:
        self.unseen[path] = f"the folder {path} cannot be listed: {why.strerror}"
        _log.warning("%s", self.unseen[path])
