"""All stores keep the contract."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from nbrewind.store.local import LocalStore, open_store
from nbrewind.testing.memory_store import MemoryStore
from nbrewind.testing.store_conformance import Open, StoreConformance


class TestLocalStore(StoreConformance):
    @pytest.fixture
    def open(self, tmp_path: Path) -> Open:
        return lambda: open_store(tmp_path / "store")


class TestLocalStoreWithSegments(StoreConformance):
    """The same with an index segment after every pack and a merge after every other."""

    @pytest.fixture
    def open(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
        monkeypatch.setattr("nbrewind.store.catalog.SEGMENT_PACKS", 1)
        return lambda: open_store(tmp_path / "store")


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def open(self) -> Open:
        store = MemoryStore()
        return lambda: store


class TestStagedStore(StoreConformance):
    """The same directory store, written through a flusher."""

    @pytest.fixture
    def open(self, tmp_path: Path) -> Iterator[Open]:
        stores: list[LocalStore] = []

        def opened() -> LocalStore:
            stores.append(open_store(tmp_path / "store", flusher=nullcontext))
            return stores[-1]

        yield opened
        for store in stores:
            store.close()
