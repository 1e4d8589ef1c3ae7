"""Digests of large files, kept from one session to the next.

A text file in the user's cache folder, one line per file and state: device, inode, size,
times of modification and change in nanoseconds, version. Sessions append to it; a line
that is not understood is skipped, so that two writers do no harm to each other. It is
this machine's and this user's alone: inodes mean nothing elsewhere, and who can write it
decides what counts as unchanged. Its bytes are specified in `docs/spec/record-format.md`.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from nbrewind.model.versions import Version

log = logging.getLogger(__name__)

LARGE = 16 << 20
"""Files of at least this many bytes are worth a line."""

_LARGEST_CACHE = 1 << 20
_FIELDS = 6

Key = tuple[int, int, int, int, int]
"""Device, inode, size, time of modification and of change in nanoseconds."""

_known: dict[Key, Version] | None = None


def place() -> Path:
    """The file."""
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "nbrewind" / "file-digests-1"


def get(key: Key) -> Version | None:
    """The version of a file in this state; None if it is not known."""
    return _load().get(key)


def put(key: Key, version: Version) -> None:
    """Remember the version of a file in this state."""
    known = _load()
    known[key] = version
    try:
        path = place()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        anew = path.exists() and path.stat().st_size > _LARGEST_CACHE
        lines = [f"{' '.join(map(str, key))} {version}\n"]
        number = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if anew else 0), 0o600
        )
        try:
            os.write(number, "".join(lines).encode())
        finally:
            os.close(number)
    except OSError as problem:
        log.info("the digest of a large file is not kept: %s", problem)


def _load() -> dict[Key, Version]:
    global _known
    if _known is None:
        _known = {}
        try:
            lines = place().read_text().splitlines()
        except (OSError, ValueError):
            lines = []
        for line in lines:
            fields = line.split()
            numbers = fields[: _FIELDS - 1]
            if len(fields) == _FIELDS and all(map(str.isdigit, numbers)):
                device, inode, size, modified, changed = map(int, numbers)
                _known[device, inode, size, modified, changed] = fields[-1]
    return _known
