"""Checks for files: the stand-ins of `os.stat` and its like, and what a run's checks tell."""

from __future__ import annotations

import copy
import gc
import inspect
import linecache
import os
import pickle
import posix
import shutil
import subprocess
import sys
import tempfile
import traceback
import types
import zipfile
from collections.abc import Callable, Iterator
from glob import glob
from pathlib import Path
from typing import Any

import pytest

from nbrewind.model.versions import ABSENT, PRESENT, content_version
from nbrewind.state import existence
from nbrewind.state.digests import current_version, listing_version
from nbrewind.state.files import FileReport, FileTracker

Cell = Callable[[], object]
Observe = Callable[[Cell], dict[str, tuple[str | None, str | None]]]
ORIGINALS = {name: getattr(posix, name) for name in existence.REPLACED}


@pytest.fixture
def observe(tracker: FileTracker) -> Observe:
    def run(cell: Cell) -> dict[str, tuple[str | None, str | None]]:
        tracker.begin()
        try:
            cell()
        finally:
            report: FileReport = tracker.end()
        return {access.path: (access.read, access.write) for access in report.accesses}

    return run


@pytest.fixture(params=["idle", "heard"])
def heard(request: pytest.FixtureRequest) -> Iterator[list[tuple[Any, ...]]]:
    """Both with nobody listening and with a listener."""
    calls: list[tuple[Any, ...]] = []

    def listener(event: str, args: tuple[Any, ...]) -> None:
        calls.append((event, *args))

    existence.install()
    if request.param == "heard":
        existence.listen(listener)
    yield calls
    existence.ignore(listener)


def version(text: str) -> str:
    return content_version(text.encode())


# Law L3: the stand-ins look and behave like what they stand for


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("name", existence.REPLACED)
def test_a_stand_in_looks_like_its_original(name: str) -> None:
    ours, original = getattr(os, name), ORIGINALS[name]
    assert ours is not original
    for attribute in ("__name__", "__qualname__", "__module__", "__doc__", "__self__"):
        assert getattr(ours, attribute) == getattr(original, attribute)
    assert repr(ours) == repr(original)
    assert inspect.signature(ours) == inspect.signature(original)
    assert isinstance(ours, types.BuiltinFunctionType)
    assert inspect.isbuiltin(ours)
    assert type(ours).__name__ == type(original).__name__
    for functions in (
        *(os.supports_fd, os.supports_dir_fd),
        *(os.supports_effective_ids, os.supports_follow_symlinks),
    ):
        assert (ours in functions) == (original in functions)
    with pytest.raises(AttributeError):
        ours.attribute = 1


@pytest.mark.usefixtures("heard")
def test_a_stand_in_is_no_method_of_a_class_that_has_it() -> None:
    class Access:
        stat = os.stat

    assert Access().stat("/") == posix.stat("/")


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("name", existence.REPLACED)
def test_a_stand_in_is_copied_and_pickled_as_itself(name: str) -> None:
    ours = getattr(os, name)
    assert pickle.loads(pickle.dumps(ours)) is ours
    assert copy.deepcopy([ours]) == [ours]
    script = f"import pickle, os; assert pickle.loads({pickle.dumps(ours)!r}) is os.{name}"
    subprocess.run([sys.executable, "-c", script], check=True)


