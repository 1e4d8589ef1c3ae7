"""Commits whose records can be followed, as those of a kernel can."""

from __future__ import annotations

import random

import msgspec

from nbrewind.model.blobs import ObjectId
from nbrewind.model.manifests import Manifest
from nbrewind.model.records import ExecutionRecord, Group, Reads, Variable, Writes
from nbrewind.model.refs import StoredRef
from nbrewind.store import Store
from nbrewind.store.gc import Patience
from nbrewind.testing.store_conformance import ref_body

AT_ONCE = Patience(grace=0, trash=0, lease=0)
TO_TRASH = Patience(grace=0, trash=10**12)


def noise(seed: object, size: int = 300_000) -> bytes:
    return random.Random(repr(seed)).randbytes(size)


def run_cell(
    store: Store,
    name: str,
    value: bytes,
    *,
    reads: dict[str, ObjectId] | None = None,
    seconds: float = 1.0,
    status: str = "ok",
    **fields: object,
) -> StoredRef:
    """Commit the record of a cell that bound `name` to `value`."""
    writer = store.begin()
    blob = writer.put_blob(value)
    empty = writer.put_blob(b"stream of " + name.encode())
    manifest = Manifest(
        names=(name,), stream=empty, buffers=(blob,), readonly=(False,), codes={}, python="3.11"
    )
    stored = writer.put("manifest", msgspec.msgpack.encode(manifest))
    group = Group({name: Variable(f"v{name}")}, manifest=stored)
    record = ExecutionRecord(
        source=name,
        source_digest=name,
        reads=Reads(manifests=reads or {}),
        writes=Writes(groups=(group,)),
        seconds=seconds,
        status=status,
        cell_id=name,
    )
    oid = writer.put("record", msgspec.msgpack.encode(record))
    return writer.commit(ref_body(oid, source_digest=name, cell_id=name, status=status, **fields))


def manifest_of(store: Store, ref: StoredRef) -> ObjectId:
    record = msgspec.msgpack.decode(store.get(ref.body.record), type=ExecutionRecord)
    manifest = record.writes.groups[0].manifest
    assert manifest is not None
    return manifest


def value_of(store: Store, ref: StoredRef) -> bytes:
    """What the record's cell bound its name to."""
    return value_in(store, manifest_of(store, ref))


def value_in(store: Store, manifest: ObjectId) -> bytes:
    found = msgspec.msgpack.decode(store.get(manifest), type=Manifest)
    return bytes(store.get_blob(found.buffers[0]))
