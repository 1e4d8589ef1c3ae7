"""A store in a bucket keeps the contract of stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nbrewind.store.abc import Store
from nbrewind.store.remote.store import open_bucket
from nbrewind.testing.store_conformance import Open, StoreConformance


@pytest.fixture
def opened() -> Iterator[list[Store]]:
    stores: list[Store] = []
    yield stores
    for store in stores:
        store.close()


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
