"""The kernel's inotify interface, as far as following files needs it (Linux only).

See `man 7 inotify`. It tells of everything that any process does to the files of a
watched folder, also of what is done in C, but not who did it.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

AVAILABLE = sys.platform == "linux"

ACCESS = 0x1
MODIFY = 0x2
ATTRIB = 0x4
OPEN = 0x20
MOVED_FROM = 0x40
MOVED_TO = 0x80
CREATE = 0x100
DELETE = 0x200
OVERFLOW = 0x4000
"""Events were lost."""
IGNORED = 0x8000
"""The watch is gone, with what it watched."""
IS_FOLDER = 0x40000000

_EXCLUDE_UNLINKED = 0x04000000
_WANTED = ACCESS | MODIFY | ATTRIB | OPEN | MOVED_FROM | MOVED_TO | CREATE | DELETE
_FLAGS = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_HEAD = struct.Struct("iIII")
_BUFFER = 1 << 18


class Event(NamedTuple):
    """One event."""

    watch: int
    mask: int
    cookie: int
    """The same for the two halves of a renaming, else 0."""
    name: str
    """Name in the watched folder; empty for the watched thing itself."""


class Inotify:
    """One instance; raises `OSError` where the kernel refuses."""

    def __init__(self) -> None:
        if not AVAILABLE:
            raise OSError("there is no inotify on this system")
        self._libc: Any = ctypes.CDLL(None, use_errno=True)
        self.number = self._checked(self._libc.inotify_init1(_FLAGS))

    def add(self, path: str) -> int:
        """Watch a folder or file, following links; the same number for the same inode."""
        return self._checked(
            self._libc.inotify_add_watch(
                self.number, os.fsencode(path), ctypes.c_uint32(_WANTED | _EXCLUDE_UNLINKED)
            )
        )

    def remove(self, watch: int) -> None:
        """Stop watching; nothing happens if that ended by itself."""
        self._libc.inotify_rm_watch(self.number, watch)

    def read(self) -> bytes:
        """What has happened since the last reading; empty if nothing has."""
        try:
            return os.read(self.number, _BUFFER)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        """End all watches."""
        number, self.number = self.number, -1
        if number >= 0:
            os.close(number)

    @staticmethod
    def _checked(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


def events(data: bytes) -> Iterator[Event]:
    """The events in what was read."""
    at, end = 0, len(data)
    while at < end:
        watch, mask, cookie, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        name = data[at : at + length].rstrip(b"\0")
        at += length
        yield Event(watch, mask, cookie, os.fsdecode(name) if name else "")
