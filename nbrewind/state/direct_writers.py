"""Whether anything could write to this process's memory past its page table: devices.

A device that was given pages writes to them at its own time, and no page table tells of that:
graphics cards, network cards with direct access to remote memory, reads around the page cache,
rings that keep buffers. All of them are reached through open files.
"""

from __future__ import annotations

import fcntl
import os
import stat

_HARMLESS_DEVICES = frozenset(
    {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"}
    | {"/dev/console", "/dev/pts/ptmx", "/dev/fuse", "/dev/userfaultfd"}
)
_HARMLESS_KINDS = frozenset(
    f"anon_inode:{name}"
    for name in ("[eventpoll]", "[eventfd]", "[signalfd]", "[timerfd]", "[userfaultfd]")
) | {"anon_inode:inotify", "anon_inode:[pidfd]", "anon_inode:[fanotify]", "anon_inode:[perf_event]"}


def may_write() -> bool:
    """Whether a file is open through which a device may write to memory of this process."""
    return _has_pinned_memory() or any(map(_is_a_way_in, os.listdir("/proc/self/fd")))


def _is_a_way_in(entry: str) -> bool:
    try:
        fd = int(entry)
        kind = os.fstat(fd).st_mode
        if stat.S_ISREG(kind) or stat.S_ISBLK(kind):
            return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT)
        if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or stat.S_ISDIR(kind):
            return False
        target = os.readlink(f"/proc/self/fd/{entry}")
    except OSError:  # closed meanwhile: that of the listing always is
        return False
    if stat.S_ISCHR(kind):
        return target not in _HARMLESS_DEVICES and not target.startswith("/dev/pts/")
    return target not in _HARMLESS_KINDS


def _has_pinned_memory() -> bool:
    """Whether the system counts memory of this process that it keeps in place for a device."""
    with open("/proc/self/status", "rb") as status:
        for line in status:
            if line.startswith(b"VmPin:"):
                return int(line.split()[1]) > 0
    return False