def _call(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    try:
        return function(*args, **options)
    except Exception as problem:
        lines = traceback.extract_tb(problem.__traceback__)
        return type(problem), problem.args, vars(problem), len(lines), problem.__context__


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    (("here",), {}),
    ((b"here",), {}),
    ((Path("here"),), {}),
    ((), {"path": "here"}),
    (("link",), {"follow_symlinks": False}),
    (("nothing",), {}),
    (("here/below",), {}),
    (("nul\0",), {}),
    (("here",), {"dir_fd": None}),
    ((0,), {}),
    ((), {}),
    ((1.5,), {}),
    (("here",), {"colour": 1}),
    (("here", os.R_OK), {}),
    (("here",), {"mode": os.X_OK}),
]


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("name", existence.REPLACED)
@pytest.mark.parametrize(("args", "options"), CALLS)
def test_results_errors_and_tracebacks_are_those_of_the_original(
    root: Path, name: str, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    (root / "here").write_text("1")
    (root / "link").symlink_to("here")
    ours = _call(getattr(os, name), args, options)
    assert ours == _call(ORIGINALS[name], args, options)
    assert type(ours) is type(_call(ORIGINALS[name], args, options))


@pytest.mark.usefixtures("heard")
def test_an_error_has_the_context_and_the_frames_it_would_have() -> None:
    class Broken(os.PathLike[str]):
        def __fspath__(self) -> str:
            raise KeyError("broken")

    try:
        raise LookupError
    except LookupError:
        with pytest.raises(FileNotFoundError) as missing:
            os.stat("/nothing/here")
    assert isinstance(missing.value.__context__, LookupError)
    assert existence.__file__ not in str(traceback.extract_tb(missing.value.__traceback__))
    with pytest.raises(KeyError) as broken:
        os.stat(Broken())
    names = [line.name for line in traceback.extract_tb(broken.value.__traceback__)]
    assert names[-1] == "__fspath__"
    assert "check" not in names


@pytest.mark.usefixtures("heard")
def test_failing_checks_leave_no_garbage() -> None:
    os.path.exists("/nothing")
    gc.collect()
    gc.disable()
    try:
        for _ in range(100):
            os.path.exists("/nothing")
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_checks_are_told_and_those_through_descriptors_are_not(root: Path) -> None:
    calls: list[tuple[Any, ...]] = []

    def listener(event: str, args: tuple[Any, ...]) -> None:
        calls.append((event, *args))

    existence.install()
    existence.listen(listener)
    folder = os.open(root, os.O_RDONLY)
    try:
        os.stat(folder)
        os.stat("nothing" if os.path.exists("nothing") else ".", dir_fd=folder)
        os.path.lexists("other")
        os.access(path="third", mode=os.R_OK)
    finally:
        os.close(folder)
        existence.ignore(listener)
    os.path.exists("after")
    assert calls == [("os.stat", "nothing"), ("os.lstat", "other"), ("os.access", "third")]


def test_a_function_that_somebody_else_replaced_is_left_alone() -> None:
    script = (
        "import os, posix\n"
        "os.stat = fake = lambda path: posix.stat('/')\n"
        "from nbrewind.state import existence\n"
        "existence.install(); existence.install()\n"
        "assert os.stat is fake and os.lstat is not posix.lstat\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_failing_listener_never_fails_the_check() -> None:
    def broken(event: str, args: tuple[Any, ...]) -> None:
        raise RuntimeError("broken observer")

    existence.install()
    existence.listen(broken)
    try:
        assert os.path.exists("/")
    finally:
        existence.ignore(broken)


# What a run's checks tell


EXISTENCE: dict[str, Callable[[str], object]] = {
    "exists": os.path.exists,
    "lexists": os.path.lexists,
    "isfile": os.path.isfile,
    "isdir": os.path.isdir,
    "islink": os.path.islink,
    "access": lambda path: os.access(path, os.R_OK),
    "Path.exists": lambda path: Path(path).exists(),
    "Path.is_file": lambda path: Path(path).is_file(),
    "Path.is_dir": lambda path: Path(path).is_dir(),
    "Path.is_symlink": lambda path: Path(path).is_symlink(),
    "glob": glob,
}
CONTENT: dict[str, Callable[[str], object]] = {
    "getsize": os.path.getsize,
    "getmtime": os.path.getmtime,
    "stat": lambda path: os.stat(path),
    "lstat": lambda path: os.lstat(path),
    "Path.stat": lambda path: Path(path).stat(),
}


@pytest.mark.parametrize("check", EXISTENCE.values(), ids=EXISTENCE)
def test_a_check_reads_whether_the_file_is_there(
    root: Path, observe: Observe, check: Callable[[str], object]
) -> None:
    (root / "here").write_text("1")
    assert observe(lambda: (check("here"), check("nothing"))) == {
        "here": (PRESENT, None),
        "nothing": (ABSENT, None),
    }


@pytest.mark.parametrize("look", CONTENT.values(), ids=CONTENT)
def test_sizes_and_times_read_the_content(
    root: Path, observe: Observe, look: Callable[[str], object]
) -> None:
    (root / "here").write_text("1")

    def cell() -> None:
        look("here")
        look(str(root))
        with pytest.raises(FileNotFoundError):
            look("nothing")

    assert observe(cell) == {
        "here": (version("1"), None),
        ".": (PRESENT, None),
        "nothing": (ABSENT, None),
    }


def test_content_wins_over_existence_whichever_comes_first(root: Path, observe: Observe) -> None:
    for name in ("a", "b"):
        (root / name).write_text("1")

    def cell() -> None:
        Path("a").exists()
        Path("a").read_text()
        Path("b").read_text()
        Path("b").exists()

    assert observe(cell) == {"a": (version("1"), None), "b": (version("1"), None)}


def test_a_listing_wins_over_existence(root: Path, observe: Observe) -> None:
    (root / "d").mkdir()
    assert observe(lambda: (os.path.isdir("d"), os.listdir("d"), os.path.isdir("d"))) == {
        "d": (listing_version([]), None)
    }


def test_write_unless_it_exists_reads_absence_and_then_presence(
    root: Path, observe: Observe
) -> None:
    def cell() -> None:
        if not os.path.exists("cache"):
            Path("cache").write_text("1")

    assert observe(cell) == {"cache": (ABSENT, version("1"))}
    assert observe(cell) == {"cache": (PRESENT, None)}


def test_a_file_overwritten_after_a_check_is_not_read(root: Path, observe: Observe) -> None:
    (root / "out").write_text("old")
    assert observe(lambda: Path("out").exists() and Path("out").write_text("new")) == {
        "out": (PRESENT, version("new"))
    }


def test_what_the_run_made_itself_is_no_input(root: Path, observe: Observe) -> None:
    def cell() -> None:
        Path("out").write_text("1")
        assert os.path.getsize("out") == 1
        with tempfile.TemporaryDirectory(dir=root) as folder:
            # What a library written in C writes raises no event.
            subprocess.run(["touch", f"{folder}/x"], check=True)
            assert Path(folder, "x").is_file()
            assert Path(folder, "x").stat().st_size == 0

    assert observe(cell) == {"out": (None, version("1"))}


def test_a_link_is_checked_with_what_it_leads_to(root: Path, observe: Observe) -> None:
    (root / "link").symlink_to("target")
    assert observe(lambda: os.path.exists("link")) == {
        "link": (PRESENT, None),
        "target": (ABSENT, None),
    }
    assert observe(lambda: os.path.islink("link")) == {"link": (PRESENT, None)}
    assert set(observe(lambda: (os.path.islink("link"), os.path.isdir("link")))) == {
        "link",
        "target",
    }


def test_paths_that_cannot_be_looked_at_stay_absent(root: Path, observe: Observe) -> None:
    long = "x" * 300
    assert observe(lambda: (os.path.exists(long), os.path.exists("nul\0"))) == {
        long: (ABSENT, None)
    }
    assert current_version(str(root / long), ABSENT) == ABSENT


def test_machinery_libraries_and_caches_do_not_count(root: Path, observe: Observe) -> None:
    (root / "a").write_text("1")
    (root / "code.py").write_text("x = 1\n")

    def cell() -> None:
        os.path.exists(os.__file__)
        os.path.exists(".nbrewind/x")
        os.path.exists("/proc/self")
        Path.home().joinpath(".cache/x").exists()
        linecache.getline(str(root / "code.py"), 1)
        linecache.checkcache()
        inspect.getsourcefile(cell)
        shutil.copy("a", "b")
        os.path.realpath("a/../b")
        Path("b").resolve()
        os.makedirs("d/e", exist_ok=True)

    assert observe(cell) == {
        "a": (version("1"), None),
        "b": (None, version("1")),
        "d": (None, PRESENT),
        "d/e": (None, PRESENT),
    }


def test_a_librarys_checks_count_inside_the_folder_only(
    root: Path, tmp_path: Path, observe: Observe
) -> None:
    (tmp_path / "outside").write_text("1")
    (root / "inside").write_text("1")

    def library(path: Path) -> bool:
        space: dict[str, Any] = {"os": os, "__name__": "zipfile"}
        exec(compile("def ask(path): return os.path.exists(path)", zipfile.__file__, "exec"), space)
        return bool(space["ask"](path))

    assert observe(lambda: (library(tmp_path / "outside"), library(root / "inside"))) == {
        "inside": (PRESENT, None)
    }
    assert observe(lambda: os.path.exists(tmp_path / "outside")) == {
        str(tmp_path / "outside"): (PRESENT, None)
    }
