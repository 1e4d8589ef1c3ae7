"""Watching imports: callbacks, and no trace of them in what user code can see."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nbrewind.state.import_watch import ImportWatch


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("nbr_"):
            del sys.modules[name]


def test_watched_imports_leave_no_trace(modules: Path) -> None:
    (modules / "nbr_plain.py").write_text("loader = __loader__\nspec = __spec__")
    (modules / "nbr_watched.py").write_text("loader = __loader__\nspec = __spec__")
    told: list[str] = []
    watch = ImportWatch(modules)
    finders = list(sys.meta_path)
    try:
        watch.after(["nbr_watched"], told.append)
        plain: Any = __import__("nbr_plain")
        watched: Any = __import__("nbr_watched")
    finally:
        watch.close()
    assert told == ["nbr_watched"]
    assert sys.meta_path == finders
    assert type(watched.loader) is type(plain.loader)
    assert watched.__spec__ is watched.spec
    assert watched.__loader__ is watched.loader is watched.spec.loader
    assert "exec_module" not in vars(watched.loader)
    assert sorted(vars(plain)) == sorted(vars(watched))


def test_a_failing_import_shows_the_traceback_it_always_showed(modules: Path) -> None:
    (modules / "nbr_outer.py").write_text("import nbr_inner")
    (modules / "nbr_inner.py").write_text("1 / 0")
    (modules / "nbr_missing.py").write_text("import nbr_nowhere")

    def frames(name: str) -> list[str]:
        try:
            __import__(name)
        except Exception:
            return traceback.format_exc().splitlines()
        return []

    plain = [frames("nbr_outer"), frames("nbr_missing"), frames("nbr_none")]
    watch = ImportWatch(modules)
    try:
        watch.after(["nbr_inner", "nbr_missing"], lambda name: None)
        watch.around(lambda: None, lambda _: None, libraries_only=False)
        assert [frames("nbr_outer"), frames("nbr_missing"), frames("nbr_none")] == plain
    finally:
        watch.close()
    assert "nbr_outer" not in sys.modules


def test_two_sessions_can_watch_the_same_import(modules: Path) -> None:
    (modules / "nbr_shared.py").write_text("")
    told: list[str] = []
    watches = [ImportWatch(modules), ImportWatch(modules)]
    try:
        for watch in watches:
            watch.after(["nbr_shared"], told.append)
        __import__("nbr_shared")
    finally:
        for watch in watches:
            watch.close()
    assert told == ["nbr_shared", "nbr_shared"]


def test_a_failing_callback_does_not_fail_the_import(modules: Path) -> None:
    (modules / "nbr_unlucky.py").write_text("x = 1")

    def broken(name: str) -> None:
        raise RuntimeError("broken")

    watch = ImportWatch(modules)
    try:
        watch.after(["nbr_unlucky"], broken)
        module: Any = __import__("nbr_unlucky")
    finally:
        watch.close()
    assert module.x == 1
