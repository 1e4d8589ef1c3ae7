"""Whatever a server or the way to it does: nothing wrong is read, nothing acknowledged is lost."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nbrewind.errors import (
    ObjectDamaged,
    ObjectMissing,
    ObjectUnreachable,
    StoreFormatError,
    StoreNotWritable,
    StoreUnreachable,
)
from nbrewind.model.blobs import LEAF_BYTES, BlobRef
from nbrewind.model.refs import StoredRef
from nbrewind.store.abc import Store
from nbrewind.store.opening import open_store
from nbrewind.store.remote.bucket import BucketFiles
from nbrewind.store.remote.files import Unreachable
from nbrewind.store.remote.retrying import Patience
from nbrewind.store.remote.store import open_bucket
from nbrewind.store.tiers.promotion import Promotion
from nbrewind.testing.store_conformance import commit, ref_body
from tests.store.remote.faulty_proxy import Fault, FaultyProxy, running_before
from tests.store.remote.s3_server import Server

AT_ONCE = Patience(attempts=8, sleep=lambda _: None)


@pytest.fixture
def proxy(server: Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    with running_before(server.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        yield proxy


@pytest.fixture
def files(proxy: FaultyProxy, bucket: str) -> BucketFiles:
    return BucketFiles(bucket, AT_ONCE)


def once(fault: Fault, method: str, part: str = "") -> Callable[[str, str], Fault]:
    """A plan: the first such request meets the fault."""
    left = [fault]

    def plan(asked: str, path: str) -> Fault:
        return left.pop() if left and asked == method and part in path else ""

    return plan


def every(number: int, fault: Fault, method: str) -> Callable[[str, str], Fault]:
    """A plan: each such request of a number meets the fault."""
    count = itertools.count(1)

    def plan(asked: str, path: str) -> Fault:
        return fault if asked == method and next(count) % number == 0 else ""

    return plan


def commit_blob(store: Store, content: bytes) -> tuple[BlobRef, StoredRef]:
    writer = store.begin()
    blob = writer.put_blob(content)
    return blob, writer.commit(ref_body(writer.put("record", blob.digest)))


@pytest.mark.parametrize("fault", ["503", "refused", "lost", "slow", "409"])
def test_a_claim_succeeds_once_whatever_happens_to_its_answer(
    files: BucketFiles, proxy: FaultyProxy, fault: Fault
) -> None:
    proxy.plan = once(fault, "PUT")
    assert files.claim("refs/a/1", b"mine")
    assert proxy.count(fault) == 1
    assert files.read("refs/a/1") == b"mine"
    proxy.plan = once(fault, "PUT")
    assert not files.claim("refs/a/1", b"another's")
    assert files.read("refs/a/1") == b"mine"


def test_a_412_for_a_name_that_is_not_there_is_no_answer(
    files: BucketFiles, proxy: FaultyProxy
) -> None:
    proxy.plan = once("412", "PUT")
    assert files.claim("refs/a/1", b"mine")


@pytest.mark.parametrize("fault", ["503", "refused", "lost", "slow"])
def test_writing_and_reading_are_tried_again(
    files: BucketFiles, proxy: FaultyProxy, fault: Fault
) -> None:
    proxy.plan = once(fault, "PUT")
    files.write("packs/ab/x", b"0123456789")
    assert proxy.count(fault) == 1
    for read in (
        lambda: files.read("packs/ab/x"),
        lambda: bytes(files.read_range("packs/ab/x", 0, 10)),
        lambda: files.read_end("packs/ab/x", 10)[0],
    ):
        proxy.plan = once(fault, "GET")
        assert read() == b"0123456789"
    proxy.plan = once(fault, "GET")
    assert list(files.names("packs")) == [("packs/ab/x", 10)]
    assert proxy.count(fault) == 5


def test_an_answer_cut_short_is_no_answer(files: BucketFiles, proxy: FaultyProxy) -> None:
    content = random.Random(1).randbytes(100_000)
    files.write("packs/ab/x", content)
    proxy.plan = once("torn", "GET")
    assert files.read("packs/ab/x") == content
    proxy.plan = once("torn", "GET")
    assert files.read_range("packs/ab/x", 5, 90_000) == content[5:90_005]


def test_patience_ends(files: BucketFiles, proxy: FaultyProxy) -> None:
    proxy.plan = lambda method, path: "503"
    with pytest.raises(Unreachable, match="503 SlowDown"):
        files.write("packs/ab/x", b"")
    assert proxy.count("503") == AT_ONCE.attempts


def test_a_server_that_ignores_conditions_is_refused(bucket: str) -> None:
    class Ignorant(BucketFiles):
        def claim(self, name: str, content: bytes) -> bool:
            self.write(name, content)
            return True

    with pytest.raises(StoreFormatError, match="If-None-Match"):
        open_bucket(bucket, files=Ignorant(bucket))
    with pytest.raises(StoreFormatError, match="no CONFIG"):
        open_bucket(bucket, create=False)


def test_a_lost_answer_to_a_ref_takes_one_number(
    proxy: FaultyProxy, bucket: str, files: BucketFiles
) -> None:
    with open_bucket(bucket, files=files) as store:
        proxy.plan = once("lost", "PUT", "/refs/")
        assert commit(store, b"1").body.seq == 0
        assert proxy.count("lost") == 1
        assert commit(store, b"2").body.seq == 1
        assert len(store.refs()) == 2


def test_a_bit_that_flips_on_its_way_is_read_again(
    proxy: FaultyProxy, bucket: str, files: BucketFiles
) -> None:
    content = random.Random(2).randbytes(5 * LEAF_BYTES)
    with open_bucket(bucket, files=files) as store:
        blob, ref = commit_blob(store, content)
        proxy.plan = once("flip", "GET", "/packs/")
        assert store.get_blob(blob) == content
        assert proxy.count("flip") == 1
        proxy.plan = once("flip", "GET", "/packs/")
        assert store.get(ref.body.record) == blob.digest


def test_a_server_that_is_gone_is_said_to_be(
    proxy: FaultyProxy, bucket: str, files: BucketFiles
) -> None:
    with open_bucket(bucket, files=files) as store:
        blob, _ = commit_blob(store, b"content")
        proxy.plan = lambda method, path: "refused"
        with pytest.raises(ObjectUnreachable):
            store.get_blob(blob)
        with pytest.raises(StoreNotWritable):
            commit(store, b"2")
        failures: list[Exception] = []
        writer = store.begin()
        writer.commit_later(ref_body(writer.put("record", b"3")), failures.append)
        store.settle()
        assert [type(f) for f in failures] == [StoreNotWritable]
        store.refresh()
        assert len(store.refs()) == 1
        with pytest.raises(StoreUnreachable):
            open_bucket(bucket, files=files)
        proxy.plan = lambda method, path: ""
        assert store.get_blob(blob) == b"content"
        assert commit(store, b"4").body.seq == 1


@pytest.mark.parametrize("seed", range(2))
def test_nothing_acknowledged_is_lost_and_nothing_wrong_is_read(
    proxy: FaultyProxy, bucket: str, seed: int
) -> None:
    chance = random.Random(seed)
    faults: list[Fault] = ["503", "409", "412", "refused", "lost", "slow", "torn", "flip"]

    def plan(method: str, path: str) -> Fault:
        fault = chance.choice(faults)
        if method == "PUT" and fault in ("torn", "flip"):
            fault = ""
        if method == "GET" and fault in ("409", "412"):
            fault = ""
        return fault if chance.random() < 0.3 else ""

    files = BucketFiles(bucket, Patience(attempts=4, sleep=lambda _: None))
    acknowledged: list[tuple[StoredRef, BlobRef, bytes]] = []
    with open_bucket(bucket, files=files) as store:
        for _ in range(8):
            proxy.plan = plan
            content = chance.randbytes(chance.choice([100, LEAF_BYTES, 3 * LEAF_BYTES]))
            try:
                blob, ref = commit_blob(store, content)
                acknowledged.append((ref, blob, content))
            except StoreNotWritable:
                continue
            finally:
                proxy.plan = lambda method, path: ""
            proxy.plan = plan
            for _, blob, content in acknowledged:
                try:
                    assert store.get_blob(blob) == content
                except (ObjectMissing, ObjectDamaged):
                    continue
    proxy.plan = lambda method, path: ""
    assert acknowledged
    with open_bucket(bucket) as store:
        known = {(ref.body.lineage, ref.body.seq): ref for ref in store.refs()}
        for ref, blob, content in acknowledged:
            assert known[ref.body.lineage, ref.body.seq] == ref
            assert store.get(ref.body.record) == blob.digest
            assert store.get_blob(blob) == content
        assert store.info().damaged == ()


def test_promotion_through_faults_is_complete(
    proxy: FaultyProxy, bucket: str, tmp_path: Path
) -> None:
    with open_store(tmp_path / "fast") as store:
        blobs = [commit_blob(store, random.Random(i).randbytes(LEAF_BYTES))[0] for i in range(12)]
    open_bucket(bucket).close()
    from nbrewind.store.remote.folder import FolderFiles

    target = BucketFiles(bucket, Patience(attempts=1))
    promotion = Promotion(FolderFiles(str(tmp_path / "fast")), target, AT_ONCE)
    chance = random.Random(1)
    proxy.plan = lambda method, path: (
        chance.choice(["503", "lost", "refused", "slow"])  # type: ignore[return-value]
        if method == "PUT" and chance.random() < 0.4
        else ""
    )
    done = promotion.run()
    assert (done.refs, done.conflicts, done.damaged) == (12, [], [])
    assert done.refusals
    proxy.plan = lambda method, path: ""
    with open_bucket(bucket) as remote:
        for i, blob in enumerate(blobs):
            assert remote.get_blob(blob) == random.Random(i).randbytes(LEAF_BYTES)


def test_a_chain_reads_from_the_next_tier_while_one_is_out_of_reach(
    proxy: FaultyProxy, bucket: str, tmp_path: Path
) -> None:
    with open_store(f"{tmp_path}/fast,{bucket}") as store:
        blob, ref = commit_blob(store, b"content")
        proxy.plan = lambda method, path: "503"
        store.refresh()
        assert store.get_blob(blob) == b"content"
        assert list(store.refs()) == [ref]
        assert commit(store, b"more").body.seq == 1
        with pytest.raises(ObjectMissing):
            store.get(bytes(32))
