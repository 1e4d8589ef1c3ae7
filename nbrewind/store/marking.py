"""What an object leads to: the way from a ref to every chunk it needs.

A collector must never take something for garbage because it did not understand a record.
So what counts as *mentioned* is every byte string of an id's length, wherever it stands in
a record or manifest, fields of later versions included. What is *needed* is known from the
types: if one of these objects is missing, something was lost.

Nothing is unpickled, and nothing is believed: it only keeps objects from being removed. So
the records of untrusted refs are followed, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from nbrewind.errors import ObjectDamaged, StoreError
from nbrewind.model.blobs import BlobRef, ObjectId
from nbrewind.model.checkpoints import (
    CHECKPOINT_FORMAT,
    FRAGMENT_FORMAT,
    Checkpoint,
    Fragment,
)
from nbrewind.model.manifests import MANIFEST_FORMAT, Manifest
from nbrewind.model.records import RECORD_FORMAT, ExecutionRecord
from nbrewind.store.abc import Kind

_ID_BYTES = 32

_anything = msgspec.msgpack.Decoder()
_record = msgspec.msgpack.Decoder(ExecutionRecord)
_manifest = msgspec.msgpack.Decoder(Manifest)
_checkpoint = msgspec.msgpack.Decoder(Checkpoint)
_fragment = msgspec.msgpack.Decoder(Fragment)


@dataclass(frozen=True, slots=True)
class Links:
    """The objects that one object leads to."""

    needs: frozenset[ObjectId] = frozenset()
    mentions: frozenset[ObjectId] = frozenset()
    """May be ids of objects, or digests of something else."""


def links(kind: Kind, content: bytes) -> Links:
    """What an object leads to.

    Raises:
        ObjectDamaged: it is of a newer format, or not what its kind says.
    """
    if kind == "chunk":
        return Links()
    try:
        everything = _anything.decode(content)
        number, known, needs = _read(kind, content, everything)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as exc:
        raise ObjectDamaged(f"a {kind} cannot be understood: {exc}") from exc
    if number > known:
        raise ObjectDamaged(f"a {kind} is of format {number}: upgrade NBRewind")
    return Links(needs=needs, mentions=frozenset(_ids(everything)) - needs)


def _read(kind: Kind, content: bytes, fields: dict[str, Any]) -> tuple[int, int, frozenset[bytes]]:
    """The format of an object, the newest that is known, and what the object needs."""
    if kind == "record" and "checkpoint" in fields:
        checkpoint = _checkpoint.decode(content)
        return checkpoint.checkpoint, CHECKPOINT_FORMAT, frozenset(checkpoint.fragments)
    if kind == "record" and "fragment" in fields:
        fragment = _fragment.decode(content)
        return fragment.fragment, FRAGMENT_FORMAT, frozenset(_of_fragment(fragment))
    if kind == "record":
        record = _record.decode(content)
        return record.format, RECORD_FORMAT, frozenset(_of_record(record))
    manifest = _manifest.decode(content)
    return manifest.format, MANIFEST_FORMAT, frozenset(_of(manifest))


def _of_fragment(fragment: Fragment) -> Iterator[ObjectId]:
    yield from fragment.values.chunks
    for tensor in fragment.tensors:
        for part in tensor.parts:
            yield from part.tiles


def _of_record(record: ExecutionRecord) -> Iterator[ObjectId]:
    yield from (group.manifest for group in record.writes.groups if group.manifest is not None)
    yield from record.reads.manifests.values()
    blobs = [record.outputs, *(access.content for access in record.files)]
    yield from _chunks(blob for blob in blobs if blob is not None)


def _of(manifest: Manifest) -> Iterator[ObjectId]:
    yield from _chunks([manifest.stream, *manifest.buffers, *manifest.codes.values()])


def _chunks(blobs: Iterable[BlobRef]) -> Iterator[ObjectId]:
    for blob in blobs:
        yield from blob.chunks


def _ids(value: Any) -> Iterator[ObjectId]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, bytes):
            if len(one) == _ID_BYTES:
                yield one
        elif isinstance(one, dict):
            waiting += one.keys()
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one


@dataclass
class Reach:
    """What some objects lead to, all in all."""

    there: set[ObjectId] = field(default_factory=set)
    """Objects that the store has."""
    missing: set[ObjectId] = field(default_factory=set)
    """Objects that are needed and that it has not."""
    problems: list[str] = field(default_factory=list)
    """A sentence about each object that could not be followed."""

    def follow(
        self,
        roots: Iterable[ObjectId],
        kind_of: Callable[[ObjectId], Kind | None],
        read: Callable[[ObjectId], bytes],
    ) -> None:
        """Add what these objects lead to, and they themselves.

        Args:
            roots: Objects that are needed.
            kind_of: The kind of an object; None if the store does not have it.
            read: Its verified content; raises `StoreError`.
        """
        waiting = [(oid, True) for oid in roots]
        while waiting:
            oid, needed = waiting.pop()
            if oid in self.there:
                continue
            kind = kind_of(oid)
            if kind is None:
                if needed:
                    self.missing.add(oid)
                continue
            self.there.add(oid)
            if kind == "chunk":
                continue
            try:
                found = links(kind, read(oid))
            except StoreError as problem:
                self.problems.append(f"object {oid.hex()[:16]}: {problem}")
                continue
            waiting += [(each, True) for each in found.needs]
            waiting += [(each, False) for each in found.mentions]
