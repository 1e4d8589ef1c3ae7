"""A chain of stores keeps the contract of stores, and reads from whichever tier can answer."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from nbrewind.errors import ObjectMissing, StoreFormatError
from nbrewind.model.blobs import LEAF_BYTES, BlobRef
from nbrewind.store.abc import Store
from nbrewind.store.opening import open_store
from nbrewind.store.tiers.promoter import steps_of
from nbrewind.store.tiers.store import TieredStore
from nbrewind.testing.store_conformance import Open, StoreConformance, commit, ref_body


class TestChain(StoreConformance):
    @pytest.fixture
    def open(self, tmp_path: Path, opened: list[Store]) -> Open:
        def open_() -> Store:
            opened.append(open_store(f"{tmp_path}/fast,{tmp_path}/shared"))
            return opened[-1]

        return open_


class TestChainWithBucket(StoreConformance):
    @pytest.fixture
    def open(self, tmp_path: Path, bucket: str, opened: list[Store]) -> Open:
        def open_() -> Store:
            opened.append(open_store(f"{tmp_path}/fast,{bucket}"))
            return opened[-1]

        return open_


@pytest.fixture
def chain(tmp_path: Path) -> tuple[str, str]:
    return f"{tmp_path}/fast", f"{tmp_path}/shared"


def commit_blob(store: Store, content: bytes, **fields: object) -> BlobRef:
    writer = store.begin()
    blob = writer.put_blob(content)
    writer.commit(ref_body(writer.put("record", blob.digest), **fields))
    return blob


def promote(chain: tuple[str, ...]) -> int:
    copied = 0
    for step in steps_of(chain):
        copied += step.run().refs
        step.close()
    return copied


def test_commits_go_to_the_first_tier_and_are_found_in_all(chain: tuple[str, str]) -> None:
    with open_store(",".join(chain)) as store:
        local = commit(store, b"local", source_digest="a")
        assert store.level(local) == "local"
        with open_store(chain[1]) as other:
            shared = commit(other, b"shared", source_digest="b", lineage="f" * 32, created=1.0)
        store.refresh()
        assert store.level(shared) == "shared"
        assert list(store.refs()) == [shared, local]
        assert store.get(shared.body.record) == b"shared"
        assert store.has([local.body.record, shared.body.record])


def test_what_was_promoted_is_read_when_the_first_tier_is_gone(chain: tuple[str, str]) -> None:
    content = random.Random(1).randbytes(9 * LEAF_BYTES)
    with open_store(",".join(chain)) as store:
        blob = commit_blob(store, content)
    assert promote(chain) == 1
    shutil.rmtree(chain[0])
    with open_store(",".join(chain)) as store:
        (ref,) = store.refs()
        assert ref.trusted
        assert store.level(ref) == "shared"
        assert store.get_blob(blob) == content


def test_a_damaged_copy_in_one_tier_falls_back_to_the_next(chain: tuple[str, str]) -> None:
    content = random.Random(2).randbytes(3 * LEAF_BYTES)
    with open_store(",".join(chain)) as store:
        blob = commit_blob(store, content)
    promote(chain)
    for number, tier in enumerate(chain):  # the first chunk is bad here, the third one there
        (pack,) = Path(tier).glob("packs/*/*.pack")
        data = bytearray(pack.read_bytes())
        data[1000 + number * 2 * (LEAF_BYTES + 60)] ^= 1
        pack.write_bytes(data)
    with open_store(",".join(chain)) as store:
        assert store.get_blob(blob) == content
        assert store.get(blob.chunks[0]) == content[:LEAF_BYTES]


def test_a_tier_that_cannot_be_used_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "file").touch()
    with open_store(f"{tmp_path}/fast,{tmp_path}/foreign") as store:
        ref = commit(store, b"content")
        for _ in range(3):
            assert list(store.refs()) == [ref]
            store.refresh()
            with pytest.raises(ObjectMissing):
                store.get(bytes(32))
        info = store.info()
    assert info.levels == {"local": 1}
    assert "not an NBRewind store" in info.tiers[1].problem
    assert len([r for r in caplog.records if "is not used at present" in r.message]) == 1


def test_a_bucket_out_of_reach_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the-key-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret")
    with open_store(f"{tmp_path}/fast,s3://bucket/prefix") as store:
        ref = commit(store, b"content")
        assert list(store.refs()) == [ref]
        info = store.info()
    assert "no answer" in info.tiers[1].problem
    assert "the-secret" not in str(info)
    for folder, _, names in os.walk(tmp_path / "fast"):
        for name in names:
            assert b"the-secret" not in Path(folder, name).read_bytes()


def test_info_tells_how_many_executions_are_at_which_level(chain: tuple[str, str]) -> None:
    with open_store(",".join(chain)) as store:
        commit(store, b"1")
        commit(store, b"2")
    promote(chain)
    with open_store(",".join(chain)) as store:
        commit(store, b"3")
        info = store.info()
    assert info.levels == {"local": 1, "shared": 2}
    assert [(tier.level, tier.refs, tier.missing_refs) for tier in info.tiers] == [
        ("local", 3, 0),
        ("shared", 2, 1),
    ]


def test_nothing_that_a_store_can_do_is_forgotten_for_a_chain() -> None:
    inherited = {
        name
        for name in dir(Store)
        if not name.startswith("_") and getattr(TieredStore, name) is getattr(Store, name)
    }
    assert inherited == set()


def test_who_only_reads_needs_no_first_tier(chain: tuple[str, str]) -> None:
    with open_store(chain[1]) as store:
        ref = commit(store, b"content")
    with open_store(",".join(chain), create=False, read_only=True) as store:
        assert list(store.refs()) == [ref]
        assert store.level(ref) == "shared"
        assert store.get(ref.body.record) == b"content"
        assert store.info().levels == {"shared": 1}
    assert not Path(chain[0]).exists()
    shutil.rmtree(chain[1])
    with pytest.raises(StoreFormatError, match="fast"):
        open_store(",".join(chain), create=False, read_only=True)
