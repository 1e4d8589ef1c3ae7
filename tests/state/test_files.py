"""What a run did to files, as its audit events tell it."""

from __future__ import annotations

import io
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from nbrewind.model.versions import ABSENT, PRESENT, content_version
from nbrewind.state import audit
from nbrewind.state.digests import current_version, digest_file, listing_version
from nbrewind.state.files import FileReport, FileTracker

Observe = Callable[[Callable[[], object]], FileReport]


@pytest.fixture
def observe(tracker: FileTracker) -> Observe:
    def run(cell: Callable[[], object]) -> FileReport:
        tracker.begin()
        try:
            cell()
        finally:
            report = tracker.end()
        return report

    return run


def by_path(report: FileReport) -> dict[str, tuple[str | None, str | None]]:
    return {access.path: (access.read, access.write) for access in report.accesses}


def version(text: str) -> str:
    return content_version(text.encode())


# Reads and writes


def test_file_that_is_only_read_has_its_content_as_read_version(
    root: Path, observe: Observe
) -> None:
    (root / "in.csv").write_text("1,2")
    report = observe(Path("in.csv").read_text)
    assert by_path(report) == {"in.csv": (version("1,2"), None)}
    assert report.flags == set()


def test_file_that_is_only_written_is_no_read(root: Path, observe: Observe) -> None:
    (root / "out.csv").write_text("old")
    report = observe(lambda: Path("out.csv").write_text("new"))
    assert by_path(report) == {"out.csv": (None, version("new"))}


def test_file_read_and_then_rewritten_has_both_versions(root: Path, observe: Observe) -> None:
    (root / "n").write_text("1")

    def cell() -> None:
        count = int(Path("n").read_text())
        Path("n").write_text(str(count + 1))

    assert by_path(observe(cell)) == {"n": (version("1"), version("2"))}


def test_file_written_and_then_read_back_is_no_read(root: Path, observe: Observe) -> None:
    (root / "n").write_text("old")

    def cell() -> None:
        Path("n").write_text("new")
        Path("n").read_text()

    assert by_path(observe(cell)) == {"n": (None, version("new"))}


@pytest.mark.parametrize("mode", ["a", "r+"])
def test_append_and_update_read_what_was_there(root: Path, observe: Observe, mode: str) -> None:
    (root / "log").write_text("one")

    def cell() -> None:
        with open("log", mode) as file:
            file.seek(0, io.SEEK_END)
            file.write("two")

    assert by_path(observe(cell)) == {"log": (version("one"), version("onetwo"))}


def test_append_to_a_missing_file_reads_its_absence(observe: Observe) -> None:
    def cell() -> None:
        with open("log", "a") as file:
            file.write("x")

    assert by_path(observe(cell)) == {"log": (ABSENT, version("x"))}


def test_opened_for_update_without_a_change_is_only_a_read(root: Path, observe: Observe) -> None:
    (root / "db").write_text("same")
    assert by_path(observe(lambda: open("db", "r+").close())) == {"db": (version("same"), None)}


def test_looking_for_a_missing_file_is_a_read_of_its_absence(observe: Observe) -> None:
    def cell() -> None:
        with pytest.raises(FileNotFoundError):
            Path("cache.pkl").read_bytes()

    assert by_path(observe(cell)) == {"cache.pkl": (ABSENT, None)}


def test_made_after_looking_in_vain_has_absence_read_and_content_written(
    observe: Observe,
) -> None:
    def cell() -> None:
        try:
            Path("cache").read_bytes()
        except FileNotFoundError:
            Path("cache").write_text("v")

    assert by_path(observe(cell)) == {"cache": (ABSENT, version("v"))}


def test_exclusive_creation_depends_on_absence(root: Path, observe: Observe) -> None:
    assert by_path(observe(lambda: Path("x").open("x").close())) == {"x": (ABSENT, version(""))}

    def again() -> None:
        with pytest.raises(FileExistsError):
            Path("x").touch(exist_ok=False)

    assert by_path(observe(again)) == {"x": (PRESENT, None)}


