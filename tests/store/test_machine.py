"""L4 as a state machine: any order of commits, crashes, damage and reopening, over two stores.

The model is a dictionary of what was acknowledged. Whatever happens, a store answers
with exactly those bytes, or says that they are damaged or missing, and it says so only
of what was damaged.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from nbrewind.errors import ObjectDamaged, ObjectMissing
from nbrewind.model.blobs import LEAF_BYTES, BlobRef
from nbrewind.store import Store, open_store, trust
from nbrewind.testing.store_conformance import ref_body

SIZES = st.sampled_from([0, 1, 100, 5000, LEAF_BYTES, LEAF_BYTES + 1, 3 * LEAF_BYTES])


class StoreMachine(RuleBasedStateMachine):
    """Two handles on one directory, as two processes have them."""

    blobs = Bundle("blobs")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.segments = [
            patch("nbrewind.store.catalog.SEGMENT_PACKS", 3),
            patch("nbrewind.store.ref_segments.SEGMENT_REFS", 3),
            patch.dict("os.environ", {"NBREWIND_CONFIG_DIR": str(self.folder / "keys")}),
        ]
        for change in self.segments:
            change.start()
        self.stores: list[Store] = [open_store(self.folder / "s"), open_store(self.folder / "s")]
        self.contents: dict[BlobRef, bytes] = {}
        self.committed: dict[tuple[int, bytes], bytes] = {}
        self.harmed: set[bytes] = set()

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        for change in self.segments:
            change.stop()
        shutil.rmtree(self.folder)

    @rule(
        target=blobs,
        which=st.integers(0, 1),
        size=SIZES,
        seed=st.integers(0, 5),
        stream=st.booleans(),
    )
    def commit(self, which: int, size: int, seed: int, stream: bool) -> BlobRef:
        content = random.Random(seed).randbytes(size) if seed else bytes(size)
        store = self.stores[which]
        writer = store.begin()
        blob = writer.put_stream(content) if stream else writer.put_blob(content)
        record = b"".join([b"record", blob.digest])
        ref = writer.commit(ref_body(writer.put("record", record)))
        self.contents[blob] = content
        key = (ref.body.seq, ref.body.record)
        assert key not in self.committed
        self.committed[key] = record
        return blob

    @rule(which=st.integers(0, 1), seeds=st.lists(st.integers(0, 5), max_size=4))
    def commit_several_later(self, which: int, seeds: list[int]) -> None:
        store = self.stores[which]
        first = store.refs()[0].body.seq + 1 if store.refs() else 0
        failures: list[Exception] = []
        for number, seed in enumerate(seeds, first):
            writer = store.begin()
            content = random.Random(seed).randbytes(5000)
            blob = writer.put_blob(content)
            record = b"".join([b"record", blob.digest])
            oid = writer.put("record", record)
            writer.commit_later(ref_body(oid, seq=number), failures.append)
            self.contents[blob] = content
            self.committed[number, oid] = record
        store.settle()
        assert not failures

    @rule(which=st.integers(0, 1), size=SIZES)
    def give_up(self, which: int, size: int) -> None:
        writer = self.stores[which].begin()
        oid = writer.put("record", random.Random(99).randbytes(size + 50))
        writer.abort()
        assert not self.stores[which].has([oid])

    @rule(which=st.integers(0, 1))
    def reopen(self, which: int) -> None:
        self.stores[which].close()
        self.stores[which] = open_store(self.folder / "s")

    @rule(number=st.integers(0, 1000), at=st.floats(0, 1), tear=st.booleans())
    def harm_a_pack(self, number: int, at: float, tear: bool) -> None:
        packs = sorted((self.folder / "s" / "packs").rglob("*.pack"))
        if not packs:
            return
        path = packs[number % len(packs)]
        content = bytearray(path.read_bytes())
        if not content:
            return
        where = min(int(at * len(content)), len(content) - 1)
        content[where] ^= 1
        path.unlink()
        path.write_bytes(content[:where] if tear else content)
        self.harmed.add(bytes.fromhex(path.stem))

    @rule(which=st.integers(0, 1), blob=blobs)
    def read(self, which: int, blob: BlobRef) -> None:
        self.stores[which].refresh()
        try:
            assert self.stores[which].get_blob(blob) == self.contents[blob]
        except (ObjectDamaged, ObjectMissing):
            assert self.harmed

    @rule(which=st.integers(0, 1), blob=blobs)
    def put_what_cannot_be_read_again(self, which: int, blob: BlobRef) -> None:
        """One failed read is enough for the next commit to heal the value."""
        store = self.stores[which]
        store.refresh()
        for _ in range(len(blob.chunks)):
            try:
                store.get_blob(blob)
                break
            except (ObjectDamaged, ObjectMissing):
                writer = store.begin()
                again = writer.put_blob(self.contents[blob])
                if again != blob:
                    assert writer.put_stream(self.contents[blob]) == blob
                oid = writer.put("record", b"healed")
                ref = writer.commit(ref_body(oid))
                self.committed[ref.body.seq, oid] = b"healed"
        assert store.get_blob(blob) == self.contents[blob]

    @invariant()
    def every_acknowledged_ref_is_there_and_trusted(self) -> None:
        for store in self.stores:
            store.refresh()
            refs = store.refs()
            assert {(ref.body.seq, ref.body.record) for ref in refs} == self.committed.keys()
            assert all(ref.trusted for ref in refs)
            assert [ref.body.seq for ref in refs] == list(range(len(refs)))[::-1]

    @invariant()
    def every_record_is_right_or_said_not_to_be(self) -> None:
        for (_, oid), content in self.committed.items():
            try:
                assert self.stores[0].get(oid) == content
            except (ObjectDamaged, ObjectMissing):
                assert self.harmed


def test_any_history_keeps_what_was_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda fd: None)
    trust._load_key.cache_clear()
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        StoreMachine,
        settings=settings(
            max_examples=40,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
