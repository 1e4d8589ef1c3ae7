"""The names in a directory of directories, noticed again cheaply.

Packs and refs both live two levels deep. A directory is listed again only if its
modification time changed. A time that is fresh proves nothing (another file may
arrive within the same tick of the file system's clock), so a directory counts as
unchanged only once its time was already old when it was listed.
"""

from __future__ import annotations

import os
import time
from typing import Protocol

_FRESH_NS = 3_000_000_000
"""Ticks of file systems are up to 2 s."""


class NameListing(Protocol):
    """Names two levels deep, as they come and go."""

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
        self._settled: dict[str, int] = {}

    def scan(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """Files that appeared and that disappeared since the last scan, as (folder, name)."""
        added: list[tuple[str, str]] = []
        removed: list[tuple[str, str]] = []
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
        return added, removed

    def note(self, folder: str, name: str) -> None:
        """This process made a file: it is not reported as added."""
        self._names.setdefault(folder, set()).add(name)

    def _folders(self) -> list[str]:
        try:
            with os.scandir(self._root) as found:
                return sorted(entry.name for entry in found if entry.is_dir())
        except FileNotFoundError:
            return []

    def _list(self, folder: str) -> set[str] | None:
        """The files of one folder; None if they are known not to have changed."""
        path = os.path.join(self._root, folder)
        try:
            changed = os.stat(path).st_mtime_ns
            if self._settled.get(folder) == changed:
                return None
            names = {name for name in os.listdir(path) if name.endswith(self._suffix)}
        except FileNotFoundError:
            return set()
        if time.time_ns() - changed > _FRESH_NS:
            self._settled[folder] = changed
        else:
            self._settled.pop(folder, None)
        return names
