"""The directory is what `docs/spec/store-format.md` says, and foreign ones are refused."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from nbrewind.errors import StoreFormatError
from nbrewind.model.blobs import LEAF_BYTES
from nbrewind.store import open_store, trust
from nbrewind.store.config import STORE_FORMAT
from nbrewind.store.packs import read_index, scan
from nbrewind.testing.store_conformance import commit, ref_body


def test_a_new_store_keeps_itself_out_of_git_and_of_backups(tmp_path: Path) -> None:
    root = tmp_path / "deep" / ".nbrewind"
    open_store(root)
    assert (root / ".gitignore").read_text() == "*\n"
    tag = (root / "CACHEDIR.TAG").read_bytes()
    assert tag.startswith(b"Signature: 8a477f597d28d172789f06886806bc55")
    assert json.loads((root / "CONFIG").read_text())["format"] == STORE_FORMAT
    assert not [name for name in os.listdir(root) if "tmp-" in name]


def test_a_commit_is_one_pack_and_one_ref(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    writer = store.begin()
    writer.put_blob(random.Random(0).randbytes(10 * LEAF_BYTES))
    writer.put("manifest", b"m")
    ref = writer.commit(ref_body(writer.put("record", b"r")))
    (pack,) = (tmp_path / "packs").rglob("*.pack")
    assert ref.body.objects == (bytes.fromhex(pack.stem),)
    assert pack.parent.name == pack.stem[:2]
    (path,) = (tmp_path / "refs").rglob("*.ref")
    assert (path.parent.name, path.name) == (ref.body.lineage, "0000000000.ref")


def test_a_large_commit_is_split_into_packs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbrewind.store.writer.PACK_BYTES", 1_000_000)
    content = random.Random(0).randbytes(5_000_000)
    writer = open_store(tmp_path).begin()
    blob = writer.put_blob(content)
    ref = writer.commit(ref_body(writer.put("record", b"r")))
    assert len(ref.body.objects) == 5
    assert open_store(tmp_path).get_blob(blob) == content


def test_a_pack_can_be_read_without_its_index(tmp_path: Path) -> None:
    writer = open_store(tmp_path).begin()
    writer.put_blob(random.Random(0).randbytes(10 * LEAF_BYTES) + b"text" * LEAF_BYTES)
    writer.commit(ref_body(writer.put("record", b"r")))
    (path,) = tmp_path.rglob("*.pack")
    index = read_index(str(path), bytes.fromhex(path.stem))
    assert b"".join(entry.pack_bytes() for entry in sorted(scan(str(path)))) == index


def test_random_floats_are_stored_raw_and_regular_ones_compressed(tmp_path: Path) -> None:
    from array import array

    rng = random.Random(0)
    writer = open_store(tmp_path).begin()
    noise = array("d", (rng.random() for _ in range(4 * LEAF_BYTES // 8))).tobytes()
    writer.put_blob(noise)
    assert writer.bytes_added >= len(noise)
    regular = array("d", (i / 8 for i in range(4 * LEAF_BYTES // 8))).tobytes()
    added = writer.bytes_added
    writer.put_blob(regular)
    assert writer.bytes_added - added < len(regular) / 3
    writer.abort()


def test_a_store_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    commit(open_store(tmp_path), b"x")
    config = json.loads((tmp_path / "CONFIG").read_text())
    (tmp_path / "CONFIG").write_text(json.dumps({**config, "format": STORE_FORMAT + 1}))
    for read_only in (False, True):
        with pytest.raises(StoreFormatError, match=rf"format {STORE_FORMAT + 1}.*newer"):
            open_store(tmp_path, read_only=read_only)


def test_a_store_with_other_parameters_is_refused(tmp_path: Path) -> None:
    open_store(tmp_path)
    config = json.loads((tmp_path / "CONFIG").read_text())
    (tmp_path / "CONFIG").write_text(json.dumps({**config, "hash": "md5"}))
    with pytest.raises(StoreFormatError, match="hash"):
        open_store(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff", b'{"format": "x"}'])
def test_a_damaged_config_is_said_to_be(tmp_path: Path, content: bytes) -> None:
    open_store(tmp_path)
    (tmp_path / "CONFIG").write_bytes(content)
    with pytest.raises(StoreFormatError):
        open_store(tmp_path)


def test_a_directory_of_something_else_is_not_made_a_store(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(StoreFormatError, match=r"thesis\.tex"):
        open_store(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_a_store_that_is_not_there_is_not_made_unless_wanted(tmp_path: Path) -> None:
    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(StoreFormatError, match="not an NBRewind store"):
            open_store(tmp_path / "none", **options)
    assert not (tmp_path / "none").exists()


def test_a_creation_that_was_interrupted_is_completed(tmp_path: Path) -> None:
    (tmp_path / "CONFIG.tmp-0123").write_bytes(b"{")
    (tmp_path / "packs").mkdir()
    assert commit(open_store(tmp_path), b"x").body.seq == 0


def test_a_lookup_reads_one_index_and_verifies_one_signature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    for number in range(20):
        commit(store, str(number).encode(), source_digest=str(number))
    indexes: list[str] = []
    signatures: list[bytes] = []
    real = trust.verify

    def read(path: str, name: bytes) -> bytes:
        indexes.append(path)
        return read_index(path, name)

    def verify(body: bytes, key: bytes, signature: bytes) -> bool:
        signatures.append(signature)
        return real(body, key, signature)

    monkeypatch.setattr("nbrewind.store.catalog.read_index", read)
    monkeypatch.setattr(trust, "verify", verify)
    fresh = open_store(tmp_path)
    for _ in range(2):
        (ref,) = fresh.refs("7")
        assert fresh.get(ref.body.record) == b"7"
    assert (len(indexes), len(signatures)) == (1, 1)


def test_index_segments_spare_the_packs_and_are_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbrewind.store.catalog.SEGMENT_PACKS", 5)
    for number in range(40):
        store = open_store(tmp_path)
        commit(store, str(number).encode())
        store.info()
    assert 1 <= len(list((tmp_path / "idx").iterdir())) <= 3
    indexes: list[str] = []
    monkeypatch.setattr(
        "nbrewind.store.catalog.read_index",
        lambda path, name: indexes.append(path) or read_index(path, name),
    )
    assert open_store(tmp_path).info().objects["record"] == 40
    assert len(indexes) < 5


def test_what_interrupted_writers_of_segments_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbrewind.store.catalog.SEGMENT_PACKS", 1)
    commit(open_store(tmp_path), b"1")
    for name in ("old.tmp", "new.tmp"):
        (tmp_path / "idx" / name).write_bytes(b"half a segment")
    os.utime(tmp_path / "idx" / "old.tmp", (1e9, 1e9))
    commit(open_store(tmp_path), b"2")
    assert not (tmp_path / "idx" / "old.tmp").exists()
    assert (tmp_path / "idx" / "new.tmp").exists()


def test_a_pack_that_comes_back_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbrewind.store.catalog.SEGMENT_PACKS", 1)
    store = open_store(tmp_path)
    writer = store.begin()
    oid = writer.put("manifest", b"away for a while")
    writer.commit(ref_body(writer.put("record", b"r")))
    (pack,) = (tmp_path / "packs").rglob("*.pack")
    aside = tmp_path / "tmp" / "aside"
    pack.rename(aside)
    store.refresh()
    for number in range(3):
        commit(store, str(number).encode() * 100)
    assert not store.has([oid])
    aside.rename(pack)
    store.refresh()
    assert store.get(oid) == b"away for a while"


def test_packs_that_are_gone_are_not_found_through_a_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbrewind.store.catalog.SEGMENT_PACKS", 1)
    oid = commit(open_store(tmp_path), b"content").body.record
    open_store(tmp_path).info()
    for pack in (tmp_path / "packs").rglob("*.pack"):
        pack.unlink()
    store = open_store(tmp_path)
    assert not store.has([oid])
    assert store.info().objects["record"] == 0
