"""Leaf ids of bytes of any size, without hashing twice what has been hashed before.

Identity is BLAKE3-256 per leaf of `LEAF_BYTES`. Within one process a leaf that was
seen before is recognised by a seeded XXH3-128 of its bytes and its length, which
runs at memory speed; the seed is random, so nobody can prepare two leaves that
collide. That value is never written down.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TypeVar

from blake3 import blake3
from xxhash import xxh3_128_digest

from nbrewind.model.blobs import LEAF_BYTES, ObjectId
from nbrewind.model.spans import stopwatch
from nbrewind.store.abc import Buffer
from nbrewind.store.workers import run_all

_T = TypeVar("_T")
_R = TypeVar("_R")

DEFAULT_CAPACITY = 131_072
"""Leaves remembered: 32 GiB of data, about 30 MB of memory."""


_MANY = 32
"""Leaves from which computing their keys is worth several threads."""

LeafKey = tuple[int, bytes]
"""Length and seeded XXH3-128 of a leaf."""
LeafKeys = tuple[LeafKey, ...]
"""Those of each leaf of some bytes."""


def object_id(data: Buffer) -> ObjectId:
    """The id of one object: BLAKE3-256 of its content."""
    return blake3(data).digest()


def flat(data: Buffer) -> memoryview:
    """The bytes of a C-contiguous buffer of any shape and type, without a copy.

    Raises:
        ValueError: the buffer is not C-contiguous.
    """
    view = memoryview(data)
    if not view.c_contiguous:
        raise ValueError("a blob needs a C-contiguous buffer")
    if view.nbytes == 0:  # a view with a zero in its shape cannot be cast
        return memoryview(b"")
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def split(data: Buffer) -> list[memoryview]:
    """The leaves of a buffer, in order; none for an empty one."""
    view = flat(data)
    return [view[at : at + LEAF_BYTES] for at in range(0, view.nbytes, LEAF_BYTES)]


def blob_digest(leaves: Sequence[ObjectId]) -> bytes:
    """A blob's digest from the ids of its leaves."""
    return blake3(b"".join(leaves)).digest()


def content_digest(data: Buffer) -> bytes:
    """The blob digest of bytes that are to be verified: nothing remembered is relied on."""
    return blob_digest(run_all(object_id, split(data)))


def are_leaves(sizes: Sequence[int]) -> bool:
    """Whether chunks of these sizes, joined, are the leaves of a blob."""
    return all(size == LEAF_BYTES for size in sizes[:-1]) and all(
        0 < size <= LEAF_BYTES for size in sizes[-1:]
    )


class LeafHasher:
    """Computes leaf ids; remembers the leaves it has seen.

    Safe to share between threads: a lost race costs one hash.

    Args:
        capacity: Number of leaves remembered; the oldest are forgotten first.
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._capacity = capacity
        self._seen: dict[LeafKey, ObjectId] = {}
        self._seed = secrets.randbits(64)

    def keys(self, data: Buffer, known: Sequence[LeafKey | None] = ()) -> LeafKeys:
        """What the leaves of `data` (C-contiguous) are recognised by; runs at memory speed.

        Within one process and for one hasher, equal keys mean equal bytes.

        Args:
            data: The bytes.
            known: The keys of all leaves, None for those that are to be computed; empty if all
                are.
        """
        if known:
            return self._missing_keys(data, known)
        views = split(data)
        if len(views) < _MANY:
            return tuple(map(self._key, views))
        with stopwatch.measure("hash", sum(view.nbytes for view in views)):
            return tuple(run_all(self._key, views))

    def _missing_keys(self, data: Buffer, known: Sequence[LeafKey | None]) -> LeafKeys:
        view = flat(data)
        places = [i * LEAF_BYTES for i, key in enumerate(known) if key is None]
        views = [view[at : at + LEAF_BYTES] for at in places]
        with stopwatch.measure("hash", sum(leaf.nbytes for leaf in views)):
            computed = iter(run_all(self._key, views))
        return tuple(next(computed) if key is None else key for key in known)

    def leaves(self, data: Buffer, keys: LeafKeys | None = None) -> tuple[ObjectId, ...]:
        """The ids of the leaves of `data` (C-contiguous), in order.

        Args:
            data: The bytes.
            keys: Their `keys`, if they are known; they must be those of the bytes as they are.
        """
        keys = self.keys(data) if keys is None else keys
        found = [self._seen.get(key) for key in keys]
        if None not in found:
            return tuple(oid for oid in found if oid is not None)
        return self._ids(split(data), keys, found)

    def ids(self, views: Sequence[memoryview]) -> tuple[ObjectId, ...]:
        """The ids of separate objects of any length."""
        keys = run_all(self._key, views) if len(views) >= _MANY else [*map(self._key, views)]
        return self._ids(views, keys, [self._seen.get(key) for key in keys])

    def _ids(
        self,
        views: Sequence[memoryview],
        keys: Sequence[tuple[int, bytes]],
        found: Sequence[ObjectId | None],
    ) -> tuple[ObjectId, ...]:
        novel = {key: i for i, key in enumerate(keys) if found[i] is None}
        unknown = [views[i] for i in novel.values()]
        with stopwatch.measure("hash", sum(view.nbytes for view in unknown)):
            fresh = dict(zip(novel, run_all(object_id, unknown), strict=True))
        self._remember(fresh)
        return tuple(
            oid if oid is not None else fresh[key] for key, oid in zip(keys, found, strict=True)
        )

    def _key(self, view: memoryview) -> LeafKey:
        return view.nbytes, xxh3_128_digest(view, self._seed)

    def digest(self, data: Buffer) -> bytes:
        """The blob digest of `data`, as `BlobRef.digest` has it."""
        return blob_digest(self.leaves(data))

    def _remember(self, fresh: dict[LeafKey, ObjectId]) -> None:
        excess = len(self._seen) + len(fresh) - self._capacity
        if excess > 0:
            # A quarter at once, so that a full cache does not pay for every leaf.
            doomed = list(self._seen)[: max(excess, self._capacity // 4)]
            for key in doomed:
                self._seen.pop(key, None)
        self._seen.update(fresh)
