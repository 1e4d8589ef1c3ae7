"""What kind of file system a folder is on, as far as following files depends on it."""

from __future__ import annotations

import os
from functools import lru_cache

_REMOTE = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "gluster", "fuse")
"""How the types of file systems begin that other machines change without our kernel's knowing."""


@lru_cache(maxsize=16)
def is_remote(path: str) -> bool:
    """Whether a folder is on a network file system, of which events of other hosts are missing.

    Read from `/proc/self/mountinfo` (see `man 5 proc`); False where there is no such file.
    """
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return False
    real = os.path.realpath(path)
    best, kind = -1, ""
    for line in lines:
        mount, _, rest = line.partition(" - ")
        fields = mount.split()
        point = fields[4].replace("\\040", " ") if len(fields) > 4 else ""
        inside = real == point or real.startswith(point.rstrip(os.sep) + os.sep)
        if inside and len(point) >= best:
            best, kind = len(point), rest.partition(" ")[0]
    return kind.startswith(_REMOTE)
