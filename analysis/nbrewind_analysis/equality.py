"""Equality of stored values whose versions differ: the second look before a cell is stale."""

from __future__ import annotations

import logging

import msgspec

from nbrewind.errors import StoreError
from nbrewind.model.blobs import ObjectId
from nbrewind.model.manifests import Manifest
from nbrewind.model.records import ExecutionRecord
from nbrewind.state.canonical import LIMIT, equal_streams
from nbrewind.store.abc import Store
from nbrewind_analysis.table import VersionTable

log = logging.getLogger(__name__)


class Equality:
    """Compares stored values by canonical form; remembers every verdict."""

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._verdicts: dict[tuple[ObjectId, ObjectId], bool] = {}

    def equal(self, record: ExecutionRecord, name: str, table: VersionTable) -> bool:
        """Whether the value a record read under `name` equals the current one."""
        recorded = record.reads.manifests.get(name)
        group = table.group(name)
        current = None if group is None or len(group.variables) > 1 else group.manifest
        if recorded is None or current is None or self._store is None:
            return False
        pair = (min(recorded, current), max(recorded, current))
        verdict = self._verdicts.get(pair)
        if verdict is None:
            verdict = self._verdicts[pair] = self._compare(self._store, *pair)
        return verdict

    def _compare(self, store: Store, one: ObjectId, other: ObjectId) -> bool:
        if one == other:
            return True
        try:
            first = msgspec.msgpack.decode(store.get(one), type=Manifest)
            second = msgspec.msgpack.decode(store.get(other), type=Manifest)
            if (
                first.names != second.names
                or len(first.names) > 1
                or max(first.stream.size, second.stream.size) > LIMIT
                or [b.digest for b in first.buffers] != [b.digest for b in second.buffers]
                or first.codes.keys() != second.codes.keys()
            ):
                return False
            one_stream, other_stream = (bytes(store.get_blob(m.stream)) for m in (first, second))
        except (StoreError, msgspec.MsgspecError) as problem:
            log.warning("two stored values cannot be compared: %s", problem)
            return False
        return equal_streams(one_stream, other_stream)
