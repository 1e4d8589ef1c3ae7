"""L4: whatever happens to its files, a store gives right bytes or says that it cannot."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from nbrewind.errors import ObjectDamaged, ObjectMissing
from nbrewind.model.blobs import LEAF_BYTES, BlobRef
from nbrewind.store import open_store
from nbrewind.testing.store_conformance import commit, ref_body

CONTENT = random.Random(0).randbytes(2 * LEAF_BYTES) + b"text " * 40_000


def make(path: Path) -> tuple[BlobRef, bytes, Path, Path]:
    """A store with one commit: its blob, its record, its pack and its ref."""
    writer = open_store(path).begin()
    blob = writer.put_blob(CONTENT)
    record = writer.put("record", b"record " * 100)
    writer.commit(ref_body(record))
    return blob, record, *path.rglob("*.pack"), *path.rglob("*.ref")


def spots(size: int, count: int) -> list[int]:
    """Offsets all over a file, with its beginning and end."""
    chosen = random.Random(size).sample(range(size), count)
    return sorted(
        {*range(0, size, max(1, size // 40)), *range(70), *range(size - 70, size), *chosen}
    )


def test_no_bit_flip_in_a_pack_goes_unnoticed(tmp_path: Path) -> None:
    blob, record, pack, _ = make(tmp_path)
    whole = pack.read_bytes()
    refused = 0
    for at in spots(len(whole), 60):
        pack.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        store = open_store(tmp_path, read_only=True)
        try:
            assert store.get_blob(blob) == CONTENT
            assert store.get(record) == b"record " * 100
        except (ObjectDamaged, ObjectMissing):
            refused += 1
        store.close()
    assert refused > 100


@pytest.mark.parametrize("of", [0.0, 0.1, 0.5, 0.9, 0.999, 0.999999])
def test_a_truncated_pack_is_skipped_and_listed(tmp_path: Path, of: float) -> None:
    blob, record, pack, _ = make(tmp_path)
    whole = pack.read_bytes()
    pack.write_bytes(whole[: int(len(whole) * of)])
    store = open_store(tmp_path)
    for read in (lambda: store.get_blob(blob), lambda: store.get(record)):
        with pytest.raises((ObjectDamaged, ObjectMissing)):
            read()
    assert len(store.refs()) == 1
    (sentence,) = store.info().damaged
    assert str(pack) in sentence
    # The same commit made again heals it.
    make(tmp_path)
    assert open_store(tmp_path).get_blob(blob) == CONTENT


def test_a_pack_of_zeros_is_never_read_as_zeros(tmp_path: Path) -> None:
    blob, _, pack, _ = make(tmp_path)
    whole = bytearray(pack.read_bytes())
    whole[1000:200_000] = bytes(199_000)
    pack.write_bytes(whole)
    with pytest.raises(ObjectDamaged):
        open_store(tmp_path).get_blob(blob)


def test_a_damaged_object_can_be_put_again(tmp_path: Path) -> None:
    blob, _, pack, _ = make(tmp_path)
    whole = bytearray(pack.read_bytes())
    whole[1000] ^= 1
    pack.write_bytes(whole)
    store = open_store(tmp_path)
    for _ in range(2):
        with pytest.raises(ObjectDamaged):
            store.get_blob(blob)
    assert not store.has(blob.chunks)
    writer = store.begin()
    writer.put_blob(CONTENT)
    assert LEAF_BYTES <= writer.bytes_added < LEAF_BYTES + 1000
    writer.commit(ref_body(writer.put("record", b"again")))
    assert store.get_blob(blob) == CONTENT
    # A reader that knows nothing of it finds the good copy behind the bad one.
    assert open_store(tmp_path).get_blob(blob) == CONTENT


def test_a_damaged_or_torn_ref_is_skipped_and_listed(tmp_path: Path) -> None:
    _, _, _, ref = make(tmp_path)
    other = commit(open_store(tmp_path), b"other", source_digest="other")
    whole = ref.read_bytes()
    broken = [whole[:at] for at in range(0, len(whole), 7)] + [whole + b"x"]
    broken += [
        whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(0, len(whole), 3)
    ]
    for content in broken:
        ref.write_bytes(content)
        store = open_store(tmp_path)
        assert [r.body.seq for r in store.refs()] == [other.body.seq]
        (sentence,) = store.info().damaged
        assert str(ref) in sentence


def test_a_ref_that_was_torn_is_noticed_once_it_is_whole(tmp_path: Path) -> None:
    _, _, _, ref = make(tmp_path)
    whole = ref.read_bytes()
    ref.write_bytes(whole[:100])
    store = open_store(tmp_path)
    assert store.refs() == []
    ref.write_bytes(whole)
    store.refresh()
    assert len(store.refs()) == 1
    assert store.info().damaged == ()


def test_a_ref_moved_to_another_place_is_skipped(tmp_path: Path) -> None:
    _, _, _, ref = make(tmp_path)
    ref.rename(ref.with_name("0000000009.ref"))
    assert open_store(tmp_path).refs() == []


@pytest.mark.parametrize("at", [0, 3, 30, 100, -1])
def test_a_damaged_index_segment_is_replaced_by_the_packs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    monkeypatch.setattr("nbrewind.store.catalog.SEGMENT_PACKS", 1)
    blob, _, _, _ = make(tmp_path)
    open_store(tmp_path).info()
    (segment,) = tmp_path.rglob("*.idx")
    content = bytearray(segment.read_bytes())
    content[at] ^= 1
    segment.write_bytes(content)
    assert open_store(tmp_path).get_blob(blob) == CONTENT


def test_strange_names_in_a_store_do_no_harm(tmp_path: Path) -> None:
    blob, _, pack, ref = make(tmp_path)
    pack.with_name("notes.pack").write_bytes(b"x")
    pack.with_name("ab.txt").write_bytes(b"x")
    ref.with_name("first.ref").write_bytes(b"x")
    (tmp_path / "refs" / "file").write_bytes(b"x")
    (tmp_path / "tmp" / "x").write_bytes(b"x")
    (tmp_path / "idx" / "x.idx").write_bytes(b"x")
    store = open_store(tmp_path)
    assert store.get_blob(blob) == CONTENT
    assert len(store.refs()) == 1
