"""Notebook files are replaced in one step or left alone."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import nbformat
import pytest

from nbrewind.errors import NotebookError
from nbrewind_kernels.notebooks import (
    cell_policy,
    first_line,
    read_notebook,
    replace_file,
    write_notebook,
)


def test_writing_keeps_permissions_and_leaves_no_temporary_file(write, tmp_path: Path) -> None:
    path = write("1")
    path.chmod(0o640)
    file = read_notebook(path)
    file.nb.cells[0].source = "2"
    assert write_notebook(file) == path
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["nb.ipynb"]
    assert nbformat.read(path, 4).cells[0].source == "2"


def test_a_link_to_a_notebook_stays_a_link(write, tmp_path: Path) -> None:
    path = write("1")
    link = tmp_path / "link.ipynb"
    link.symlink_to(path.name)
    file = read_notebook(link)
    file.nb.cells[0].source = "2"
    write_notebook(file)
    assert link.is_symlink()
    assert nbformat.read(path, 4).cells[0].source == "2"


def test_a_failed_write_leaves_the_former_file(write, tmp_path: Path, monkeypatch) -> None:
    path = write("1")
    before = path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    file = read_notebook(path)
    file.nb.cells[0].source = "2"
    with pytest.raises(NotebookError, match="No space left"):
        write_notebook(file)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["nb.ipynb"]


def test_an_edit_made_meanwhile_is_not_overwritten(write, tmp_path: Path) -> None:
    path = write("1")
    file = read_notebook(path)
    write("edited meanwhile")
    edited = path.read_bytes()
    file.nb.cells[0].source = "2"
    other = write_notebook(file)
    assert path.read_bytes() == edited
    assert other == tmp_path / "nb.nbrewind.ipynb"
    assert nbformat.read(other, 4).cells[0].source == "2"
    assert any("changed while it ran" in note for note in file.notes)


def test_an_unchanged_notebook_is_not_written_again(write) -> None:
    path = write("1")
    file = read_notebook(path)
    write_notebook(file)
    before = path.stat()
    write_notebook(file)
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def test_older_formats_are_upgraded_and_minor_ones_kept(tmp_path: Path) -> None:
    three = nbformat.v3.new_notebook(
        worksheets=[nbformat.v3.new_worksheet(cells=[nbformat.v3.new_code_cell("x = 1")])]
    )
    path = tmp_path / "three.ipynb"
    path.write_text(nbformat.v3.writes_json(three))
    file = read_notebook(path)
    assert file.nb.cells[0].source == "x = 1"
    assert any("format 3" in note for note in file.notes)
    four = {
        "nbformat": 4,
        "nbformat_minor": 2,
        "metadata": {},
        "cells": [
            {
                "cell_type": "code",
                "source": ["x\n", "y"],
                "metadata": {},
                "outputs": [],
                "execution_count": None,
            }
        ],
    }
    path.write_text(json.dumps(four))
    file = read_notebook(path)
    assert file.nb.cells[0].source == "x\ny"
    assert "id" not in file.nb.cells[0]
    assert file.nb.nbformat_minor == 2


def test_cells_without_or_with_equal_ids_get_ids(write) -> None:
    path = write("1", "2", "3")
    content = json.loads(path.read_text())
    content["cells"][1]["id"] = content["cells"][0]["id"]
    del content["cells"][2]["id"]
    path.write_text(json.dumps(content))
    ids = [cell.id for _, cell in read_notebook(path).code_cells()]
    assert len(set(ids)) == 3


def test_lone_surrogates_in_outputs_do_not_break_the_file(write) -> None:
    path = write("1")
    file = read_notebook(path)
    file.nb.cells[0].outputs = [nbformat.v4.new_output("stream", text="a\ud800b")]
    write_notebook(file)
    assert read_notebook(path).nb.cells[0].outputs[0].text == "a\ud800b"


def test_replace_file_gives_new_files_the_usual_permissions(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("")
    replace_file(tmp_path / "new", b"x")
    assert (tmp_path / "new").stat().st_mode == plain.stat().st_mode


@pytest.mark.parametrize(
    ("source", "metadata", "policy"),
    [
        ("x = 1", {}, "auto"),
        ("# nbrewind: never\nx = 1", {}, "never"),
        ("#nbrewind:always", {}, "always"),
        ("# nbrewind: nonsense", {}, "auto"),
        ("x = 1\n# nbrewind: never", {}, "auto"),
        ("# nbrewind: never", {"nbrewind": {"cache": "always"}}, "always"),
        ("x", {"nbrewind": {"cache": "maybe"}}, "auto"),
        ("x", {"nbrewind": "broken"}, "auto"),
    ],
)
def test_policy_of_a_cell(source: str, metadata: dict[str, object], policy: str) -> None:
    assert cell_policy(source, metadata) == policy


def test_a_cell_is_named_by_its_first_line_of_code() -> None:
    assert first_line("\n# load\n  df = load()\nprint(df)") == "df = load()"
    assert first_line("# only a comment\n") == "# only a comment"
    assert first_line("  ") == ""
