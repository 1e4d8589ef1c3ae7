"""Versions of files and folders by their content, with a cache for unchanged files."""

from __future__ import annotations

import os
import stat
import time
from collections import OrderedDict
from collections.abc import Iterable

from blake3 import blake3

from nbrewind.model.versions import ABSENT, PRESENT, Version, content_version
from nbrewind.state import digest_cache
from nbrewind.state.audit import unheard
from nbrewind.state.digest_cache import Key

_BLOCK = 1 << 20
_PARALLEL = 8 << 20
_RACY_NS = 2_000_000_000
_CACHE_SIZE = 4096

_UNLISTED = frozenset({".nbrewind", ".ipynb_checkpoints", "__pycache__"})

_cache: OrderedDict[Key, Version] = OrderedDict()


def digest_file(path: str) -> Version:
    """Content version of a regular file, equal to `content_version` of its bytes.

    Returns:
        The version; `absent` if there is no such file; `present` for what has no
        content of its own (a pipe, a device) or may not be read.
    """
    return _version(path) or PRESENT


def cheap_digest(path: str, limit: int) -> Version | None:
    """As `digest_file`; None if more than `limit` bytes would have to be read."""
    return _version(path, limit)


def _version(path: str, limit: int | None = None) -> Version | None:
    with unheard():
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return ABSENT
        except (OSError, ValueError):
            return PRESENT
        if not stat.S_ISREG(status.st_mode):
            return PRESENT
        # The time of the last change of anything shows writers that set the other one back.
        key = (
            *(status.st_dev, status.st_ino, status.st_size),
            *(status.st_mtime_ns, status.st_ctime_ns),
        )
        known = _cache.get(key)
        if known is None and status.st_size >= digest_cache.LARGE:
            known = digest_cache.get(key)
        if known is not None:
            _cache[key] = known
            _cache.move_to_end(key)
            return known
        if limit is not None and status.st_size > limit:
            return None
        try:
            version = _digest(path, status.st_size)
            after = os.stat(path)
        except FileNotFoundError:
            return ABSENT
        except OSError:
            return PRESENT
        # A file touched within the clock's grain of now may change again unseen.
        steady = (after.st_mtime_ns, after.st_size) == (status.st_mtime_ns, status.st_size)
        if steady and time.time_ns() - max(key[-2:]) > _RACY_NS:
            _cache[key] = version
            if len(_cache) > _CACHE_SIZE:
                _cache.popitem(last=False)
            if status.st_size >= digest_cache.LARGE:
                digest_cache.put(key, version)
        return version


def listing_version(names: Iterable[str]) -> Version:
    """Version of a folder's listing; NBRewind's and Jupyter's own entries do not count."""
    return content_version("listing", *sorted(name for name in names if name not in _UNLISTED))


def current_version(path: str, recorded: Version | None = None) -> Version:
    """The version on disk of a file or folder, to compare with a recorded one.

    Args:
        path: Absolute path.
        recorded: The version to compare with: `present` asks for existence only.
    """
    with unheard():
        if not os.path.lexists(path):
            return ABSENT
        if recorded == PRESENT:
            return PRESENT
        if os.path.isdir(path):
            names = listing(path)
            return PRESENT if names is None else listing_version(names)
        return digest_file(path)


def listing(path: str) -> frozenset[str] | None:
    """The names in a folder; None if it is no folder or cannot be listed."""
    with unheard():
        try:
            return frozenset(os.listdir(path))
        except (OSError, ValueError):
            return None


def contents(path: str, limit: int) -> bytes | None:
    """A file's bytes; None if it is no readable regular file or holds more than `limit`."""
    with unheard():
        try:
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
                return None
            with open(path, "rb") as file:
                data = file.read(limit + 1)
        except (OSError, ValueError):
            return None
    return data if len(data) <= limit else None


def _digest(path: str, size: int) -> Version:
    # The length goes first, as in `content_version`, so that both agree.
    if size >= _PARALLEL:
        hasher = blake3(size.to_bytes(8, "little"), max_threads=blake3.AUTO)
        hasher.update_mmap(path)
        return "v" + hasher.hexdigest()[:48]
    hasher = blake3()
    blocks = []
    with open(path, "rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            blocks.append(block)
    hasher.update(sum(map(len, blocks)).to_bytes(8, "little"))
    for block in blocks:
        hasher.update(block)
    return "v" + hasher.hexdigest()[:48]
