"""A collection removes what nothing needs, in two steps, and nothing else."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path

import msgspec
import pytest

from nbrewind.errors import NotCollected, ObjectMissing, StoreError, StoreNotWritable
from nbrewind.model.records import ExecutionRecord
from nbrewind.store import gc, open_store
from nbrewind.store.check import check_store
from nbrewind.store.epochs import Epochs
from nbrewind.store.gc import Patience, collect
from nbrewind.store.leases import LEASE, fence, read_leases
from nbrewind.store.local import LocalStore
from nbrewind.store.pins import add_pin, read_pins, remove_pin
from nbrewind.store.trash import move_ref_to_trash
from nbrewind.testing.store_conformance import commit, ref_body

from .collecting import AT_ONCE, TO_TRASH, manifest_of, noise, run_cell, value_in, value_of

HELD_BY_NOBODY = Patience(grace=0, trash=10**9, lease=0)


def packs(path: Path, folder: str = "packs") -> list[Path]:
    return sorted((path / folder).glob("*/*.pack"))


def drop(store: LocalStore, ref: object) -> None:
    body = ref.body  # type: ignore[attr-defined]
    move_ref_to_trash(store.location, body.lineage, body.seq, 0)
    store.refresh()


def leave(path: Path) -> None:
    """As if every session were over."""
    for name in os.listdir(path / "sessions"):
        (path / "sessions" / name).unlink()
    for name in os.listdir(path / "tmp"):
        (path / "tmp" / name).rmdir()


def test_nothing_is_garbage_in_a_store_that_was_only_written_to(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    refs = [run_cell(store, f"x{i}", noise(i)) for i in range(3)]
    found = collect(store)
    assert (found.condemned, found.packs, found.applied) == (0, 3, False)
    collect(store, apply=True, patience=AT_ONCE)
    assert [value_of(open_store(tmp_path), ref) for ref in refs] == [noise(i) for i in range(3)]
    assert check_store(store).sound


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    drop(store, run_cell(store, "x", noise(0)))
    store.close()
    before = sorted(path for path in tmp_path.rglob("*"))
    found = collect(open_store(tmp_path, read_only=True), patience=AT_ONCE)
    assert (found.condemned, found.condemned_bytes > 300_000) == (1, True)
    assert sorted(path for path in tmp_path.rglob("*")) == before
    with pytest.raises(StoreNotWritable):
        collect(open_store(tmp_path, read_only=True), apply=True)


def test_what_no_ref_needs_is_condemned_then_trashed_then_purged(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = run_cell(store, "y", noise(1))
    drop(store, run_cell(store, "x", noise(0)))
    assert collect(store, apply=True).condemned == 1
    assert collect(store, apply=True).waiting == 1
    assert len(packs(tmp_path)) == 2
    found = collect(store, apply=True, patience=TO_TRASH)
    assert (found.trashed, len(packs(tmp_path)), len(packs(tmp_path, "trash"))) == (1, 1, 1)
    found = collect(store, apply=True, patience=AT_ONCE)
    assert (found.purged, packs(tmp_path, "trash")) == (1, [])
    assert os.listdir(tmp_path / "trash" / "refs") == []
    assert value_of(store, kept) == noise(1)
    assert check_store(store).sound


def test_a_reader_has_back_what_is_in_trash_and_the_next_run_saves_it(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    ref = run_cell(store, "x", noise(0))
    reader = open_store(tmp_path, read_only=True)
    assert value_of(reader, ref) == noise(0)
    drop(store, ref)
    collect(store, apply=True, patience=TO_TRASH)
    assert packs(tmp_path) == []
    for each in (reader, store, open_store(tmp_path, read_only=True)):
        assert value_of(each, ref) == noise(0)
    (trashed,) = (tmp_path / "trash" / "refs").iterdir()
    name = trashed.name.rsplit("~", 1)[1]
    trashed.rename(tmp_path / "refs" / ref.body.lineage / name)
    collect(store, apply=True, patience=AT_ONCE)
    assert packs(tmp_path, "trash") == []
    assert value_of(open_store(tmp_path), ref) == noise(0)


def test_what_a_commit_shares_with_garbage_is_copied(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    first = run_cell(store, "x", noise(0) + noise(1, 900_000))
    second = run_cell(store, "y", noise(0)[: 256 * 1024])
    drop(store, first)
    found = collect(store, apply=True, patience=AT_ONCE)
    assert (found.condemned, found.copied, found.purged) == (1, 1, 1)
    assert value_of(open_store(tmp_path), second) == noise(0)[: 256 * 1024]
    assert check_store(open_store(tmp_path)).sound


def test_copies_in_several_packs_become_one(tmp_path: Path) -> None:
    stores = [open_store(tmp_path) for _ in range(4)]
    writers = [store.begin() for store in stores]
    for number, writer in enumerate(writers):
        writer.put_blob(noise(number, 100))
        writer.put_blob(noise("same", 2_000_000))
        writer.abort()
    refs = []
    for number, store in enumerate(stores):
        refs.append(run_cell(store, f"x{number}", noise(number, 100) + noise("same", 2_000_000)))
    size = sum(path.stat().st_size for path in packs(tmp_path))
    assert size > 7_000_000
    collect(stores[0], apply=True, patience=AT_ONCE)
    for number, ref in enumerate(refs):
        expected = noise(number, 100) + noise("same", 2_000_000)
        assert value_of(open_store(tmp_path), ref) == expected


def test_many_small_packs_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "MANY", 20)
    store = open_store(tmp_path)
    refs = [run_cell(store, f"x{i}", noise(i, 1000)) for i in range(21)]
    large = run_cell(store, "y", noise("y", 2_000_000))
    assert collect(store).merged == 21
    done = collect(store, apply=True, patience=AT_ONCE)
    assert (done.merged, done.purged, done.copied) == (21, 21, 21 * 4)
    assert len(packs(tmp_path)) == 2
    files = sum(path.is_file() for path in tmp_path.rglob("*"))
    assert files < 1.5 * len([*refs, large])  # of which one is the ref
    before = packs(tmp_path)
    again = collect(store, apply=True, patience=AT_ONCE)
    assert (again.merged, again.copied, again.condemned) == (0, 0, 0)
    assert packs(tmp_path) == before
    reader = open_store(tmp_path, read_only=True)
    assert [value_of(reader, ref) for ref in refs] == [noise(i, 1000) for i in range(21)]
    assert value_of(reader, large) == noise("y", 2_000_000)


def test_few_small_packs_are_left_alone(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for i in range(5):
        run_cell(store, f"x{i}", noise(i, 1000))
    assert collect(store, apply=True, patience=AT_ONCE).merged == 0
    assert len(packs(tmp_path)) == 5


def test_what_a_session_holds_stays_until_it_ends(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    ref = run_cell(store, "x", noise(0))
    manifest = manifest_of(store, ref)
    store.hold([manifest])
    drop(store, ref)
    other = open_store(tmp_path)
    collect(other, apply=True, patience=AT_ONCE)
    assert value_in(open_store(tmp_path), manifest) == noise(0)
    store.close()
    collect(other, apply=True, patience=AT_ONCE)
    with pytest.raises(ObjectMissing):
        value_in(open_store(tmp_path), manifest)


def test_a_pin_keeps_what_its_record_needs(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    ref = run_cell(store, "x", noise(0))
    add_pin(store.location, ref.body, "figure 3")
    drop(store, ref)
    collect(store, apply=True, patience=AT_ONCE)
    assert value_of(open_store(tmp_path), ref) == noise(0)
    assert [pin.note for pin in read_pins(store.location)] == ["figure 3"]
    assert remove_pin(store.location, (ref.body.lineage, ref.body.seq))
    assert not remove_pin(store.location, (ref.body.lineage, ref.body.seq))
    collect(store, apply=True, patience=AT_ONCE)
    with pytest.raises(ObjectMissing):
        value_of(open_store(tmp_path), ref)


@pytest.mark.parametrize("kind", ["missing", "damaged pack", "damaged ref", "unknown record"])
def test_nothing_is_collected_while_something_is_wrong(tmp_path: Path, kind: str) -> None:
    store = open_store(tmp_path)
    run_cell(store, "y", noise(1))
    drop(store, run_cell(store, "x", noise(0)))
    (garbage,) = [p for p in packs(tmp_path) if p.stem not in _named(store)]
    run_cell(store, "z", noise(2))
    needed = next(p for p in packs(tmp_path) if p.stem in _named(store))
    if kind == "missing":
        needed.unlink()
    elif kind == "damaged pack":
        os.truncate(needed, 1000)
    elif kind == "damaged ref":
        next((tmp_path / "refs").rglob("*.ref")).write_bytes(b"x")
    else:
        commit(store, b"of another kind")
    for apply in (False, True):
        with pytest.raises(NotCollected):
            collect(open_store(tmp_path), apply=apply, patience=AT_ONCE)
    assert garbage.exists()


def _named(store: LocalStore) -> set[str]:
    return {pack.hex() for ref in store.refs() for pack in ref.body.objects}


def test_a_collection_goes_on_after_a_repair_has_noted_what_is_lost(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    lost = run_cell(store, "x", noise(0))
    kept = run_cell(store, "y", noise(1))
    (tmp_path / "packs" / lost.body.objects[0].hex()[:2]).joinpath(
        f"{lost.body.objects[0].hex()}.pack"
    ).unlink()
    store = open_store(tmp_path)
    with pytest.raises(NotCollected):
        collect(store)
    assert not check_store(store).sound
    check_store(store, repair=True)
    collect(store, apply=True, patience=AT_ONCE)
    assert value_of(store, kept) == noise(1)


def test_a_commit_in_flight_keeps_condemned_packs_from_going(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    drop(store, run_cell(store, "x", noise(0)))
    writer = open_store(tmp_path).begin()
    writer.put_blob(noise(0))  # relies on the pack
    found = collect(store, apply=True, patience=AT_ONCE)
    assert (found.condemned, found.trashed) == (1, 0)
    writer.abort()
    assert collect(store, apply=True, patience=AT_ONCE).trashed == 1


def test_condemned_packs_are_not_relied_on(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    drop(store, run_cell(store, "x", noise(0)))
    writer_before = open_store(tmp_path)
    collect(store, apply=True)
    ref = run_cell(writer_before, "x", noise(0))
    assert ref.body.objects
    collect(store, apply=True, patience=AT_ONCE)
    assert value_of(open_store(tmp_path), ref) == noise(0)


def test_a_commit_that_was_suspended_copies_what_was_condemned_meanwhile(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    drop(store, run_cell(store, "x", noise(0)))
    sleeper = open_store(tmp_path)
    flights: list[int] = []
    real = sleeper.published

    def published(*args: object) -> object:
        flights.append(len(packs(tmp_path)))
        return real(*args)  # type: ignore[arg-type]

    sleeper.published = published  # type: ignore[method-assign, assignment]
    begin = sleeper.begin

    def suspended() -> object:
        writer = begin()
        end = writer.commit

        def commit_late(body: object) -> object:
            (name,) = [n for n in read_leases(str(tmp_path)) if n in sleeper.session_directory()]
            fence(str(tmp_path), name)
            collect(store, apply=True, patience=TO_TRASH)
            return end(body)  # type: ignore[arg-type]

        writer.commit = commit_late  # type: ignore[method-assign, assignment]
        return writer

    sleeper.begin = suspended  # type: ignore[method-assign, assignment]
    ref = run_cell(sleeper, "x", noise(0))
    collect(store, apply=True, patience=AT_ONCE)
    assert packs(tmp_path, "trash") == []
    assert value_of(open_store(tmp_path), ref) == noise(0)


def test_a_commit_fails_if_what_it_relies_on_is_gone_for_good(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    drop(store, run_cell(store, "x", noise(0)))
    sleeper = open_store(tmp_path)
    writer = sleeper.begin()
    blob = writer.put_blob(noise(0))
    assert writer.bytes_added == 0
    (name,) = [n for n in read_leases(str(tmp_path)) if n in sleeper.session_directory()]
    fence(str(tmp_path), name)
    collect(store, apply=True, patience=AT_ONCE)
    assert packs(tmp_path) == []
    record = ExecutionRecord(source="", source_digest="s", outputs=blob)
    oid = writer.put("record", msgspec.msgpack.encode(record))
    with pytest.raises(StoreNotWritable, match="were removed"):
        writer.commit(ref_body(oid))
    assert open_store(tmp_path).refs() == []


def test_a_session_of_a_version_without_leases_is_waited_for(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    drop(store, run_cell(store, "x", noise(0)))
    (tmp_path / "tmp" / "elsewhere~boot~1~77~abc").mkdir()
    found = collect(store, apply=True, patience=Patience(grace=0, trash=0))
    assert (found.trashed, found.sessions) == (0, ["elsewhere~boot~1~77~abc"])


def test_the_lease_of_a_process_that_was_killed_is_removed(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    child = os.fork()
    if child == 0:
        run_cell(store, "x", noise(0))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    (left,) = (tmp_path / "sessions").iterdir()
    assert f"~{child}~" in left.name
    open_store(tmp_path)
    assert os.listdir(tmp_path / "sessions") == []


def test_a_lease_that_does_not_change_expires_and_is_fenced(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    ref = run_cell(store, "x", noise(0))
    gone = open_store(tmp_path)
    gone.hold([manifest_of(store, ref)])
    (lease,) = [
        path for path in (tmp_path / "sessions").iterdir() if path.stem in gone.session_directory()
    ]
    lease.rename(lease.with_name(f"elsewhere~boot~1~77~abc{LEASE}"))
    os.rmdir(gone.session_directory())
    drop(store, ref)
    for _ in range(2):  # seen for the first time, for the second time
        found = collect(store, apply=True, patience=AT_ONCE)
    assert found.fenced == ["elsewhere~boot~1~77~abc"] or found.purged
    with pytest.raises(ObjectMissing):
        value_of(open_store(tmp_path), ref)


def test_a_fenced_session_takes_a_new_lease_and_knows_what_is_gone(tmp_path: Path) -> None:
    store, session = open_store(tmp_path), open_store(tmp_path)
    ref = run_cell(store, "x", noise(0))
    session.hold([manifest_of(store, ref)])
    name = os.path.basename(session.session_directory())
    fence(str(tmp_path), name)
    session.begin().abort()
    assert not session.lease.is_fenced()
    drop(store, ref)
    collect(store, apply=True, patience=AT_ONCE)
    assert value_of(open_store(tmp_path), ref) == noise(0)
    (name,) = [n for n, lease in read_leases(str(tmp_path)).items() if lease.holds]
    fence(str(tmp_path), name)
    collect(store, apply=True, patience=AT_ONCE)
    with pytest.raises(StoreError, match="restart the kernel"):
        session.begin()


def test_a_second_collection_at_the_same_time_gives_up(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    drop(store, run_cell(store, "x", noise(0)))
    collect(store, apply=True)
    epochs = Epochs(str(tmp_path))
    newest = epochs.newest()
    with pytest.raises(StoreNotWritable, match="another collection"):
        epochs.publish(newest)


def test_a_torn_epoch_counts_for_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    drop(store, run_cell(store, "x", noise(0)))
    collect(store, apply=True)
    (tmp_path / "epochs" / "0000000009.epoch").write_bytes(b"torn")
    assert Epochs(str(tmp_path)).newest().number == 1
    assert collect(store, apply=True, patience=AT_ONCE).trashed == 1
    assert Epochs(str(tmp_path)).newest().number >= 10


def test_a_store_of_format_1_is_made_one_of_the_newest_first(tmp_path: Path) -> None:
    golden = Path(__file__).parents[1] / "data" / "golden" / "store-format-1" / "store"
    shutil.copytree(golden, tmp_path / "s")
    for folder in ("tmp", "idx", "quarantine", "packs", "refs"):
        (tmp_path / "s" / folder).mkdir(exist_ok=True)
    before = open_store(tmp_path / "s", read_only=True)
    assert before.format == 1
    with contextlib.suppress(NotCollected):
        collect(open_store(tmp_path / "s"), apply=True)
    assert open_store(tmp_path / "s", read_only=True).format > 1