def test_low_level_open_is_seen(root: Path, observe: Observe) -> None:
    (root / "raw").write_bytes(b"abc")

    def cell() -> None:
        number = os.open("raw", os.O_RDWR)
        os.write(number, b"X")
        os.close(number)

    assert by_path(observe(cell)) == {"raw": (version("abc"), version("Xbc"))}


def test_truncate_and_permission_changes_are_writes(root: Path, observe: Observe) -> None:
    (root / "t").write_text("abcdef")
    assert by_path(observe(lambda: os.truncate("t", 2))) == {
        "t": (version("abcdef"), version("ab"))
    }
    report = observe(lambda: os.chmod("t", 0o755))
    assert by_path(report) == {"t": (version("ab"), version("ab"))}
    assert report.accesses[0].mode == 0o755


def test_a_file_left_open_is_still_seen_by_the_next_run(root: Path, observe: Observe) -> None:
    held = []

    def first() -> None:
        held.append(io.TextIOWrapper(io.FileIO("log", "w"), write_through=True))
        held[0].write("one\n")

    assert by_path(observe(first)) == {"log": (None, version("one\n"))}
    second = observe(lambda: held[0].write("two\n"))
    assert by_path(second) == {"log": (version("one\n"), version("one\ntwo\n"))}
    held[0].close()
    assert by_path(observe(lambda: None)) == {}
    assert by_path(observe(lambda: None)) == {}


def test_sqlite_database_is_read_and_written(root: Path, observe: Observe) -> None:
    def write() -> None:
        with sqlite3.connect("d.sqlite") as connection:
            connection.execute("create table t(x)")
        connection.close()

    def read() -> None:
        connection = sqlite3.connect("d.sqlite")
        connection.execute("select * from t").fetchall()
        connection.close()

    written = by_path(observe(write))
    content = digest_file(str(root / "d.sqlite"))
    assert written == {"d.sqlite": (ABSENT, content)}
    assert by_path(observe(read)) == {"d.sqlite": (content, None)}
    assert by_path(observe(lambda: sqlite3.connect(":memory:").close())) == {}


def test_what_another_program_changes_while_it_is_read_is_not_trusted(
    root: Path, observe: Observe
) -> None:
    (root / "feed").write_text("1")

    def cell() -> None:
        Path("feed").read_text()
        subprocess_free_write(root / "feed")

    assert "untracked" in observe(cell).flags
    assert observe(Path("feed").read_text).flags == set()


def subprocess_free_write(path: Path) -> None:
    """Write as another program would: unheard by audit hooks of ours."""
    with audit.unheard():
        path.write_text("longer")


# Removing, renaming, folders


def test_removal_is_an_existence_read_and_a_write_of_absence(root: Path, observe: Observe) -> None:
    (root / "x").write_text("1")
    assert by_path(observe(lambda: os.remove("x"))) == {"x": (PRESENT, ABSENT)}


def test_removal_after_reading_keeps_the_content_read(root: Path, observe: Observe) -> None:
    (root / "x").write_text("1")

    def cell() -> None:
        Path("x").read_text()
        Path("x").unlink()

    assert by_path(observe(cell)) == {"x": (version("1"), ABSENT)}


def test_temporary_files_and_folders_vanish(root: Path, observe: Observe) -> None:
    def cell() -> None:
        with tempfile.TemporaryDirectory(dir=root) as folder:
            Path(folder, "a").write_text("1")
        with tempfile.NamedTemporaryFile(dir=root) as file:
            file.write(b"2")
        with tempfile.TemporaryFile(dir=root) as file:
            file.write(b"3")

    assert by_path(observe(cell)) == {}


def test_write_then_rename_is_one_written_file(root: Path, observe: Observe) -> None:
    (root / "model").write_text("old")

    def cell() -> None:
        Path("model.tmp").write_text("new")
        os.replace("model.tmp", "model")

    assert by_path(observe(cell)) == {"model": (None, version("new"))}


