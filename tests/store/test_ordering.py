"""L4: power may fail between any two steps, so their order is what makes a commit durable."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from nbrewind.store import open_store
from nbrewind.store.leases import read_leases
from nbrewind.testing.store_conformance import commit, ref_body

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What happens to files from now on, each with its path below the store."""
    seen: list[tuple[str, str]] = []
    root = str(tmp_path)

    def short(path: str) -> str:
        parts = os.path.relpath(path, root).split("/")
        return parts[0] if len(parts) == 1 else f"{parts[0]}/…/{Path(path).suffix or 'directory'}"

    def fsync(fd: int) -> None:
        seen.append(("fsync", short(os.readlink(f"/proc/self/fd/{fd}"))))

    def rename(source: str, target: str) -> None:
        if not target.endswith(".lease"):  # a lease need not survive what its session does not
            seen.append(("rename", short(target)))
        os.replace(source, target)

    real = os.link

    def link(source: str, target: str) -> None:
        seen.append(("link", short(target)))
        real(source, target)

    commit(open_store(tmp_path), b"first")  # makes the key and the lineage's directory
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(os, "link", link)
    return seen


DURABLE_REF = [
    ("fsync", "tmp/…/.ref"),
    ("link", "refs/…/.ref"),
    ("fsync", "refs/…/directory"),
]


def test_objects_are_durable_before_their_names_and_those_before_the_ref(
    tmp_path: Path, steps: list[tuple[str, str]]
) -> None:
    commit(open_store(tmp_path), b"second")
    assert steps == [
        ("fsync", "tmp/…/.pack"),
        ("fsync", "packs"),  # a new folder below it
        ("rename", "packs/…/.pack"),
        ("fsync", "packs/…/directory"),
        *DURABLE_REF,
    ]


def test_names_of_other_writers_packs_are_durable_before_a_ref_relies_on_them(
    tmp_path: Path, steps: list[tuple[str, str]]
) -> None:
    store = open_store(tmp_path)
    for expected in ([("fsync", "packs/…/directory"), *DURABLE_REF], DURABLE_REF):
        steps.clear()
        writer = store.begin()
        writer.commit(ref_body(writer.put("record", b"first")))
        assert steps == expected


def test_a_lease_names_packs_before_they_can_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    held: list[bool] = []

    def rename(source: str, target: str) -> None:
        if target.endswith(".pack"):
            (lease,) = read_leases(str(tmp_path)).values()
            held.append(bytes.fromhex(Path(target).stem) in lease.packs)
        os.replace(source, target)

    monkeypatch.setattr(os, "rename", rename)
    commit(store, b"record")
    assert held == [True]
    (lease,) = read_leases(str(tmp_path)).values()
    assert (lease.epoch, lease.packs) == (None, ())
