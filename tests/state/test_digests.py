"""Versions of files: from their bytes, each read once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nbrewind.model.versions import ABSENT, PRESENT, content_version
from nbrewind.state import digest_cache, digests
from nbrewind.state.digests import contents, digest_file


def version(text: str) -> str:
    return content_version(text.encode())


def test_file_versions_equal_the_versions_of_their_bytes(tmp_path: Path) -> None:
    for size in (0, 1, 1 << 20, (8 << 20) + 3):
        path = tmp_path / str(size)
        data = os.urandom(size)
        path.write_bytes(data)
        assert digest_file(str(path)) == content_version(data)
        assert contents(str(path), size) == data
    assert contents(str(path), 10) is None
    assert digest_file(str(tmp_path / "none")) == ABSENT


def test_a_change_that_keeps_size_and_recent_mtime_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("a")
    first = os.stat(path)
    assert digest_file(str(path)) == version("a")
    path.write_text("b")
    os.utime(path, ns=(first.st_atime_ns, first.st_mtime_ns))
    assert digest_file(str(path)) == version("b")


@pytest.fixture
def digested(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Files that were read to digest them; none counts as too new to be remembered."""
    read: list[str] = []
    whole = digests._digest

    def counted(path: str, size: int) -> str:
        read.append(os.path.basename(path))
        return whole(path, size)

    monkeypatch.setattr(digests, "_digest", counted)
    monkeypatch.setattr(digests, "_RACY_NS", -1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return read


def test_an_unchanged_file_is_digested_once(tmp_path: Path, digested: list[str]) -> None:
    path = tmp_path / "x"
    path.write_text("a")
    assert digest_file(str(path)) == digest_file(str(path)) == version("a")
    assert digested == ["x"]
    before = os.stat(path)
    path.write_text("b")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as `rsync --times --inplace`
    assert digest_file(str(path)) == version("b")


def test_a_file_of_ten_gigabytes_is_digested_once_in_all_sessions(
    tmp_path: Path, digested: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(10 << 30)
    monkeypatch.setattr(digests, "_digest", lambda path, size: digested.append("huge") or "v1")
    for _ in range(2):
        assert digest_file(str(path)) == "v1"
        digests._cache.clear()
        monkeypatch.setattr(digest_cache, "_known", None)  # as in another process
    assert digested == ["huge"]
    digest_cache.place().write_text("nonsense\n1 2 3\n\0")
    assert digest_file(str(path)) == "v1"
    assert digested == ["huge", "huge"]


def test_a_pipe_is_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert digest_file(str(tmp_path / "pipe")) == PRESENT
    assert contents(str(tmp_path / "pipe"), 10) is None
