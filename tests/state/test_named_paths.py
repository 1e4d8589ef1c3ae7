"""Paths that a cell names, as itself or through what it reads."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from nbrewind.state.named_paths import Named, named


def find(folder: Path, *texts: str, values: tuple[Any, ...] = ()) -> Named:
    return named(texts, [], [], values, str(folder))


def test_texts_and_values_name_files_and_what_is_in_folders(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()

    def read() -> str:
        return open("f.csv").read()

    config = types.SimpleNamespace(place="/far/g.h5")
    values = ({"k": [Path("h")]}, config, read, 3, [1, 2])
    found = find(tmp_path, "a.csv", "d", "http://x", " ", values=values)
    for name in ("a.csv", "d/x/y", "h", "f.csv", "/far/g.h5", "a.csv-journal", "a.idx"):
        assert found.names(str(tmp_path / name)), name
    for name in ("b.csv", "x", "e/a"):
        assert not found.names(str(tmp_path / name)), name


@pytest.mark.parametrize(
    ("text", "path"),
    [("_out.h5", "x_out.h5"), ("model_", "model_3.bin"), ("out/", "out/3"), (".png", "3.png")],
)
def test_parts_of_paths_name_what_is_put_together(text: str, path: str, tmp_path: Path) -> None:
    assert find(tmp_path, text).names(str(tmp_path / path))


def test_patterns_name_the_folders_that_they_list(tmp_path: Path) -> None:
    assert find(tmp_path, "d/*.csv").lists(str(tmp_path / "d"))
    assert find(tmp_path, "*.csv").lists(str(tmp_path))
    assert not find(tmp_path, "d/*.csv").lists(str(tmp_path))
    assert not find(tmp_path, "a.csv", ".").lists(str(tmp_path))


def test_code_of_classes_and_local_modules_names_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keeping.py").write_text(
        "PLACE = 'far/a.h5'\ndef save(): return 'b.h5'\n"
        "class Store:\n    @staticmethod\n    def get(): return 'c.h5'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    keeping = importlib.import_module("keeping")

    class Mine:
        __module__ = "__main__"

        def read(self) -> str:
            return "d.h5"

    try:
        for value in (keeping, keeping.save, keeping.Store):
            found = find(tmp_path, values=(value,))
            assert all(found.names(str(tmp_path / n)) for n in ("far/a.h5", "b.h5", "c.h5"))
        assert find(tmp_path, values=(Mine,)).names(str(tmp_path / "d.h5"))
    finally:
        del sys.modules["keeping"]


def test_nothing_of_a_foreign_object_is_looked_at(tmp_path: Path) -> None:
    class Proxy:
        __module__ = "library"

        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(name)

    assert find(tmp_path, values=(Proxy(),)) == find(tmp_path)


def test_modes_that_append_or_update_are_found_in_functions_too(tmp_path: Path) -> None:
    def appends(path: str) -> None:
        open(path, "a").close()

    def writes(path: str) -> None:
        open(path, "w").close()

    assert find(tmp_path, values=(appends,)).updates
    assert not find(tmp_path, values=(writes,)).updates
    assert named([], ["r+"], [], [], str(tmp_path)).updates
