"""What was pruned can be had back from trash, whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nbrewind.errors import ObjectMissing, StoreNotWritable
from nbrewind.model.refs import StoredRef
from nbrewind.store import open_store, restoring
from nbrewind.store.check import check_store
from nbrewind.store.gc import Patience, collect
from nbrewind.store.local import LocalStore
from nbrewind.store.restoring import PrunedRef, pruned_refs, restore
from nbrewind.store.retention import prune

from .collecting import AT_ONCE, TO_TRASH, noise, run_cell, value_of

CONDEMN = Patience(grace=10**9, trash=10**9, lease=0)


def pruned(store: LocalStore) -> tuple[StoredRef, PrunedRef]:
    """A record that was pruned, beside one that was not."""
    first = run_cell(store, "x", noise(0), created=1.0)
    run_cell(store, "x", noise(1), created=2.0)
    prune(store, keep_last=1, apply=True)
    (found,) = pruned_refs(store)
    assert found.body == first.body
    return first, found


@pytest.mark.parametrize("patience", [None, CONDEMN, TO_TRASH])
def test_a_record_comes_back_whatever_has_become_of_its_packs(
    tmp_path: Path, patience: Patience | None
) -> None:
    store = open_store(tmp_path)
    first, found = pruned(store)
    if patience is not None:
        collect(store, apply=True, patience=patience)
    restore(open_store(tmp_path), found)
    store.refresh()
    assert (len(store.refs()), pruned_refs(store)) == (2, [])
    for _ in range(2):
        collect(store, apply=True, patience=AT_ONCE)
    reader = open_store(tmp_path, read_only=True)
    assert value_of(reader, first) == noise(0)
    assert check_store(reader).sound


def test_what_is_gone_for_good_is_told_and_not_restored(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    _, found = pruned(store)
    (trashed,) = (tmp_path / "trash" / "refs").iterdir()
    content = trashed.read_bytes()
    collect(store, apply=True, patience=AT_ONCE)
    assert pruned_refs(store) == []
    trashed.write_bytes(content)
    store = open_store(tmp_path)
    (found,) = pruned_refs(store)
    assert found.missing > 0
    with pytest.raises(ObjectMissing, match="for good"):
        restore(store, found)
    assert trashed.exists()
    assert len(open_store(tmp_path).refs()) == 1


def test_a_collection_at_the_same_time_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = open_store(tmp_path), open_store(tmp_path)
    first, found = pruned(store)
    publish = restoring._publish

    def late(*arguments: object) -> str:
        collect(other, apply=True, patience=CONDEMN)  # it does not see the ref yet
        return publish(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(restoring, "_publish", late)
    restore(store, found)
    store.follow_epochs(look=True)
    assert any(store.is_staying(place.pack) for place in store.copies_of(first.body.record))
    for _ in range(2):
        collect(other, apply=True, patience=AT_ONCE)
    assert value_of(open_store(tmp_path), first) == noise(0)


def test_what_cannot_be_validated_stays_in_trash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    _, found = pruned(store)

    def fails(*arguments: object) -> None:
        raise StoreNotWritable("full")

    monkeypatch.setattr(restoring, "validate", fails)
    with pytest.raises(StoreNotWritable):
        restore(store, found)
    assert len(open_store(tmp_path).refs()) == 1
    assert len(pruned_refs(store)) == 1


def test_an_interrupted_restore_is_done_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    first, found = pruned(store)
    os.link(found.trashed.path, tmp_path / "refs" / first.body.lineage / "0000000000.ref")
    assert pruned_refs(store) == []  # it is part of the store
    restore(store, found)
    assert value_of(open_store(tmp_path), first) == noise(0)


@pytest.mark.parametrize("taken", [False, True])
def test_where_there_are_no_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    store = open_store(tmp_path)
    first, found = pruned(store)
    path = tmp_path / "refs" / first.body.lineage / "0000000000.ref"

    def refused(*arguments: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refused)
        if taken:
            path.write_bytes(b"another")
            with pytest.raises(StoreNotWritable, match="another record"):
                restore(store, found)
            assert path.read_bytes() == b"another"
            return
        restore(store, found)
    assert value_of(open_store(tmp_path), first) == noise(0)


def test_a_read_only_store_is_left_alone(tmp_path: Path) -> None:
    _, found = pruned(open_store(tmp_path))
    with pytest.raises(StoreNotWritable, match="read-only"):
        restore(open_store(tmp_path, read_only=True), found)
