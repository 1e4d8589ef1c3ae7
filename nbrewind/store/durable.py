"""Writing so that it survives power loss, and saying plainly why it could not be done.

`fsync` is never retried on a descriptor: after a failure the kernel may have
dropped the dirty pages and report success the second time. Callers write the
data anew, once, to another file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from nbrewind.errors import StoreNotWritable
from nbrewind.model.spans import stopwatch
from nbrewind.store.sharing import pass_on

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

_ADVICE = {
    errno.ENOSPC: "the disk is full: free space there or choose another store",
    errno.EDQUOT: "your disk quota is used up: free space there or choose another store",
    errno.EROFS: "the file system is mounted read-only: choose another store",
    errno.EACCES: "permission denied: change the permissions or choose another store",
    errno.EPERM: "permission denied: change the permissions or choose another store",
    errno.EIO: "the disk reports an input/output error: check it",
    errno.ESTALE: "the file server has forgotten the directory: mount it again",
    errno.ENOENT: "the directory disappeared while it was in use",
}

_UNSUPPORTED = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.ENOTTY}
_ONCE_MORE = {errno.EIO, errno.ESTALE}
_FILE_MODE = 0o666  # umask decides
_MOST_PIECES = 512  # below every system's IOV_MAX


def not_writable(path: str, cause: OSError) -> StoreNotWritable:
    """The error to raise for a failed write at `path`."""
    why = _ADVICE.get(cause.errno or 0, os.strerror(cause.errno) if cause.errno else str(cause))
    return StoreNotWritable(f"cannot write {path}: {why}")


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Turn every `OSError` of the block into `StoreNotWritable` about `path`."""
    try:
        yield
    except OSError as exc:
        raise not_writable(str(exc.filename or path), exc) from exc


def create(path: str) -> int:
    """Create a file that does not exist and return its descriptor."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)
    try:
        pass_on(path)
    except OSError:
        close(fd)
        discard(path)
        raise
    return fd


def write_all(fd: int, pieces: Sequence[bytes | bytearray | memoryview]) -> None:
    """Write all pieces at the descriptor's position, however often the system stops short."""
    left = [memoryview(p).cast("B") for p in pieces if len(p)]
    while left:
        done = os.writev(fd, left[:_MOST_PIECES])
        if done == 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        while left and done >= left[0].nbytes:
            done -= left[0].nbytes
            del left[0]
        if done:
            left[0] = left[0][done:]


def sync_file(fd: int) -> None:
    """Make a file's content durable."""
    with stopwatch.measure("fsync"):
        _sync_file(fd)


def _sync_file(fd: int) -> None:
    if sys.platform == "darwin":
        # There fsync stops at the drive's cache, and some file systems know only fsync.
        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return
        except OSError as exc:
            if exc.errno not in _UNSUPPORTED:
                raise
    os.fsync(fd)


def sync_directory(path: str) -> None:
    """Make the names in a directory durable, where the system can."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with stopwatch.measure("fsync"):
            os.fsync(fd)
    except OSError as exc:
        # Some network and user-space file systems have no fsync of directories.
        if exc.errno not in _UNSUPPORTED:
            raise
    finally:
        close(fd)


_named: set[tuple[str, int, int]] = set()
"""Directories whose names are known to be durable: path, device, inode."""


def make_directory(path: str) -> bool:
    """Make a directory and its name durable; False if it was there.

    One that was there may have been made a moment ago by somebody who has not synchronised its
    name yet, or failed to, so that is not left to them.
    """
    try:
        os.mkdir(path)
        pass_on(path)
        made = True
    except FileExistsError:
        made = False
    info = os.stat(path)
    if made or (path, info.st_dev, info.st_ino) not in _named:
        sync_directory(os.path.dirname(path))
        _named.add((path, info.st_dev, info.st_ino))
    return made


def close(fd: int) -> None:
    """Close a file that was only read, is synchronised, or is given up: no error matters then."""
    try:
        os.close(fd)
    except OSError as exc:
        _log.debug("closing a file: %s", exc)


def again_if_stale(action: Callable[[], _T]) -> _T:
    """Do it; once more if the server had forgotten the file: its name may lead to a new one."""
    try:
        return action()
    except OSError as exc:
        if exc.errno != errno.ESTALE:
            raise
    return action()


def exists(path: str) -> bool:
    """Whether something has this name. Raises `OSError` where that cannot be found out."""
    try:
        again_if_stale(lambda: os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def write_small(path: str, content: bytes) -> None:
    """Write a new small file durably, a second time to the same name if the disk complains once."""
    for attempt in (1, 2):
        fd = create(path)
        try:
            write_all(fd, [content])
            sync_file(fd)
            return
        except OSError as exc:
            discard(path)
            if attempt == 2 or exc.errno not in _ONCE_MORE:
                raise
        finally:
            close(fd)


def same_file(path: str, other: str) -> bool:
    """Whether two names are known to be of one file."""
    try:
        return os.path.samestat(os.stat(path), os.stat(other))
    except OSError:
        return False


def move(path: str, target: str) -> None:
    """Rename a file. That it was done although the answer is an error counts as done."""
    before = os.stat(path)
    try:
        os.rename(path, target)
    except OSError:
        # Over a network the answer can be lost, and the second try finds nothing to rename.
        if os.path.lexists(path) or not os.path.samestat(before, os.stat(target)):
            raise


def discard(path: str) -> None:
    """Remove a temporary file if it is there; failing to is not worth an error."""
    with contextlib.suppress(OSError):
        os.unlink(path)
