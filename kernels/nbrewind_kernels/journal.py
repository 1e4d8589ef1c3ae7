"""The journal of a session: writes execution records, and reads outputs back.

Records are handed to the store, which makes them durable while the notebook goes on;
`settle` waits for that. No cell waits for the disk, unless what waits has filled the memory
that is set aside for it.

Whatever goes wrong with the store costs recording, with one warning, and never
the user's cell (law L6).
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec
from blake3 import blake3

from nbrewind.errors import NBRewindError
from nbrewind.model.blobs import ObjectId
from nbrewind.model.records import ExecutionRecord, FileAccess, OutputMessage, Writes
from nbrewind.model.refs import RefBody
from nbrewind.model.spans import stopwatch
from nbrewind.model.versions import ABSENT
from nbrewind.state.audit import unheard
from nbrewind.state.capture import Dump
from nbrewind.state.digests import contents
from nbrewind.store.abc import Store, StoreWriter
from nbrewind.store.session import host_name, writer_name
from nbrewind_analysis.book import Entry, RecordBook, settle
from nbrewind_analysis.table import VersionTable
from nbrewind_kernels.live import store_manifest
from nbrewind_kernels.recording import StoreGroup

log = logging.getLogger(__name__)

LARGEST_FILE = 256 * 1024 * 1024
"""Files that a cell wrote are kept up to this many bytes."""

_FULL = (
    "cells wait for the disk: they change more than it takes, and NBREWIND_STAGING_BYTES bytes "
    "(by default a quarter of the free memory) wait already"
)

_encode = msgspec.msgpack.Encoder().encode
_outputs = msgspec.msgpack.Decoder(tuple[OutputMessage, ...])


class Journal:
    """Commits the records of one session to one lineage."""

    def __init__(
        self,
        store: Store | None,
        book: RecordBook,
        root: Path,
        notebook: str,
        warn: Callable[[str], None],
    ) -> None:
        self._store = store
        self._book = book
        self._root = root
        self._notebook = notebook
        self._warn = warn
        self._recording = store is not None and not store.read_only
        if store is not None:
            store.tell_when_full(lambda: warn(_FULL))
        self._lineage = uuid.uuid4().hex
        self._seq = 0
        self._host = host_name()
        self._writer = writer_name()

    def outputs_of(self, record: ExecutionRecord) -> tuple[OutputMessage, ...]:
        """What a recorded run showed.

        Raises:
            NBRewindError: it cannot be read.
        """
        if record.outputs is None:
            return ()
        if self._store is None:
            raise NBRewindError("there is no store")
        try:
            return _outputs.decode(self._store.get_blob(record.outputs))
        except msgspec.MsgspecError as problem:
            raise NBRewindError(f"outputs cannot be read: {problem}") from problem

    def commit(
        self,
        draft: ExecutionRecord,
        make_writes: Callable[[StoreGroup], Writes],
        outputs: tuple[OutputMessage, ...],
    ) -> tuple[Entry, int]:
        """Store what a run made, and publish its record.

        Args:
            draft: the record without writes and outputs.
            make_writes: makes the writes, given a way to store co-variables.
            outputs: what the run showed.

        Returns:
            The record as committed (or as it would have been), and the bytes added.
        """
        draft = msgspec.structs.replace(draft, host=self._host)
        writer: StoreWriter | None = None
        if self._recording and self._store is not None:
            try:
                writer = self._store.begin()
                return self._commit(writer, draft, make_writes, outputs)
            except (NBRewindError, OSError) as problem:
                self._stop(problem)
            finally:
                if writer is not None:
                    writer.abort()
        record = msgspec.structs.replace(draft, writes=make_writes(lambda names, dump: None))
        return self._entry(record, blake3(_encode(record)).digest()), 0

    def _commit(
        self,
        writer: StoreWriter,
        draft: ExecutionRecord,
        make_writes: Callable[[StoreGroup], Writes],
        outputs: tuple[OutputMessage, ...],
    ) -> tuple[Entry, int]:
        def store_group(names: tuple[str, ...], dump: Dump) -> ObjectId | None:
            return store_manifest(writer, names, dump)

        record = msgspec.structs.replace(
            draft,
            writes=make_writes(store_group),
            files=tuple(self._keep(writer, access) for access in draft.files),
            outputs=writer.put_stream(_encode(outputs)) if outputs else None,
        )
        record = msgspec.structs.replace(record, stages=stopwatch.take_totals())
        record_id = writer.put("record", _encode(record))
        entry = self._entry(record, record_id)
        writer.commit_later(entry.ref, self._stop)
        self._seq += 1
        self._book.add(entry)
        return entry, writer.bytes_added

    def secure(self) -> None:
        """Wait until every record so far survives this process, or the user was told otherwise."""
        if self._store is not None:
            self._store.secure()

    def captured(self) -> frozenset[str]:
        """Ids of the records that survive this process, but may not survive the machine yet."""
        records = self._store.captured() if self._store is not None else frozenset()
        return frozenset(record.hex() for record in records)

    def hold(self, table: VersionTable) -> None:
        """Let no collection remove what the session's values are in, whatever is pruned."""
        if self._store is None:
            return
        groups = filter(None, map(table.group, table))
        held = {oid for group in groups for oid in (group.manifest, group.producer) if oid}
        try:
            with unheard():
                self._store.hold(held)
        except (NBRewindError, OSError) as problem:
            log.info("a collection may remove what this session refers to: %s", problem)

    def settle(self) -> None:
        """Wait until every record so far is durable, or the user was told that it is not."""
        if self._store is not None:
            self._store.settle()

    def _stop(self, problem: Exception) -> None:
        """Recording is over; told once, however many commits fail for the same reason."""
        if self._recording:
            self._recording = False
            self._warn(f"recording stopped, the notebook runs on: {problem}")

    def _keep(self, writer: StoreWriter, access: FileAccess) -> FileAccess:
        """Keep the content of a file that a run wrote inside the notebook's folder."""
        if access.write in (None, ABSENT) or access.directory or access.link:
            return access
        if access.path.startswith("/"):
            return access
        data = contents(str(self._root / access.path), LARGEST_FILE)
        if data is None:
            return access
        return msgspec.structs.replace(access, content=writer.put_stream(data))

    def _entry(self, record: ExecutionRecord, record_id: ObjectId) -> Entry:
        body = RefBody(
            lineage=self._lineage,
            seq=self._seq,
            source_digest=record.source_digest,
            record=record_id,
            notebook=self._notebook,
            cell_id=record.cell_id,
            ordinal=record.ordinal,
            created=time.time(),
            status=record.status,
            writer=self._writer,
        )
        return Entry(record_id, settle(record_id, record), body)
