"""Retention of checkpoints: old ones go to the store's trash, newest and pinned ones stay."""

from __future__ import annotations

import msgspec

from nbrewind.errors import UsageError
from nbrewind.model.checkpoints import FRAGMENT_PREFIX
from nbrewind.model.refs import StoredRef
from nbrewind.store import durable
from nbrewind.store.abc import Store
from nbrewind.store.epochs import store_time
from nbrewind.store.local import LocalStore
from nbrewind.store.pins import read_pins
from nbrewind.store.trash import move_ref_to_trash
from nbrewind.training.describing import CheckpointRow, row
from nbrewind.training.finding import checkpoints


class Retired(msgspec.Struct, kw_only=True):
    """Which checkpoints went, or would go."""

    applied: bool
    kept: int
    retired: list[CheckpointRow]


def retire(store: Store, run: str, *, keep: int, every: int = 0, apply: bool = False) -> Retired:
    """Let the older checkpoints of a run go; `nbrewind store gc` then frees their space.

    Args:
        store: A store in a directory.
        run: The run's name.
        keep: How many of the newest stay; at least 1.
        every: Checkpoints whose step is a multiple of this stay, too; 0 for none.
        apply: Do it.

    Raises:
        UsageError: the store is no directory.
        StoreNotWritable: it cannot be written.
    """
    if not isinstance(store, LocalStore):
        raise UsageError(
            f"{store.location} is not one directory: give the tier that is one; buckets have rules "
            "of their own for what is old"
        )
    if keep < 1:
        raise UsageError("at least one checkpoint has to stay")
    pinned = {pin.place for pin in read_pins(store.location)}
    found = [*checkpoints(store, run)]
    going = [
        (ref, checkpoint)
        for ref, checkpoint in found[keep:]
        if not (every and checkpoint.step % every == 0)
        and (ref.body.lineage, ref.body.seq) not in pinned
    ]
    result = Retired(
        applied=apply,
        kept=len(found) - len(going),
        retired=[row(ref, checkpoint) for ref, checkpoint in going],
    )
    if apply and going:
        staying = {id(ref) for ref, _ in found} - {id(ref) for ref, _ in going}
        needed = {
            oid for ref, checkpoint in found if id(ref) in staying for oid in checkpoint.fragments
        }
        old = {oid for _, checkpoint in going for oid in checkpoint.fragments} - needed
        parts = [ref for ref in store.refs(FRAGMENT_PREFIX + run) if ref.body.record in old]
        # A checkpoint goes before its fragments: one that is listed is always whole.
        _move(store, [*(ref for ref, _ in going), *parts])
        store.refresh()
    return result


def _move(store: LocalStore, refs: list[StoredRef]) -> None:
    with durable.writing(store.location):
        now = store_time(store.location)
        for ref in refs:
            move_ref_to_trash(store.location, ref.body.lineage, ref.body.seq, now)
