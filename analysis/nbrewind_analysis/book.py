"""The book of records: what a store knows about earlier runs, decoded and cached."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import msgspec

from nbrewind.errors import StoreError
from nbrewind.model.blobs import ObjectId
from nbrewind.model.records import RECORD_FORMAT, ExecutionRecord
from nbrewind.model.refs import RefBody, StoredRef
from nbrewind.store.abc import Store

log = logging.getLogger(__name__)

_decoder = msgspec.msgpack.Decoder(ExecutionRecord)


@dataclass(frozen=True, slots=True)
class Entry:
    """One record with the ref it is committed under."""

    id: ObjectId
    record: ExecutionRecord
    ref: RefBody


@dataclass(frozen=True, slots=True)
class Found:
    """What a look-up brought to light."""

    entries: tuple[Entry, ...]
    """Trusted, readable records, newest first."""
    untrusted: int = 0
    """Records under keys that are not trusted here."""


class RecordBook:
    """Records by source digest and by id."""

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._records: dict[ObjectId, ExecutionRecord | None] = {}
        self._own: list[Entry] = []

    def refresh(self) -> None:
        """Notice what others committed."""
        if self._store is not None:
            try:
                self._store.refresh()
            except StoreError as problem:
                log.warning("records of other sessions are not seen: %s", problem)

    def add(self, entry: Entry) -> None:
        """Note a record of this session; kept even where nothing can be stored."""
        self._records[entry.id] = entry.record
        self._own.append(entry)

    def find(self, source_digest: str) -> Found:
        """All records of one cell source."""
        return self._collect(self._refs(source_digest), source_digest)

    def history(self, notebook: str = "") -> Found:
        """All records, or those of one notebook."""
        refs = [r for r in self._refs(None) if not notebook or r.body.notebook == notebook]
        return self._collect(refs, None)

    def refs_of_cell(self, notebook: str, cell_id: str, ordinal: int) -> list[RefBody]:
        """Refs of what this cell, or the cell at this place, was when it ran before."""
        bodies = [r.body for r in self._refs(None) if r.trusted and r.body.notebook == notebook]
        bodies += [e.ref for e in self._own if e.ref.notebook == notebook]
        bodies.sort(key=lambda body: body.created, reverse=True)
        same = [body for body in bodies if cell_id and body.cell_id == cell_id]
        return same or [body for body in bodies if body.ordinal == ordinal >= 0]

    def get(self, record_id: ObjectId) -> ExecutionRecord | None:
        """A record by id; None if it cannot be read."""
        if record_id in self._records:
            return self._records[record_id]
        record = None
        try:
            if self._store is not None:
                record = decode_record(record_id, self._store.get(record_id))
        except (StoreError, msgspec.MsgspecError) as problem:
            log.warning("record %s cannot be read: %s", record_id.hex()[:12], problem)
        self._records[record_id] = record
        return record

    def _refs(self, source_digest: str | None) -> list[StoredRef]:
        if self._store is None:
            return []
        try:
            return list(self._store.refs(source_digest))
        except StoreError as problem:
            log.warning("records cannot be listed: %s", problem)
            return []

    def _collect(self, refs: list[StoredRef], source_digest: str | None) -> Found:
        entries = [e for e in self._own if source_digest in (None, e.ref.source_digest)]
        known = {entry.id for entry in entries}
        untrusted = 0
        for ref in refs:
            if not ref.trusted:
                untrusted += 1
                continue
            if ref.body.record in known:
                continue
            record = self.get(ref.body.record)
            if record is not None:
                entries.append(Entry(ref.body.record, record, ref.body))
        entries.sort(key=lambda entry: entry.ref.created, reverse=True)
        return Found(tuple(entries), untrusted)


def decode_record(record_id: ObjectId, raw: bytes) -> ExecutionRecord | None:
    """A record from its bytes; None if it was written by a newer NBRewind."""
    record = _decoder.decode(raw)
    return None if record.format > RECORD_FORMAT else settle(record_id, record)


def settle(record_id: ObjectId, record: ExecutionRecord) -> ExecutionRecord:
    """A record whose co-variables name it as the one that made them."""
    groups = tuple(
        group if group.producer else msgspec.structs.replace(group, producer=record_id)
        for group in record.writes.groups
    )
    writes = msgspec.structs.replace(record.writes, groups=groups)
    return msgspec.structs.replace(record, writes=writes)
