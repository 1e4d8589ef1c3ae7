"""What is seen of a folder's files, whoever uses them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbrewind.state import folder_watch
from nbrewind.state.folder_watch import FolderWatch, Traffic

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "data/deep").mkdir(parents=True)
    (folder / "old").write_text("1")
    (folder / "data/deep/x").write_text("1")
    return folder


@pytest.fixture
def watch(root: Path) -> Iterator[FolderWatch]:
    watch = FolderWatch(str(root), lambda path: "/ignored" in path)
    watch.begin()
    yield watch
    watch.close()


def shell(text: str, root: Path) -> None:
    subprocess.run(["sh", "-c", text], cwd=root, check=True, stdout=subprocess.DEVNULL)


def seen(watch: FolderWatch, root: Path) -> dict[str, Traffic]:
    traffic, complete = watch.end()
    assert complete
    return {os.path.relpath(path, root): one for path, one in traffic.items()}


def test_readers_and_writers_are_told_apart(watch: FolderWatch, root: Path) -> None:
    shell("cat data/deep/x; echo 2 > old; echo 3 > new; ls data", root)
    traffic = seen(watch, root)
    assert traffic["data/deep/x"].accessed
    assert not traffic["data/deep/x"].changed
    assert traffic["old"].changed
    assert not traffic["old"].created
    assert traffic["new"].created
    assert traffic["data"].folder
    assert traffic["data"].opened
    assert seen(watch, root) == {}


def test_what_is_read_before_it_is_changed_counts_as_read(watch: FolderWatch, root: Path) -> None:
    shell("sort old -o old; cat data/deep/x > n; cat n > /dev/null", root)
    traffic = seen(watch, root)
    assert traffic["old"].accessed
    assert traffic["old"].changed
    assert not traffic["n"].accessed


def test_a_folder_made_by_the_run_is_seen_with_all_that_is_in_it(
    watch: FolderWatch, root: Path
) -> None:
    shell("mkdir -p a/b; echo 1 > a/b/c", root)
    assert seen(watch, root)["a/b/c"].created
    shell("cat a/b/c", root)  # and is watched from now on
    assert seen(watch, root)["a/b/c"].opened


def test_a_folder_that_was_moved_is_watched_under_its_new_name(
    watch: FolderWatch, root: Path
) -> None:
    shell("mv data other", root)
    traffic = seen(watch, root)
    assert traffic["other/deep/x"].source == str(root / "data/deep/x")
    assert traffic["data/deep/x"].changed
    shell("cat other/deep/x", root)
    assert "other/deep/x" in seen(watch, root)
    shell("mv other ..", root)
    seen(watch, root)
    shell("cat ../other/deep/x", root)
    assert seen(watch, root) == {}


def test_links_out_of_the_folder_are_followed(tmp_path: Path, root: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "y").write_text("1")
    (root / "link").symlink_to(outside)
    (root / "file").symlink_to(outside / "y")
    watch = FolderWatch(str(root), lambda path: False)
    watch.begin()
    shell("cat link/y", root)
    assert {"link/y", "file"} & set(seen(watch, root))
    watch.close()


def test_folders_of_tools_and_ignored_ones_are_not_watched(tmp_path: Path, root: Path) -> None:
    (root / ".git").mkdir()
    (root / "venv").mkdir()
    (root / "venv/pyvenv.cfg").touch()
    (root / "ignored").mkdir()
    watch = FolderWatch(str(root), lambda path: "/ignored" in path)
    watch.begin()
    shell("echo 1 > .git/x; echo 1 > venv/x; echo 1 > ignored/x", root)
    assert not any(name.endswith("x") for name in seen(watch, root))
    watch.close()


def test_what_is_read_by_us_is_left_out(watch: FolderWatch, root: Path) -> None:
    with watch.ours():
        (root / "old").read_text()
        (root / "made").mkdir()
    traffic = seen(watch, root)
    assert "old" not in traffic
    assert traffic["made"].created


def test_more_events_than_the_kernel_keeps_are_taken_in_time(
    watch: FolderWatch, root: Path
) -> None:
    code = "for i in range(30000): open('old').close(); open('data/deep/x').close()"
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)
    assert set(seen(watch, root)) >= {"old", "data/deep/x"}


def test_lost_events_are_admitted(watch: FolderWatch, root: Path) -> None:
    assert watch._queue is not None
    with watch._queue._lock:  # nobody can take them
        for _ in range(10_000):
            (root / "old").read_text()
            (root / "data/deep/x").read_text()
    shell("mkdir late", root)
    assert watch.end()[1] is False
    shell("echo 1 > late/x", root)
    assert "late/x" in seen(watch, root)


def test_too_many_folders_are_a_fault(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_watch, "MOST_FOLDERS", 2)
    watch = FolderWatch(str(root), lambda path: False)
    assert "too many" in watch.fault
    watch.close()


def test_without_inotify_there_is_a_fault_and_nothing_is_seen(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OSError("no")

    monkeypatch.setattr(folder_watch, "Inotify", refuse)
    watch = FolderWatch(str(root), lambda path: False)
    watch.begin()
    assert "cannot be watched" in watch.fault
    assert watch.end() == ({}, False)
    watch.close()


def test_nobody_sees_the_thread_and_closing_twice_is_harmless(root: Path) -> None:
    before = threading.enumerate()
    watch = FolderWatch(str(root), lambda path: False)
    assert threading.enumerate() == before
    watch.close()
    watch.close()
    assert watch.end() == ({}, False)
