# ruff: noqa: D102 (a test's name says what it is about)
"""What every store must do, as a test class.

Use it in a test module:

```python
class TestMyStore(StoreConformance):
    @pytest.fixture
    def open(self, tmp_path):
        return lambda: open_my_store(tmp_path / "store")
```

`open` gives a function that opens one and the same store again and again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from nbrewind.errors import ObjectDamaged, ObjectMissing, StoreNotWritable
from nbrewind.model.blobs import LEAF_BYTES, BlobRef
from nbrewind.model.refs import RefBody, StoredRef
from nbrewind.store.abc import Store
from nbrewind.store.leaves import LeafHasher, blob_digest, object_id

Open = Callable[[], Store]

LINEAGE = "0123456789abcdef0123456789abcdef"


def ref_body(record: bytes, **fields: object) -> RefBody:
    """A ref's body with plausible values where none are given."""
    values: dict[str, object] = {"lineage": LINEAGE, "seq": 0, "source_digest": "s", **fields}
    return RefBody(record=record, **values)  # type: ignore[arg-type]


def commit(store: Store, content: bytes, **fields: object) -> StoredRef:
    """Commit one record with the given content."""
    writer = store.begin()
    return writer.commit(ref_body(writer.put("record", content), **fields))


class StoreConformance:
    """Tests of the contract of `Store` and `StoreWriter`."""

    @pytest.fixture
    def open(self) -> Open:
        """A function that opens the store under test."""
        raise pytest.UsageError("a subclass gives the fixture `open`")

    @pytest.fixture
    def store(self, open: Open) -> Store:
        """The store, opened."""
        return open()

    def test_an_object_is_named_by_its_content(self, store: Store) -> None:
        with store.begin() as writer:
            for kind in ("chunk", "manifest", "record"):
                content = f"a {kind}".encode()
                assert writer.put(kind, content) == object_id(content)

    def test_a_committed_object_is_read_back_by_any_reader(self, open: Open) -> None:
        ref = commit(open(), b"content")
        assert open().get(ref.body.record) == b"content"

    def test_an_empty_object_is_an_object(self, store: Store) -> None:
        assert store.get(commit(store, b"").body.record) == b""

    def test_an_uncommitted_object_is_not_visible(self, open: Open) -> None:
        store = open()
        writer = store.begin()
        oid = writer.put("record", b"content")
        assert not store.has([oid])
        writer.abort()
        with pytest.raises(ObjectMissing):
            open().get(oid)
        assert open().refs() == []

    def test_a_missing_object_is_said_to_be_missing(self, store: Store) -> None:
        with pytest.raises(ObjectMissing):
            store.get(bytes(32))
        assert not store.has([bytes(32)])

    def test_has_needs_all_objects(self, store: Store) -> None:
        oid = commit(store, b"content").body.record
        assert store.has([])
        assert store.has([oid])
        assert not store.has([oid, bytes(32)])

    @pytest.mark.parametrize(
        "size", [0, 1, LEAF_BYTES - 1, LEAF_BYTES, LEAF_BYTES + 1, 12 * LEAF_BYTES + 7]
    )
    def test_a_blob_of_any_size_is_read_back(self, open: Open, size: int) -> None:
        content = random.Random(size).randbytes(size)
        blob = self._commit_blob(open(), content)
        assert blob.size == size
        assert blob.digest == LeafHasher().digest(content)
        assert open().get_blob(blob) == content

    @pytest.mark.parametrize("data", [b"ab" * 700_000, bytes(2_000_001), bytes(range(256)) * 9000])
    def test_compressible_blobs_are_read_back(self, open: Open, data: bytes) -> None:
        assert open().get_blob(self._commit_blob(open(), data)) == data

    def test_a_blob_may_be_given_as_any_contiguous_buffer(self, open: Open) -> None:
        content = bytearray(random.Random(1).randbytes(8 * LEAF_BYTES))
        words: Any = memoryview(content).cast("d")
        blob = self._commit_blob(open(), words)
        assert blob == self._commit_blob(open(), bytes(words))
        assert open().get_blob(blob) == bytes(words)

    def test_a_blob_is_read_into_fresh_writable_memory(self, store: Store) -> None:
        blob = self._commit_blob(store, b"content")
        store.get_blob(blob)[0] = 0
        assert store.get_blob(blob) == b"content"

    def test_known_leaves_are_taken_as_given(self, open: Open) -> None:
        content = random.Random(2).randbytes(3 * LEAF_BYTES)
        leaves = LeafHasher().leaves(content)
        writer = open().begin()
        blob = writer.put_blob(content, leaves)
        writer.commit(ref_body(writer.put("record", b"r")))
        assert blob == BlobRef(len(content), blob_digest(leaves), leaves)
        assert open().get_blob(blob) == content

    def test_the_wrong_number_of_leaves_is_refused(self, store: Store) -> None:
        with store.begin() as writer, pytest.raises(ValueError, match="leaf ids"):
            writer.put_blob(b"content", [bytes(32), bytes(32)])

    def test_what_is_stored_is_not_added_again(self, open: Open) -> None:
        content = random.Random(3).randbytes(4 * LEAF_BYTES)
        self._commit_blob(open(), content)
        writer = open().begin()
        writer.put_blob(content)
        assert writer.bytes_added == 0
        changed = bytearray(content)
        changed[LEAF_BYTES] ^= 1
        writer.put_blob(changed)
        assert LEAF_BYTES <= writer.bytes_added < LEAF_BYTES + 1024
        writer.abort()

    def test_what_a_commit_repeats_is_added_once(self, store: Store) -> None:
        writer = store.begin()
        leaf = random.Random(4).randbytes(LEAF_BYTES)
        writer.put_blob(leaf * 3)
        added = writer.bytes_added
        writer.put_blob(leaf)
        assert writer.bytes_added == added < 2 * LEAF_BYTES
        writer.abort()

    @pytest.mark.parametrize("size", [0, 1, 100_000, LEAF_BYTES, 12 * LEAF_BYTES + 7])
    def test_a_stream_of_any_size_is_read_back(self, open: Open, size: int) -> None:
        content = random.Random(size).randbytes(size)
        writer = open().begin()
        blob = writer.put_stream(content)
        writer.commit(ref_body(writer.put("record", b"r")))
        assert (blob.size, blob.digest) == (size, LeafHasher().digest(content))
        assert open().get_blob(blob) == content
        with pytest.raises(ObjectDamaged):
            open().get_blob(BlobRef(size, bytes(32), blob.chunks))

    def test_chunks_that_were_swapped_are_damage(self, open: Open) -> None:
        content = random.Random(6).randbytes(2 * LEAF_BYTES)
        for put in ("put_blob", "put_stream"):
            writer = open().begin()
            blob = getattr(writer, put)(content)
            writer.commit(ref_body(writer.put("record", b"r")))
            with pytest.raises(ObjectDamaged):
                open().get_blob(BlobRef(blob.size, blob.digest, blob.chunks[::-1]))

    def test_a_stream_that_is_stored_is_not_added_again(self, open: Open) -> None:
        content = random.Random(7).randbytes(4 * LEAF_BYTES)
        writer = open().begin()
        writer.put_stream(content)
        writer.commit(ref_body(writer.put("record", b"r")))
        with open().begin() as writer:
            writer.put_stream(content)
            assert writer.bytes_added == 0

    def test_a_blob_whose_digest_is_wrong_is_damaged(self, store: Store) -> None:
        blob = self._commit_blob(store, b"content")
        with pytest.raises(ObjectDamaged):
            store.get_blob(BlobRef(blob.size, bytes(32), blob.chunks))
        with pytest.raises(ObjectDamaged):
            store.get_blob(BlobRef(blob.size + 1, blob.digest, blob.chunks))

    def test_a_chunk_is_no_larger_than_a_leaf(self, store: Store) -> None:
        with store.begin() as writer, pytest.raises(ValueError, match="put_blob"):
            writer.put("chunk", bytes(LEAF_BYTES + 1))

    def test_a_commit_is_found_by_its_source_digest(self, open: Open) -> None:
        store = open()
        ref = commit(store, b"1", source_digest="one", notebook="n.ipynb", ordinal=3)
        commit(store, b"2", source_digest="two")
        assert ref.trusted
        for reader in (store, open()):
            assert list(reader.refs("one")) == [ref]
            assert reader.refs("none") == []
            assert len(reader.refs()) == 2

    def test_refs_come_newest_first(self, open: Open) -> None:
        for created in (3.0, 1.0, 2.0):
            commit(open(), str(created).encode(), created=created)
        assert [ref.body.created for ref in open().refs("s")] == [3.0, 2.0, 1.0]

    def test_each_commit_of_a_lineage_gets_a_number_of_its_own(self, open: Open) -> None:
        first, second = open(), open()
        refs = [commit(store, str(i).encode()) for i, store in enumerate([first, second] * 5)]
        assert [ref.body.seq for ref in refs] == list(range(10))
        assert {ref.body.seq for ref in open().refs()} == set(range(10))

    def test_lineages_are_numbered_apart(self, store: Store) -> None:
        assert commit(store, b"1", lineage="a" * 32).body.seq == 0
        assert commit(store, b"2", lineage="b" * 32).body.seq == 0

    @pytest.mark.parametrize("lineage", ["", "..", "a/b", "a" * 65])
    def test_a_lineage_that_is_no_name_is_refused(self, store: Store, lineage: str) -> None:
        with pytest.raises(ValueError, match="lineage"):
            commit(store, b"1", lineage=lineage)

    def test_a_commit_without_its_record_is_refused(self, open: Open) -> None:
        with pytest.raises(ObjectMissing):
            open().begin().commit(ref_body(bytes(32)))
        assert open().refs() == []

    def test_a_record_of_an_earlier_commit_can_be_committed_again(self, store: Store) -> None:
        record = commit(store, b"content").body.record
        again = store.begin().commit(ref_body(record))
        assert again.body.seq == 1

    def test_an_ended_commit_takes_nothing_more(self, store: Store) -> None:
        writer = store.begin()
        writer.commit(ref_body(writer.put("record", b"1")))
        writer.abort()
        assert len(store.refs()) == 1
        with pytest.raises(StoreNotWritable):
            writer.put("record", b"2")
        with pytest.raises(StoreNotWritable):
            writer.commit(ref_body(bytes(32)))

    def test_a_refresh_shows_what_others_committed(self, open: Open) -> None:
        reader, writer = open(), open()
        assert reader.refs() == []
        for i in range(3):
            ref = commit(writer, os.urandom(8), source_digest=str(i))
            reader.refresh()
            assert list(reader.refs(str(i))) == [ref]
            reader.get(ref.body.record)

    def test_info_counts_what_is_there(self, open: Open) -> None:
        store = open()
        writer = store.begin()
        writer.put("manifest", b"m")
        writer.put_blob(random.Random(5).randbytes(2 * LEAF_BYTES))
        writer.commit(ref_body(writer.put("record", b"r")))
        info = open().info()
        assert info.objects == {"chunk": 2, "manifest": 1, "record": 1}
        assert (info.refs, info.trusted_refs, info.untrusted_refs) == (1, 1, 0)
        assert info.bytes > 2 * LEAF_BYTES
        assert info.damaged == ()

    def test_a_closed_store_can_be_opened_anew(self, open: Open) -> None:
        with open() as store:
            ref = commit(store, b"content")
        assert open().get(ref.body.record) == b"content"

    @staticmethod
    def _commit_blob(store: Store, data: bytes | bytearray | memoryview) -> BlobRef:
        writer = store.begin()
        blob = writer.put_blob(data)
        writer.commit(ref_body(writer.put("record", blob.digest)))
        return blob
