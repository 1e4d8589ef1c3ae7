"""Copies of refs make opening fast, and never change what is there."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nbrewind.store import open_store, ref_segments
from nbrewind.store.check import check_store
from nbrewind.store.ref_index import RefIndex
from nbrewind.testing.store_conformance import commit


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ref_segments, "SEGMENT_REFS", 4)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of refs that were read."""
    paths: list[str] = []
    original: Callable[[RefIndex, tuple[str, int]], bytes] = RefIndex._content
    monkeypatch.setattr(
        RefIndex,
        "_content",
        lambda index, place: (paths.append(index.path(place)), original(index, place))[1],
    )
    return paths


def fill(path: Path, count: int, first: int = 0, created: float = 1e9) -> None:
    with open_store(path) as store:
        for number in range(first, first + count):
            commit(
                store,
                str(number).encode(),
                source_digest=str(number),
                lineage=f"{number % 3:032x}",
                created=created + number,
            )


def copies(path: Path) -> list[Path]:
    return sorted((path / "idx").glob("*.refs"))


def test_a_store_with_copies_opens_without_reading_each_ref(
    tmp_path: Path, read: list[str]
) -> None:
    fill(tmp_path, 10)
    open_store(tmp_path)
    assert len(copies(tmp_path)) == 1
    read.clear()
    store = open_store(tmp_path)
    assert read == []
    assert [ref.body.source_digest for ref in store.refs()] == [str(n) for n in range(9, -1, -1)]
    assert all(ref.trusted for ref in store.refs())
    assert store.get(store.refs("7")[0].body.record) == b"7"
    fill(tmp_path, 2, first=10)
    read.clear()
    assert len(open_store(tmp_path).refs()) == 12
    assert len(read) == 2


def test_there_are_few_segments(tmp_path: Path, read: list[str]) -> None:
    for number in range(30):
        fill(tmp_path, 4, first=4 * number)
    assert len(copies(tmp_path)) <= 5
    read.clear()
    assert len(open_store(tmp_path).refs()) == 120
    assert len(read) <= 4


def test_refs_that_may_be_taken_back_are_not_copied(tmp_path: Path) -> None:
    fill(tmp_path, 10, created=time.time())
    open_store(tmp_path)
    assert copies(tmp_path) == []


def test_a_read_only_store_uses_copies_and_writes_none(tmp_path: Path, read: list[str]) -> None:
    fill(tmp_path, 10)
    assert len(open_store(tmp_path, read_only=True).refs()) == 10
    assert copies(tmp_path) == []
    open_store(tmp_path)
    read.clear()
    assert len(open_store(tmp_path, read_only=True).refs()) == 10
    assert read == []


def test_a_ref_that_was_removed_is_gone(tmp_path: Path) -> None:
    fill(tmp_path, 10)
    open_store(tmp_path)
    next((tmp_path / "refs").rglob("*.ref")).unlink()
    assert len(open_store(tmp_path).refs()) == 9


def test_refs_that_replace_removed_ones_are_copied(tmp_path: Path, read: list[str]) -> None:
    fill(tmp_path, 10)
    store = open_store(tmp_path)
    for path in (tmp_path / "refs").rglob("*.ref"):
        if path.name != "0000000003.ref":
            path.unlink()
    store.refresh()
    fill(tmp_path, 9, first=12)
    store.refresh()
    read.clear()
    assert len(open_store(tmp_path).refs()) == 10
    assert read == []


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "other"])
def test_damaged_copies_are_not_used(tmp_path: Path, read: list[str], damage: str) -> None:
    fill(tmp_path, 10)
    open_store(tmp_path)
    (segment,) = copies(tmp_path)
    content = bytearray(segment.read_bytes())
    if damage == "flip":
        content[random.Random(0).randrange(len(content))] ^= 1
    elif damage == "truncate":
        del content[-100:]
    else:
        content[:] = b"" if damage == "empty" else b"NBRWRFS\x02 of a later version"
    segment.write_bytes(content)
    read.clear()
    assert len(open_store(tmp_path).refs()) == 10
    assert len(read) == 10


def test_a_forged_copy_is_not_trusted(tmp_path: Path) -> None:
    from blake3 import blake3

    fill(tmp_path, 10)
    store = open_store(tmp_path)
    (segment,) = copies(tmp_path)
    copied = ref_segments._decoder.decode(segment.read_bytes()[8:-32])
    forged = []
    for copy in copied:
        content = copy.content[:-32].replace(b"source_digest\xa17", b"source_digest\xa1!")
        forged.append([copy.lineage, copy.seq, content + blake3(content).digest()])
    body = ref_segments.MAGIC + ref_segments._encoder.encode(forged)
    segment.unlink()
    (tmp_path / "idx" / "forged.refs").write_bytes(body + blake3(body).digest())
    store = open_store(tmp_path)
    assert [ref.trusted for ref in store.refs("!")] == [False]
    assert sum(ref.trusted for ref in store.refs()) == 9


def test_a_check_reads_the_files_themselves(tmp_path: Path) -> None:
    fill(tmp_path, 10)
    open_store(tmp_path)
    victim = next((tmp_path / "refs").rglob("*.ref"))
    os.truncate(victim, 50)
    store = open_store(tmp_path)
    assert len(store.refs()) == 10
    assert any(str(victim) in sentence for sentence in check_store(store).damage)


def test_writers_side_by_side_agree(tmp_path: Path) -> None:
    fill(tmp_path, 10)
    stores = [open_store(tmp_path) for _ in range(3)]
    fill(tmp_path, 10, first=10)
    for store in stores:
        store.refresh()
    for store in [*stores, open_store(tmp_path)]:
        assert len(store.refs()) == 20
