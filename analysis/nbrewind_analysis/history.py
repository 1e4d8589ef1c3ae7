"""The records of a store, newest first."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from nbrewind.errors import ObjectDamaged, ObjectMissing, UsageError
from nbrewind.model.checkpoints import is_of_training
from nbrewind.model.records import ExecutionRecord
from nbrewind.model.refs import StoredRef
from nbrewind.store.abc import Store

_log = logging.getLogger(__name__)


def read_record(store: Store, ref: StoredRef) -> ExecutionRecord:
    """The record behind a ref.

    Raises:
        ObjectMissing: the store has lost it.
        ObjectDamaged: its bytes are wrong, or it is of a newer format.
    """
    raw = store.get(ref.body.record)
    try:
        return msgspec.msgpack.decode(raw, type=ExecutionRecord)
    except msgspec.DecodeError as error:
        raise ObjectDamaged(f"record {ref.body.record.hex()} cannot be read: {error}") from error


def history(
    store: Store, notebook: str | None = None
) -> Iterator[tuple[StoredRef, ExecutionRecord]]:
    """Every readable record, newest first; damaged ones are logged and left out.

    Args:
        store: where to look.
        notebook: only records of the notebook with this file name.
    """
    for ref in store.refs():
        if is_of_training(ref.body.source_digest):
            continue
        if notebook is not None and ref.body.notebook != notebook:
            continue
        try:
            yield ref, read_record(store, ref)
        except (ObjectMissing, ObjectDamaged) as error:
            _log.warning("left out: %s", error)


def find_record(store: Store, prefix: str) -> StoredRef:
    """The newest ref to the one record whose id starts with `prefix` (hex).

    Raises:
        UsageError: no record fits, or several do.
    """
    wanted = prefix.lower()
    found: dict[bytes, StoredRef] = {}
    for ref in store.refs():
        if wanted and ref.body.record.hex().startswith(wanted):
            found.setdefault(ref.body.record, ref)
    if not found:
        raise UsageError(f"no record {prefix} in {store.location}; see `nbrewind log`")
    if len(found) > 1:
        ids = ", ".join(sorted(oid.hex()[:12] for oid in found)[:5])
        raise UsageError(f"{prefix} fits {len(found)} records ({ids}, …); give more digits")
    return next(iter(found.values()))


def stored_bytes(record: ExecutionRecord) -> int:
    """Bytes of the values a record wrote, before deduplication and compression."""
    written = frozenset(record.writes.written)
    return sum(
        variable.size
        for group in record.writes.groups
        if group.manifest is not None
        for name, variable in group.variables.items()
        if name in written
    )


def ids_shown(refs: Sequence[StoredRef]) -> int:
    """How many digits tell the records of these refs apart, at least eight."""
    ids = sorted({ref.body.record.hex() for ref in refs})
    longest = 8
    for one, two in pairwise(ids):
        while longest < len(one) and one[:longest] == two[:longest]:
            longest += 1
    return longest
