"""Prune keeps what the policy says, and lets go first what is cheap to have again."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbrewind.errors import StoreNotWritable
from nbrewind.model.refs import StoredRef
from nbrewind.store import open_store
from nbrewind.store.gc import collect
from nbrewind.store.local import LocalStore
from nbrewind.store.pins import add_pin
from nbrewind.store.retention import Pruning, prune

from .collecting import AT_ONCE, noise, run_cell, value_of


def history(store: LocalStore, cell: str, count: int, seconds: float = 1.0) -> list[StoredRef]:
    """Records of one cell, oldest first."""
    return [
        run_cell(store, cell, noise((cell, at)), seconds=seconds, created=float(at))
        for at in range(count)
    ]


def gone(report: Pruning) -> set[tuple[str, float]]:
    return {(one.cell_id, one.created) for one in report.pruned}


def test_the_newest_records_of_each_cell_stay(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    history(store, "x", 4)
    history(store, "y", 2)
    expected = {("x", 0.0), ("x", 1.0)}
    dry = prune(store, keep_last=2)
    assert (gone(dry), len(store.refs())) == (expected, 6)
    report = prune(store, keep_last=2, apply=True)
    assert (gone(report), len(store.refs())) == (expected, 4)
    assert report.bytes - report.bytes_after > 600_000
    before = store.info().bytes
    collect(store, apply=True, patience=AT_ONCE)
    assert before - open_store(tmp_path).info().bytes > 600_000
    assert all(value_of(store, ref) for ref in store.refs())


def test_pinned_records_stay(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    oldest = history(store, "x", 3)[0]
    add_pin(store.location, oldest.body)
    report = prune(store, keep_last=1, max_bytes=0, apply=True)
    assert [ref.body.created for ref in store.refs()] == [0.0]
    assert (report.pinned, report.too_large) == (1, True)


def test_each_cell_of_the_notebook_keeps_a_record_that_can_be_reused(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    history(store, "x", 2)
    run_cell(store, "x", noise("failed"), status="error", created=9.0)
    history(store, "old", 1)
    prune(store, keep_last=1, max_bytes=0, current={"x"}, apply=True)
    assert [(ref.body.cell_id, ref.body.created) for ref in store.refs()] == [("x", 1.0)]


def test_a_size_is_met_by_what_costs_least_to_have_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    history(store, "slow", 1, seconds=1000)
    history(store, "quick", 1, seconds=1)
    history(store, "medium", 1, seconds=50)
    report = prune(store, max_bytes=700_000)
    assert gone(report) == {("quick", 0.0)}
    assert report.bytes_after <= 700_000
    assert not report.too_large
    assert gone(prune(store, max_bytes=400_000)) == {("quick", 0.0), ("medium", 0.0)}


def test_bytes_that_several_records_need_are_freed_by_the_last_of_them(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for number in range(3):
        run_cell(store, f"x{number}", noise("same"), seconds=number + 1)
    run_cell(store, "y", noise("other"), seconds=100)
    assert gone(prune(store, max_bytes=400_000)) == {(f"x{number}", 0.0) for number in range(3)}
    assert prune(store, max_bytes=10**9).pruned == []


def test_a_read_only_store_is_only_looked_at(tmp_path: Path) -> None:
    history(open_store(tmp_path), "x", 2)
    store = open_store(tmp_path, read_only=True)
    assert len(prune(store, keep_last=1).pruned) == 1
    with pytest.raises(StoreNotWritable):
        prune(store, keep_last=1, apply=True)