def test_rename_reads_the_source_and_removes_it(root: Path, observe: Observe) -> None:
    (root / "a").write_text("1")
    assert by_path(observe(lambda: os.rename("a", "b"))) == {
        "a": (version("1"), ABSENT),
        "b": (None, version("1")),
    }


def test_rename_of_a_folder_moves_everything_in_it(root: Path, observe: Observe) -> None:
    (root / "d/e").mkdir(parents=True)
    (root / "d/e/f").write_text("1")
    report = by_path(observe(lambda: os.rename("d", "n")))
    assert report["d/e/f"] == (version("1"), ABSENT)
    assert report["n/e/f"] == (None, version("1"))
    assert report["d"][1] == ABSENT
    assert report["n"] == (ABSENT, PRESENT)


def test_making_a_folder_depends_on_its_absence(root: Path, observe: Observe) -> None:
    report = observe(lambda: os.mkdir("out"))
    assert by_path(report) == {"out": (ABSENT, PRESENT)}
    assert all(access.directory for access in report.accesses)


@pytest.mark.parametrize(
    "make",
    [
        lambda: os.makedirs("out/plots", exist_ok=True),
        lambda: Path("out/plots").mkdir(parents=True, exist_ok=True),
    ],
)
def test_making_a_folder_unless_it_is_there_depends_on_nothing(
    make: Callable[[], object], root: Path, observe: Observe
) -> None:
    made = by_path(observe(make))
    assert made["out/plots"] == (None, PRESENT)
    assert by_path(observe(make))["out/plots"] == (None, PRESENT)
    (root / "file").touch()
    with pytest.raises(FileExistsError):
        observe(lambda: os.makedirs("file", exist_ok=True))


def test_removing_a_file_if_it_is_there_depends_on_nothing(root: Path, observe: Observe) -> None:
    (root / "x").touch()
    for _ in range(2):
        assert by_path(observe(lambda: Path("x").unlink(missing_ok=True))) == {"x": (None, ABSENT)}

    def renewed() -> None:
        Path("x").unlink(missing_ok=True)
        Path("x").write_text("1")

    assert by_path(observe(renewed)) == {"x": (None, version("1"))}


def test_rmtree_removes_every_file_it_found(root: Path, observe: Observe) -> None:
    (root / "d/e").mkdir(parents=True)
    (root / "d/e/f").write_text("1")
    report = by_path(observe(lambda: shutil.rmtree("d")))
    assert report["d/e/f"] == (PRESENT, ABSENT)
    assert report["d"] == (listing_version(["e"]), ABSENT)
    assert set(report) == {"d", "d/e", "d/e/f"}


def test_listing_is_read_as_it_was_before_the_run(root: Path, observe: Observe) -> None:
    for name in ("a.csv", "b.csv"):
        (root / name).write_text(name)
    (root / ".nbrewind").mkdir()

    def cell() -> None:
        Path("c.csv").write_text("3")
        os.remove("a.csv")
        list(Path().glob("*.csv"))

    before = listing_version(["a.csv", "b.csv"])
    assert by_path(observe(cell))["."] == (before, None)
    assert by_path(observe(lambda: os.listdir()))["."] == (
        listing_version(["b.csv", "c.csv"]),
        None,
    )
    assert current_version(str(root)) == listing_version(["b.csv", "c.csv"])


def test_copies_read_the_source_and_write_the_target(root: Path, observe: Observe) -> None:
    (root / "a").write_text("1")
    report = by_path(observe(lambda: shutil.copy("a", "b")))
    assert report == {"a": (version("1"), None), "b": (None, version("1"))}


def test_links_carry_the_content_of_their_target(root: Path, observe: Observe) -> None:
    (root / "a").write_text("1")
    report = observe(lambda: os.symlink("a", "l"))
    assert by_path(report) == {"a": (version("1"), None), "l": (ABSENT, version("1"))}
    assert report.flags == set()
    (root / "d").mkdir()
    report = observe(lambda: os.symlink("d", "k"))
    assert (report.accesses[0].write, report.accesses[0].link) == (PRESENT, "d")
    assert not report.accesses[0].directory
    assert report.flags == set()
    assert observe(lambda: os.symlink("nowhere", "n")).flags == {"untracked"}


