"""Copies of many refs in one file, so that a store of many executions opens fast.

```
magic    8 bytes    "NBRWRFS", then the version 1
refs     MessagePack array of [lineage, number, content of the ref's file]
digest   32 bytes   BLAKE3-256 of everything before; also the file's name
```

A cache, like index segments: the files in `refs/` say which refs there are, and a copy
is used only for one that is there. It is read as the file is: its digest, its place and,
before it is believed, its signature are verified.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Mapping

import msgspec
from blake3 import blake3

from nbrewind.errors import ObjectDamaged
from nbrewind.model.refs import RefBody
from nbrewind.store import refs, segments
from nbrewind.store.durable import discard
from nbrewind.store.refs import Place, SignedRef

_log = logging.getLogger(__name__)

MAGIC = b"NBRWRFS\x01"
SUFFIX = ".refs"

SEGMENT_REFS = 64
"""Refs without a segment from which one is written, or read where there are some."""
SETTLED_SECONDS = 3600
"""Age from which a ref is copied. It can be taken back while its commit still fails, and its
number is then given again; a copy must not outlive that."""

_PAUSE_SECONDS = 60
"""Between looks at refs that are too young: a session commits many."""
_DIGEST_BYTES = 32


class _Copy(msgspec.Struct, frozen=True, array_like=True):
    lineage: str
    seq: int
    content: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[_Copy])


class RefSegments:
    """The ref segments of a store.

    Args:
        folder: The store's `idx` directory.
        read_only: Write none.
    """

    def __init__(self, folder: str, *, read_only: bool) -> None:
        self._folder = folder
        self._read_only = read_only
        self._known: dict[str, frozenset[Place]] = {}
        self._covered: set[Place] = set()
        self._pause_until = 0.0

    def load(self) -> dict[Place, bytes]:
        """The files' contents of all refs in segments that were not loaded before."""
        found: dict[Place, bytes] = {}
        for name in self._names():
            if name in self._known:
                continue
            copies = self._read(name)
            self._known[name] = frozenset(copies)
            self._covered.update(copies)
            found.update(copies)
        return found

    def forget(self, place: Place) -> None:
        """A ref is gone."""
        self._covered.discard(place)

    def extend(self, known: Mapping[Place, tuple[RefBody, SignedRef]]) -> None:
        """Write a segment if many settled refs are in none; failing to is no loss."""
        if self._read_only or len(known) - len(self._covered) < SEGMENT_REFS:
            return
        if time.monotonic() < self._pause_until:
            return
        settled = time.time() - SETTLED_SECONDS
        places = {
            place
            for place, (body, _) in known.items()
            if place not in self._covered and body.created <= settled
        }
        if len(places) < SEGMENT_REFS:
            self._pause_until = time.monotonic() + _PAUSE_SECONDS
            return
        # Segments that are no larger are merged: then there are few, and each ref is written
        # again only as often as their number doubles.
        superseded = []
        for name, held in sorted(self._known.items(), key=lambda item: len(item[1])):
            if len(held) > len(places):
                break
            places.update(held & known.keys())
            superseded.append(name)
        if self._write({place: refs.pack(known[place][1]) for place in places}):
            for name in superseded:
                del self._known[name]
                with contextlib.suppress(OSError):
                    self._remove(name)

    def _names(self) -> list[str]:
        try:
            return sorted(n for n in os.listdir(self._folder) if n.endswith(SUFFIX))
        except OSError:
            return []

    def _fetch(self, name: str) -> bytes:
        with open(os.path.join(self._folder, name), "rb") as file:
            return file.read()

    def _put(self, name: str, content: bytes) -> None:
        segments.publish(self._folder, name, content)

    def _remove(self, name: str) -> None:
        discard(os.path.join(self._folder, name))

    def _read(self, name: str) -> dict[Place, bytes]:
        """The contents in one segment; none if it is not right."""
        try:
            content = self._fetch(name)
            body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
            if blake3(body).digest() != digest or not body.startswith(MAGIC):
                raise ObjectDamaged("it is damaged, or of a newer format")
            copies = _decoder.decode(body[len(MAGIC) :])
        except (OSError, ObjectDamaged, msgspec.MsgspecError) as exc:
            _log.info("the ref segment %s/%s was skipped: %s", self._folder, name, exc)
            return {}
        return {(copy.lineage, copy.seq): copy.content for copy in copies}

    def _write(self, contents: Mapping[Place, bytes]) -> bool:
        copies = [_Copy(*place, content) for place, content in sorted(contents.items())]
        body = MAGIC + _encoder.encode(copies)
        digest = blake3(body).digest()
        name = digest.hex() + SUFFIX
        try:
            self._put(name, body + digest)
        except OSError as exc:
            _log.info("no ref segment was written in %s: %s", self._folder, exc)
            return False
        self._known[name] = frozenset(contents)
        self._covered.update(contents)
        return True
