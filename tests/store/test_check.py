"""A check lists all damage; a repair loses nothing that can still be read."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from nbrewind.errors import ObjectDamaged, ObjectMissing, StoreFormatError, StoreNotWritable
from nbrewind.model.blobs import LEAF_BYTES, BlobRef
from nbrewind.store import config, open_store
from nbrewind.store.check import check_store
from nbrewind.testing.store_conformance import commit, ref_body

CONTENT = random.Random(0).randbytes(3 * LEAF_BYTES) + b"text " * 100_000


def make(path: Path) -> tuple[BlobRef, Path, Path]:
    writer = open_store(path).begin()
    blob = writer.put_blob(CONTENT)
    writer.commit(ref_body(writer.put("record", b"record")))
    return blob, *path.rglob("*.pack"), *path.rglob("*.ref")


def damage(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_a_sound_store_has_no_damage(tmp_path: Path) -> None:
    make(tmp_path)
    report = check_store(open_store(tmp_path, read_only=True))
    assert report.sound
    assert (report.packs, report.objects) == (1, 6)


def test_a_flipped_bit_costs_one_object_and_the_rest_is_salvaged(tmp_path: Path) -> None:
    blob, pack, _ = make(tmp_path)
    damage(pack, 100_000)
    report = check_store(open_store(tmp_path))
    assert len(report.damage) == 1
    assert report.objects == 5

    store = open_store(tmp_path)
    report = check_store(store, repair=True)
    assert report.salvaged == 5
    assert not pack.exists()
    assert [Path(path).name[9:] for path in report.quarantined] == [f"{pack.stem[:2]}-{pack.name}"]
    for reader in (store, open_store(tmp_path)):
        assert check_store(reader).sound
        assert sum(reader.has([oid]) for oid in blob.chunks) == 4
        with pytest.raises((ObjectDamaged, ObjectMissing)):
            reader.get_blob(blob)
    writer = store.begin()
    writer.put_blob(CONTENT)
    writer.commit(ref_body(writer.put("record", b"again")))
    assert open_store(tmp_path).get_blob(blob) == CONTENT


def test_a_pack_with_a_damaged_index_is_healed_whole(tmp_path: Path) -> None:
    blob, pack, _ = make(tmp_path)
    damage(pack, -1)
    assert not check_store(open_store(tmp_path)).sound
    report = check_store(open_store(tmp_path), repair=True)
    assert (report.salvaged, report.quarantined) == (6, [])
    assert open_store(tmp_path).get_blob(blob) == CONTENT
    assert check_store(open_store(tmp_path)).sound


def test_what_precedes_a_tear_is_salvaged(tmp_path: Path) -> None:
    blob, pack, _ = make(tmp_path)
    os.truncate(pack, 2 * LEAF_BYTES + 1000)
    report = check_store(open_store(tmp_path), repair=True)
    assert report.salvaged == 2
    reader = open_store(tmp_path)
    assert [reader.has([oid]) for oid in blob.chunks[:3]] == [True, True, False]
    (sentence,) = check_store(reader).damage
    assert "is lost" in sentence


def test_damaged_refs_are_quarantined_unless_they_may_be_being_written(tmp_path: Path) -> None:
    _, _, ref = make(tmp_path)
    damage(ref, 50)
    report = check_store(open_store(tmp_path), repair=True)
    assert (len(report.damage), report.quarantined) == (1, [])
    os.utime(ref, (0, 0))
    report = check_store(open_store(tmp_path), repair=True)
    assert len(report.quarantined) == 1
    assert check_store(open_store(tmp_path)).sound
    assert commit(open_store(tmp_path), b"next").body.seq == 0


def test_a_read_only_store_is_checked_but_not_repaired(tmp_path: Path) -> None:
    _, pack, _ = make(tmp_path)
    damage(pack, 100)
    store = open_store(tmp_path, read_only=True)
    assert not check_store(store).sound
    with pytest.raises(StoreNotWritable):
        check_store(store, repair=True)


@pytest.mark.parametrize("at", [3, 9, 15, 16, 21, 40, 75, -10])
def test_a_flipped_bit_that_no_reader_minds_is_found_and_healed(tmp_path: Path, at: int) -> None:
    blob, pack, _ = make(tmp_path)
    whole = pack.read_bytes()
    damage(pack, at)
    store = open_store(tmp_path)
    report = check_store(store, repair=True)
    assert len(report.damage) == 1
    assert report.quarantined == []
    assert pack.read_bytes() == whole
    assert check_store(open_store(tmp_path)).sound
    assert open_store(tmp_path).get_blob(blob) == CONTENT


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 300, b'{"format": 2, "leaf_bytes": 1}', b"[2]", b'{"format": []}']
)
def test_a_damaged_config_is_written_anew(tmp_path: Path, content: bytes) -> None:
    blob, _, _ = make(tmp_path)
    (tmp_path / "CONFIG").write_bytes(content)
    with pytest.raises(StoreFormatError):
        open_store(tmp_path)
    assert Path(config.restore(str(tmp_path))).read_bytes() == content
    assert config.restore(str(tmp_path)) == ""
    store = open_store(tmp_path)
    assert store.get_blob(blob) == CONTENT
    assert check_store(store).sound


def test_a_config_of_a_newer_version_is_not_touched(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "CONFIG").write_text('{"format": 99}')
    with pytest.raises(StoreFormatError, match="newer"):
        config.restore(str(tmp_path))
    assert (tmp_path / "CONFIG").read_text() == '{"format": 99}'


def test_a_config_that_is_gone_is_made_again(tmp_path: Path) -> None:
    blob, _, _ = make(tmp_path / "s")
    for name in ("sessions", "epochs", "pins", "lost", "trash"):
        (tmp_path / "s" / name).mkdir(exist_ok=True)
    (tmp_path / "s" / "CONFIG").unlink()
    assert open_store(tmp_path / "s").get_blob(blob) == CONTENT
