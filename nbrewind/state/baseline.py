"""How files were before a run changed them unseen.

Python announces what it does to files; code in C and child processes do not. So the
files that they may write are digested beforehand, as far as that is cheap: those that
are named, and before a child starts those of a small folder.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable

from nbrewind.model.versions import ABSENT, PRESENT, Version
from nbrewind.state.digests import cheap_digest

_MOST_BYTES = 64 << 20
_MOST_FILES = 4000
_SECONDS = 0.25


class Baseline:
    """The state of some files at the beginning of one run."""

    def __init__(self) -> None:
        self._versions: dict[str, Version] = {}
        self._modes: dict[str, int] = {}
        self._folders: set[str] = set()
        """Folders of which everything is known."""

    def note(self, paths: Iterable[str]) -> None:
        """Digest files that are named, unless they are large and not known."""
        for path in paths:
            if path not in self._versions:
                self._note(path)

    def note_folders(self, folders: Iterable[str]) -> None:
        """Digest what is in folders, as long as that is soon done."""
        until = time.perf_counter() + _SECONDS
        for folder in folders:
            try:
                names = os.listdir(folder)
            except OSError:
                continue
            for name in names:
                if len(self._versions) > _MOST_FILES or time.perf_counter() > until:
                    return
                self.note([os.path.join(folder, name)])
            self._folders.add(folder)

    def learn(self, path: str, version: Version) -> None:
        """What was at a path has become known in another way."""
        self._versions[path] = version

    def version(self, path: str) -> Version | None:
        """What was at a path: content version, `present` (a folder), `absent`; None: unknown."""
        known = self._versions.get(path)
        if known is None and os.path.dirname(path) in self._folders:
            return ABSENT
        return known

    def mode(self, path: str) -> int:
        """The permission bits it had; 0 if that is not known."""
        return self._modes.get(path, 0)

    def _note(self, path: str) -> None:
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            self._versions[path] = ABSENT
            return
        except (OSError, ValueError):
            return
        if stat.S_ISDIR(status.st_mode):
            self._versions[path] = PRESENT
            return
        version = cheap_digest(path, _MOST_BYTES)
        if version is not None:
            self._versions[path] = version
            self._modes[path] = stat.S_IMODE(status.st_mode)
