"""L4: a collection that meets a fault, or the end of power, removes nothing that is needed."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbrewind.errors import NBRewindError
from nbrewind.model.blobs import LEAF_BYTES
from nbrewind.model.refs import StoredRef
from nbrewind.store import open_store
from nbrewind.store.gc import collect
from nbrewind.testing.faults import Fault, Journal, Layer, Operation, Plan, restore

from .collecting import AT_ONCE, noise, run_cell, value_of

SAMPLE = float(os.environ.get("NBREWIND_LONG_SAMPLE", "1"))

OPERATIONS: tuple[Operation, ...] = (
    *("open", "create", "read", "write", "fsync", "sync directory", "close", "stat", "list"),
    *("link", "rename", "unlink", "mkdir", "rmdir"),
)
ERRORS = (errno.EIO, errno.ENOSPC, errno.ESTALE, errno.EACCES, errno.EMFILE)

Kept = dict[str, tuple[StoredRef, bytes]]


def make(root: Path, seed: int) -> Kept:
    """A store with garbage, in packs of its own and beside what is needed; returns that."""
    kept: Kept = {}
    with open_store(root) as store:
        for number in range(5):
            parts = [noise((seed, part), LEAF_BYTES) for part in (number // 2, number + 10)]
            value = b"".join(parts)
            kept[f"c{number}"] = run_cell(store, f"c{number}", value), value
    for name in ("c0", "c3"):
        ref, _ = kept.pop(name)
        os.unlink(root / "refs" / ref.body.lineage / f"{ref.body.seq:010d}.ref")
    return kept


def lost(root: Path, kept: Kept) -> list[str]:
    with open_store(root) as store:
        seen = {ref.body.source_digest: ref for ref in store.refs()}
        wrong = [f"{name} is not visible" for name in kept if name not in seen]
        for name in kept.keys() & seen.keys():
            try:
                if value_of(store, seen[name]) != kept[name][1]:
                    wrong.append(f"{name} is another value")
            except NBRewindError as exc:
                wrong.append(f"{name}: {exc}")
        return wrong


def collected(folder: Path, fault: Fault | None, journal: Journal | None = None) -> Plan:
    plan = Plan([fault] if fault else [])
    with Layer(folder, plan, journal).installed():
        try:
            with open_store(folder / "s") as store:
                done = collect(store, apply=True, patience=AT_ONCE, bound=0.9)
            assert fault is not None or (done.copied and done.purged), done
        except NBRewindError:
            assert fault is not None
    return plan


def losses(folder: Path, seeds: range) -> Iterator[str]:
    """What is lost by collections with one fault each, and when the power fails after it."""
    for seed in seeds:
        chance = random.Random(seed)
        sound, place = folder / f"{seed}-sound", folder / f"{seed}"
        for each in (sound, place):
            with Layer(each, Plan()).installed():
                kept = make(each / "s", seed)
        plan = collected(sound, None)
        yield from (f"{seed}, no fault: {what}" for what in lost(sound / "s", kept))
        operation = chance.choice([each for each in OPERATIONS if plan.seen[each]])
        fault = Fault(
            operation=operation,
            effect=chance.choice(["error", "lost"]),
            errno=chance.choice(ERRORS),
            nth=chance.randrange(plan.seen[operation]) + 1,
            times=chance.choice([0, 1]),
        )
        journal = Journal(str(place))
        collected(place, fault, journal)
        yield from (f"{seed}, {fault}: {what}" for what in lost(place / "s", kept))
        for number in range(3):
            after = folder / f"{seed}-{number}"
            moment = chance.randrange(len(journal) + 1)
            restore(journal.after_power_failure(moment, chance), str(after))
            yield from (
                f"{seed}, {fault}, power failed at {moment}: {what}"
                for what in lost(after / "s", kept)
            )


@pytest.mark.case(53)
def test_a_collection_with_a_fault_removes_nothing_that_is_needed(tmp_path: Path) -> None:
    assert list(losses(tmp_path, range(6))) == []


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # killed while listing
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_thousand_collections_with_faults(tmp_path: Path) -> None:
    assert list(losses(tmp_path, range(int(1000 * SAMPLE)))) == []


@pytest.mark.parametrize(("guarded", "fate"), [(True, "kept"), (False, "lost")])
def test_refs_that_cannot_be_listed_are_not_taken_for_gone(
    tmp_path: Path, guarded: bool, fate: str
) -> None:
    kept = make(tmp_path / "s", 0)
    fault = Fault(operation="list", errno=errno.EACCES, path="s/refs/*", times=0)
    with pytest.MonkeyPatch.context() as patch:
        if not guarded:
            patch.setattr("nbrewind.store.gc._refuse", lambda problems: None)
        collected(tmp_path, fault)
    assert ("lost" if lost(tmp_path / "s", kept) else "kept") == fate
