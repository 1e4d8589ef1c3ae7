"""L4, L6: one fault of the disk, anywhere, loses nothing acknowledged and reads nothing wrong."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from nbrewind.errors import NBRewindError
from nbrewind.store import arena, config, durable, open_store, pack_reader, pack_writer, publish
from nbrewind.store.listing import Listing
from nbrewind.testing.faults import Fault, Layer, Plan
from nbrewind.testing.faults.campaign import KINDS, Where, one_fault
from nbrewind.testing.store_conformance import commit

pytestmark = [
    pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

SAMPLE = float(os.environ.get("NBREWIND_LONG_SAMPLE", "1"))


def failures(
    folder: Path, seeds: range, kind: str | None = None, where: Where = "writer"
) -> Iterator[str]:
    """What goes wrong in runs with one fault each."""
    for seed in seeds:
        result = one_fault(seed, folder / str(seed), kind, where)
        yield from (f"{seed}: {result.kind}: {result.fault}: {what}" for what in result.wrong)


@pytest.mark.case(53)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_of_any_kind_costs_nothing_that_was_acknowledged(tmp_path: Path, kind: str) -> None:
    assert list(failures(tmp_path, range(1), kind)) == []


@pytest.mark.skipif(not arena.is_available(), reason="no shared memory without names")
@pytest.mark.parametrize("where", ["kernel", "flusher"])
def test_a_fault_beside_a_flusher_costs_nothing_either(tmp_path: Path, where: Where) -> None:
    for seed, kind in enumerate(["error of fsync", "disk full once", "permission"]):
        assert list(failures(tmp_path, range(seed, seed + 1), kind, where)) == []


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("where", "runs"), [("writer", 1000), ("kernel", 200), ("flusher", 300)])
def test_a_thousand_single_faults(tmp_path: Path, where: Where, runs: int) -> None:
    assert list(failures(tmp_path, range(int(runs * SAMPLE)), where=where)) == []


class Anything:
    """Equal to everything."""

    def __init__(self, *args: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


def retry_fsync(self: pack_writer.PackWriter, footer: bytes) -> None:
    durable.sync_file(self._fd)


@pytest.mark.parametrize(
    ("guard", "without", "kind", "runs", "complaint"),
    [
        (pack_reader, ("object_id", Anything), "zeroed range", 60, "other bytes"),
        (pack_writer.PackWriter, ("_write_anew", retry_fsync), "fsync drops pages", 40, "readable"),
        (durable, ("same_file", lambda *paths: False), "answer lost", 20, "two numbers"),
        (durable, ("same_file", lambda *paths: True), "name taken", 60, "lost"),
    ],
    ids=["digest", "no second fsync", "lost answer", "other's number"],
)
def test_each_guard_is_needed(
    tmp_path: Path, guard: object, without: tuple[str, object], kind: str, runs: int, complaint: str
) -> None:
    with patch.object(guard, *without):
        found = failures(tmp_path, range(runs), kind)
        assert any(complaint in what for what in found), f"{kind} is not noticed without it"


def test_a_handle_that_goes_stale_once_is_not_noticed_by_a_reader(tmp_path: Path) -> None:
    refs = [commit(open_store(tmp_path / "s"), b"content %d" % i) for i in range(3)]

    def read(faults: list[Fault]) -> tuple[int, Plan]:
        """How many reads fail; what was done."""
        plan = Plan(faults)
        with Layer(tmp_path, plan).installed():
            try:
                with open_store(tmp_path / "s", read_only=True) as store:
                    assert len(store.refs()) == 3
                    for number, ref in enumerate(refs):
                        assert store.get(ref.body.record) == b"content %d" % number
                    assert not store.info().damaged
            except (NBRewindError, OSError, AssertionError):
                return 1, plan
        return 0, plan

    _, plan = read([])
    faults = [
        Fault(operation=operation, nth=nth, errno=errno.ESTALE)
        for operation in ("open", "read", "stat", "list")
        for nth in range(1, plan.seen[operation] + 1)
    ]
    assert len(faults) > 15
    assert [str(fault) for fault in faults if read([fault])[0]] == []
    with patch.object(durable, "again_if_stale", lambda action: action()):
        assert sum(read([fault])[0] for fault in faults) > 3


def test_what_closing_complains_of_does_not_fail_a_commit(tmp_path: Path) -> None:
    def failed_commits(name: str) -> int:
        failed = 0
        for nth in range(1, 12):
            store = open_store(tmp_path / name)
            fault = Fault(operation="close", errno=errno.EIO, nth=nth)
            with Layer(tmp_path, Plan([fault])).installed():
                try:
                    commit(store, b"content %d" % nth)
                except NBRewindError:
                    failed += 1
        return failed

    assert not failed_commits("with")
    with patch.object(durable, "close", lambda fd: durable.os.close(fd)):
        assert failed_commits("without")


def test_a_config_that_cannot_be_seen_is_not_replaced(tmp_path: Path) -> None:
    open_store(tmp_path / "s").close()
    path = tmp_path / "s" / "CONFIG"

    def is_replaced() -> bool:
        path.write_text('{"format": 99}')
        for nth in range(1, 6):
            fault = Fault(operation="stat", errno=errno.EIO, nth=nth, path="s/CONFIG", times=0)
            with Layer(tmp_path, Plan([fault])).installed(), contextlib.suppress(NBRewindError):
                open_store(tmp_path / "s")
        return path.read_text() != '{"format": 99}'

    assert not is_replaced()
    with patch.object(config, "exists", lambda path: config.os.path.exists(path)):
        assert is_replaced()


def test_a_folder_that_cannot_be_listed_is_told_of_and_seen_later(tmp_path: Path) -> None:
    writer, reader = open_store(tmp_path / "s"), open_store(tmp_path / "s")
    commit(writer, b"first")
    reader.refresh()
    commit(writer, b"second")
    fault = Fault(operation="list", errno=errno.EACCES, path="s/refs/*", times=0)
    with Layer(tmp_path, Plan([fault])).installed():
        reader.refresh()
        assert [ref.body.seq for ref in reader.refs()] == [0]
        assert "cannot be listed" in reader.unseen()[0]
        assert any("cannot be listed" in sentence for sentence in reader.info().damaged)
    reader.refresh()
    assert [ref.body.seq for ref in reader.refs()] == [1, 0]
    assert reader.unseen() == []


def test_a_pack_that_cannot_be_read_at_the_moment_is_read_after_the_next_refresh(
    tmp_path: Path,
) -> None:
    ref = commit(open_store(tmp_path / "s"), b"content")
    reader = open_store(tmp_path / "s")
    fault = Fault(operation="read", errno=errno.EIO, path="*.pack", nth=2, times=0)
    with Layer(tmp_path, Plan([fault])).installed(), pytest.raises(NBRewindError):
        reader.get(ref.body.record)
    reader.refresh()
    assert reader.get(ref.body.record) == b"content"


@pytest.mark.parametrize("jump", [1e6, -1e6])
def test_a_clock_that_jumps_does_not_hide_files(tmp_path: Path, jump: float) -> None:
    """Two files may arrive within one tick of the file system's clock."""
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "1.x").touch()
    os.utime(folder, ns=(0, 10**18))
    layer = Layer(tmp_path, Plan())
    layer.clock = jump
    with layer.installed():
        listing = Listing(str(tmp_path), ".x")
        assert listing.scan() == ([("a", "1.x")], [])
        (folder / "2.x").touch()
        os.utime(folder, ns=(0, 10**18))
        assert listing.scan() == ([("a", "2.x")], [])


def test_the_layer_leaves_nothing_behind(tmp_path: Path) -> None:
    before = dict(vars(publish))
    with Layer(tmp_path, Plan()).installed():
        assert vars(publish)["os"] is not os
    assert dict(vars(publish)) == before
