"""Directories and buckets keep the contract of `Files`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nbrewind.store import config
from nbrewind.store.remote.bucket import BucketFiles
from nbrewind.store.remote.files import Files
from nbrewind.store.remote.folder import FolderFiles
from nbrewind.testing.files_conformance import FilesConformance


class TestFolderFiles(FilesConformance):
    @pytest.fixture
    def files(self, tmp_path: Path) -> Iterator[Files]:
        config.create(str(tmp_path / "store"))
        files = FolderFiles(str(tmp_path / "store"))
        yield files
        files.close()
        assert list((tmp_path / "store" / "tmp").iterdir()) == []


class TestFolderFilesWithoutLinks(TestFolderFiles):
    @pytest.fixture(autouse=True)
    def _no_links(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr("os.link", refuse)


class TestBucketFiles(FilesConformance):
    @pytest.fixture
    def files(self, bucket: str) -> Files:
        return BucketFiles(bucket)
