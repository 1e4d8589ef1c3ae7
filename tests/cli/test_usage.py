"""Requests that cannot be understood end with code 2 and one clear line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["audit"], "NOTEBOOK"),
        (["audit", "missing.ipynb"], "missing.ipynb: no such file"),
        (["replay", "missing.ipynb", "--env", "perhaps"], "--env"),
        (["replay", "."], "is a folder"),
        (["audit", "text.ipynb"], "not a notebook"),
        (["audit", "empty.ipynb"], "is empty"),
        (["audit", "other.ipynb"], "not a notebook"),
        (["audit", "future.ipynb"], "newer"),
        (["audit", "julia.ipynb"], "julia"),
        (["audit", "damaged.ipynb"], "damaged"),
        (["audit", "good.ipynb", "-p", "x"], "NAME=VALUE"),
        (["audit", "good.ipynb", "-p", "2x=1"], "2x"),
        (["audit", "good.ipynb", "-p", "class=1"], "class"),
        (["audit", "good.ipynb", "-o", "nowhere/out.ipynb"], "does not exist"),
        (["audit", "good.ipynb", "--json", "nowhere/report.json"], "--json"),
        (["audit", "good.ipynb", "--unknown"], "--unknown"),
        (["graph", "good.ipynb", "--format", "png"], "--format"),
        (["status", "text.ipynb"], "not a notebook"),
        (["kernel", "install", "--user", "--prefix", "x"], "choose one"),
        (["kernel", "install", "--prefix", "x", "--env", "A"], "NAME=VALUE"),
        (["nonsense"], "nonsense"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_usage_errors_exit_2_with_one_clear_line(
    nbrewind, write, tmp_path: Path, arguments: list[str], says: str
) -> None:
    write("1", name="good.ipynb")
    (tmp_path / "text.ipynb").write_text("hello")
    (tmp_path / "empty.ipynb").write_text("")
    (tmp_path / "other.ipynb").write_text('{"a": 1}')
    (tmp_path / "future.ipynb").write_text('{"nbformat": 5, "nbformat_minor": 0, "cells": []}')
    (tmp_path / "damaged.ipynb").write_text('{"nbformat": 4, "nbformat_minor": 5, "cells": [{}]}')
    julia = json.loads((tmp_path / "good.ipynb").read_text())
    julia["metadata"]["kernelspec"] = {"name": "julia-1.9", "language": "julia"}
    (tmp_path / "julia.ipynb").write_text(json.dumps(julia))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    ran = nbrewind(*arguments)
    assert ran.returncode == 2, ran
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_debug_shows_the_traceback(nbrewind) -> None:
    assert "Traceback" in nbrewind("--debug", "audit", "missing.ipynb").stderr
    assert "Traceback" in nbrewind("audit", "missing.ipynb", NBREWIND_DEBUG="1").stderr


def test_looking_into_a_store_that_is_not_there_creates_none(
    nbrewind, write, tmp_path: Path
) -> None:
    notebook = write("1")
    for arguments in (["log", notebook], ["store", "info"], ["show", "ab"], ["graph", notebook]):
        ran = nbrewind(*arguments)
        assert ran.returncode == 1, ran
        assert "nbrewind: " in ran.stderr
        assert "Traceback" not in ran.stderr
    assert not (tmp_path / ".nbrewind").exists()


def test_status_without_a_store_says_that_nothing_ever_ran(nbrewind, write) -> None:
    ran = nbrewind("status", write("x = 1", "", "x"), "--json", "-")
    assert ran.returncode == 0, ran
    report = json.loads(ran.stdout)
    assert [cell["status"] for cell in report["cells"]] == ["would-run", "would-run"]
    assert [cell["index"] for cell in report["cells"]] == [0, 2]
    assert report["would_run"] == 2