# What does not count


def test_store_caches_and_libraries_are_not_reported(root: Path, observe: Observe) -> None:
    (root / ".nbrewind").mkdir()
    (root / "__pycache__").mkdir()

    def cell() -> None:
        Path(".nbrewind/x").write_text("1")
        Path("__pycache__/m.cpython-311.pyc").write_text("1")
        Path(os.__file__).read_text()
        open("/dev/null", "w").close()
        os.makedirs(Path.home() / ".cache", exist_ok=True)
        os.listdir("/proc/self")

    report = observe(cell)
    assert by_path(report) == {}
    assert report.flags == set()


def test_imports_neither_list_the_folder_nor_read_sources(
    root: Path, observe: Observe, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "localmod_files.py").write_text("x = 1")
    monkeypatch.setattr(sys, "path", ["", *sys.path])

    def cell() -> None:
        import localmod_files  # type: ignore[import-not-found]  # noqa: F401

        with pytest.raises(ImportError):
            import no_such_module_anywhere  # type: ignore[import-not-found]  # noqa: F401

    try:
        assert by_path(observe(cell)) == {}
    finally:
        sys.modules.pop("localmod_files", None)
    assert by_path(observe(Path("localmod_files.py").read_text)) == {
        "localmod_files.py": (version("x = 1"), None)
    }


def test_kernel_threads_do_not_count_but_workers_of_the_notebook_do(
    root: Path, observe: Observe
) -> None:
    def in_thread(name: str) -> None:
        thread = threading.Thread(target=Path(name).write_text, args=("1",), name=name)
        thread.start()
        thread.join()

    assert by_path(observe(lambda: in_thread("IOPub"))) == {}
    assert by_path(observe(lambda: in_thread("worker"))) == {"worker": (None, version("1"))}


def test_nothing_is_noted_outside_begin_and_end(root: Path, tracker: FileTracker) -> None:
    tracker.begin()
    tracker.end()
    Path("x").write_text("1")
    assert tracker.end().accesses == []


def test_a_failing_listener_never_fails_the_operation(root: Path) -> None:
    def broken(event: str, args: tuple[object, ...]) -> None:
        raise RuntimeError("broken observer")

    audit.listen(["open"], broken)
    try:
        Path("x").write_text("1")
    finally:
        audit.ignore(["open"], broken)
    assert Path("x").read_text() == "1"


# Flags


def test_processes_and_network_raise_flags(observe: Observe) -> None:
    def process() -> None:
        subprocess.run([sys.executable, "-c", ""], check=True)

    def network() -> None:
        with socket.socket() as server, socket.socket() as client:
            server.bind(("127.0.0.1", 0))
            server.listen()
            client.connect(server.getsockname())

    def local() -> None:
        left, right = socket.socketpair()
        left.close()
        right.close()

    assert observe(process).flags == {"process"}
    assert observe(lambda: os.system("true")).flags == {"process"}
    assert observe(network).flags == {"network"}
    assert observe(local).flags == set()


def test_writing_outside_the_folder_raises_a_flag_even_through_a_link(
    root: Path, tmp_path: Path, observe: Observe
) -> None:
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    report = observe(lambda: (outside / "x").write_text("1"))
    assert by_path(report) == {str(outside / "x"): (None, version("1"))}
    assert report.flags == {"external-write"}
    (root / "data").symlink_to(outside)
    report = observe(lambda: Path("data/y").write_text("1"))
    assert set(by_path(report)) == {"data/y"}
    assert report.flags == {"external-write"}
    assert observe(lambda: (outside / "x").read_text()).flags == set()


def test_a_fault_while_following_is_never_taken_for_nothing(
    observe: Observe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("nbrewind.state.files.touches", broken)
    assert observe(lambda: Path("x").write_text("1")).flags == {"untracked"}
