"""A store in a bucket keeps the contract of stores."""

from __future__ import annotations

import pytest

from nbrewind.store.abc import Store
from nbrewind.store.remote.bucket import BucketFiles
from nbrewind.store.remote.store import open_bucket
from nbrewind.testing.store_conformance import Open, StoreConformance, commit


class TestBucketStore(StoreConformance):
    @pytest.fixture
    def open(self, bucket: str, opened: list[Store]) -> Open:
        def open_() -> Store:
            opened.append(open_bucket(bucket))
            return opened[-1]

        return open_


class TestBucketStoreWithSegments(TestBucketStore):
    @pytest.fixture(autouse=True)
    def _segments(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("nbrewind.store.remote.catalog.SEGMENT_PACKS", 1)
        monkeypatch.setattr("nbrewind.store.remote.catalog.MOST_SEGMENTS", 2)


def test_many_refs_are_fetched_in_few_requests(
    bucket: str, opened: list[Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbrewind.store.ref_segments.SEGMENT_REFS", 8)
    for _ in range(2):
        opened.append(open_bucket(bucket))
        for i in range(10):
            commit(opened[-1], str(i).encode(), created=1.0)
        opened[-1].refresh()
    reads: list[str] = []
    read = BucketFiles.read

    def counted(self: BucketFiles, name: str) -> bytes:
        reads.append(name)
        return read(self, name)

    monkeypatch.setattr(BucketFiles, "read", counted)
    opened.append(open_bucket(bucket))
    assert len(opened[-1].refs()) == 20
    assert len([name for name in reads if name.startswith("refs/")]) < 8
    assert any(name.endswith(".refs") for name in reads)
