# ruff: noqa: D102 (a test's name says what it is about)
"""What every `Files` must do, as a test class; used like `StoreConformance`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from nbrewind.store.remote.files import Files


class FilesConformance:
    """Tests of the contract of `Files`."""

    @pytest.fixture
    def files(self) -> Files:
        """The files under test: none below `packs`."""
        raise pytest.UsageError("a subclass gives the fixture `files`")

    def test_what_is_written_is_read_back(self, files: Files) -> None:
        content = bytes(range(256)) * 5000
        files.write("packs/ab/one.pack", content)
        assert files.read("packs/ab/one.pack") == content

    def test_an_empty_file_is_a_file(self, files: Files) -> None:
        files.write("packs/ab/empty", b"")
        assert files.read("packs/ab/empty") == b""
        assert list(files.names("packs")) == [("packs/ab/empty", 0)]

    def test_a_range_ends_where_the_file_does(self, files: Files) -> None:
        files.write("packs/ab/one", b"0123456789")
        assert bytes(files.read_range("packs/ab/one", 2, 3)) == b"234"
        assert bytes(files.read_range("packs/ab/one", 8, 100)) == b"89"
        assert bytes(files.read_range("packs/ab/one", 0, 0)) == b""

    def test_the_end_comes_with_the_size(self, files: Files) -> None:
        files.write("packs/ab/one", b"0123456789")
        assert files.read_end("packs/ab/one", 4) == (b"6789", 10)
        assert files.read_end("packs/ab/one", 400) == (b"0123456789", 10)

    def test_all_files_below_a_folder_are_named(self, files: Files) -> None:
        for name in ("packs/ab/1", "packs/cd/2", "packsother/3"):
            files.write(name, b"xyz")
        assert sorted(files.names("packs")) == [("packs/ab/1", 3), ("packs/cd/2", 3)]
        assert list(files.names("packs/cd")) == [("packs/cd/2", 3)]
        assert list(files.names("packs/none")) == []

    def test_many_files_are_all_named(self, files: Files) -> None:
        names = [f"packs/{i % 7:02x}/{i}" for i in range(1100)]
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda name: files.write(name, b"x"), names))
        assert sorted(name for name, _ in files.names("packs")) == sorted(names)

    def test_what_is_not_there_is_not_found(self, files: Files) -> None:
        for read in (
            lambda: files.read("packs/none"),
            lambda: files.read_range("packs/none", 0, 4),
            lambda: files.read_end("packs/none", 4),
        ):
            with pytest.raises(FileNotFoundError):
                read()

    def test_writing_again_replaces(self, files: Files) -> None:
        files.write("packs/ab/one", b"long content")
        files.write("packs/ab/one", b"short")
        assert files.read("packs/ab/one") == b"short"

    def test_a_name_is_claimed_once(self, files: Files) -> None:
        assert files.claim("refs/a/1", b"first")
        assert not files.claim("refs/a/1", b"second")
        assert files.read("refs/a/1") == b"first"

    def test_a_claim_can_be_repeated(self, files: Files) -> None:
        assert files.claim("refs/a/1", b"first")
        assert files.claim("refs/a/1", b"first")

    def test_one_of_many_claims_wins(self, files: Files) -> None:
        with ThreadPoolExecutor(10) as pool:
            won = list(pool.map(lambda i: files.claim("refs/a/1", b"%d" % i), range(10)))
        assert won.count(True) == 1
        assert files.read("refs/a/1") == b"%d" % won.index(True)

    def test_what_is_removed_is_gone(self, files: Files) -> None:
        files.write("packs/ab/one", b"1")
        files.remove("packs/ab/one")
        files.remove("packs/ab/one")
        with pytest.raises(FileNotFoundError):
            files.read("packs/ab/one")
        assert list(files.names("packs")) == []
