"""Which pages of this process's memory were written, as the system notes it (Linux 6.7 or newer).

Memory is registered with a userfaultfd and write-protected in its asynchronous mode: the first
write to a page takes the protection off and goes on, nobody is told, and a scan of the page
table shows which pages are still protected. See `man 2 ioctl_userfaultfd` and the kernel's
`Documentation/admin-guide/mm/pagemap.rst`. Only addresses are known here; whose memory it is, is
the caller's business.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import platform
import struct
import sys

PAGE = mmap.PAGESIZE

Run = tuple[int, int]
"""Addresses of a run of pages: the first byte, and the one after the last."""

_NUMBERS = {"x86_64": 323, "aarch64": 282, "riscv64": 282, "ppc64le": 364, "s390x": 355}
"""The number of the system call, by the machine's name."""

_USER_MODE_ONLY = 1
"""No privilege is needed then. Writes of the kernel are noted all the same: nobody handles them."""
_API = 0xAA
_FEATURES = 1 << 13 | 1 << 15
"""Pages that do not exist yet can be protected; the first write takes the protection off."""
_WRITE_PROTECT_MODE = 2
_PROTECT = 1

_WRITE_PROTECTABLE, _WRITTEN, _PRESENT, _SWAPPED = 1, 2, 8, 16
_RUNS_PER_SCAN = 4096


def _request(kind: int, number: int, size: int) -> int:
    """Code of an `ioctl` that takes and gives back a structure of `size` bytes."""
    return 3 << 30 | size << 16 | kind << 8 | number


_UFFDIO_API = _request(_API, 0x3F, 24)
_UFFDIO_REGISTER = _request(_API, 0x00, 32)
_UFFDIO_WRITEPROTECT = _request(_API, 0x06, 24)
_PAGEMAP_SCAN = _request(ord("f"), 16, 96)


class WrittenPages:
    """Notes writes to the memory of the process that made it; good for no other process.

    Raises:
        OSError: this system cannot do it, or does not allow it.
    """

    def __init__(self) -> None:
        number = _NUMBERS.get(platform.machine())
        if sys.platform != "linux" or number is None:
            raise OSError("not known how on this system")
        self.process = os.getpid()
        self._runs = (ctypes.c_uint64 * (3 * _RUNS_PER_SCAN))()
        self._fault = self._table = -1
        libc = ctypes.CDLL(None, use_errno=True)
        flags = os.O_CLOEXEC | os.O_NONBLOCK | _USER_MODE_ONLY
        self._fault = libc.syscall(number, flags)
        if self._fault < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        try:
            _ask(self._fault, _UFFDIO_API, "3Q", _API, _FEATURES, 0)
            self._table = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
            self._scan(0, PAGE)  # tells whether there is such a scan
        except BaseException:
            self.close()
            raise

    def register(self, start: int, end: int) -> None:
        """Have writes to some pages noted from when they are protected on.

        Only for private anonymous memory: everything else has other ways in than this process's
        page table. What is unmapped later, or moved, is not registered any more.

        Raises:
            OSError: it is other memory, or another userfaultfd has it.
        """
        if is_private_anonymous(start, end):
            _ask(self._fault, _UFFDIO_REGISTER, "4Q", start, end - start, _WRITE_PROTECT_MODE, 0)
            # Asked again: what was mapped there in between could be anything.
            if is_private_anonymous(start, end):
                return
        raise OSError("memory that others may write to")

    def protect(self, start: int, end: int) -> None:
        """Take some registered pages for unwritten from now on.

        Raises:
            OSError: they are not registered any more.
        """
        _ask(self._fault, _UFFDIO_WRITEPROTECT, "3Q", start, end - start, _PROTECT)

    def protected(self, start: int, end: int) -> list[Run]:
        """The pages that were protected, have not been written since, and hold something.

        Pages that were unmapped, given back to the system, or mapped anew are not among them.
        """
        found: list[Run] = []
        while start < end:
            count, start = self._scan(start, end)
            values = self._runs[: 3 * count]
            found += zip(values[::3], values[1::3], strict=True)
        return found

    def _scan(self, start: int, end: int) -> tuple[int, int]:
        """How many runs were found, and where to go on."""
        wanted = _WRITE_PROTECTABLE | _WRITTEN
        answer = _ask(
            self._table,
            _PAGEMAP_SCAN,
            "12Q",
            *(96, 0, start, end, 0),
            *(ctypes.addressof(self._runs), _RUNS_PER_SCAN, 0),
            # Written is what they must not be. Of pages that are not there, some kernels say that
            # they were written, and some do not.
            *(_WRITTEN, wanted, _PRESENT | _SWAPPED, _WRITE_PROTECTABLE),
        )
        return answer[0], answer[5]

    def close(self) -> None:
        """Nothing is noted any more, and all protection is taken off."""
        for fd in (self._fault, self._table):
            if fd >= 0:
                os.close(fd)
        self._fault = self._table = -1


def _ask(fd: int, request: int, form: str, *values: int) -> tuple[int, ...]:
    """Make a request; returns its result, and the structure as it is afterwards."""
    block = bytearray(struct.pack(form, *values))
    result = fcntl.ioctl(fd, request, block)
    return result, *struct.unpack(form, block)


def is_private_anonymous(start: int, end: int) -> bool:
    """Whether addresses are this process's own memory throughout, with no file behind it."""
    with open("/proc/self/maps", "rb") as maps:
        for line in maps:
            span, rights, _, device, inode, *name = line.split(None, 5)
            first, _, last = span.partition(b"-")
            if int(last, 16) <= start:
                continue
            is_own = rights[3:4] == b"p" and device == b"00:00" and inode == b"0"
            if int(first, 16) > start or not is_own or not _is_plain(*name):
                return False
            start = int(last, 16)
            if start >= end:
                return True
    return False


def _is_plain(name: bytes = b"") -> bool:
    return name.strip() in (b"", b"[heap]") or name.startswith(b"[anon")
