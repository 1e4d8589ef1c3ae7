"""Stores that a group of users writes to: whose permissions new files and directories get.

A directory that belongs to a group which may write to it, and passes its group on (setgid),
is shared. What is made in it is shared too, whatever the umask of who makes it: directories
as it is itself, files so that the group can read them; nobody ever writes to one again.
"""

from __future__ import annotations

import os
import shutil
import stat

from nbrewind.errors import StoreNotWritable

_SHARED = stat.S_ISGID | stat.S_IRWXG
_READABLE = stat.S_IRGRP


def is_shared(directory: str) -> bool:
    """Whether what is made in a directory is its group's. Raises `OSError`."""
    mode = os.stat(directory).st_mode
    return bool(mode & stat.S_ISGID and mode & stat.S_IWGRP)


def pass_on(path: str) -> None:
    """A file or directory was just made by this process: it is shared as what it is in."""
    if is_shared(os.path.dirname(path)):
        mode = os.stat(path).st_mode
        os.chmod(path, stat.S_IMODE(mode) | (_SHARED if stat.S_ISDIR(mode) else _READABLE))


def share(root: str, group: str) -> None:
    """Share a store, and what is in it, with a group.

    Args:
        root: A directory store.
        group: Its name.

    Raises:
        StoreNotWritable: there is no such group, the user is not in it, or part of the store
            belongs to somebody else.
    """
    try:
        for folder, _, files in os.walk(root):
            shutil.chown(folder, group=group)
            os.chmod(folder, stat.S_IMODE(os.stat(folder).st_mode) | _SHARED)
            for name in files:
                path = os.path.join(folder, name)
                shutil.chown(path, group=group)
                os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | _READABLE)
    except LookupError as exc:
        raise StoreNotWritable(f"there is no group {group!r}: name one that you are in") from exc
    except OSError as exc:
        raise StoreNotWritable(
            f"cannot share {exc.filename} with the group {group!r}: {exc.strerror}; its owner has "
            "to, and has to be in the group"
        ) from exc
