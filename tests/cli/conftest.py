"""Notebooks on disk and the command as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

WriteNotebook = Callable[..., Path]
Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def write(tmp_path: Path) -> WriteNotebook:
    """Write a notebook of code cells `c0`, `c1`, …; a cell is a source or (source, tags)."""

    def write_notebook(*cells: str | tuple[str, list[str]], name: str = "nb.ipynb") -> Path:
        made = []
        for index, cell in enumerate(cells):
            source, tags = (cell, []) if isinstance(cell, str) else cell
            metadata = {"tags": tags} if tags else {}
            made.append(new_code_cell(source, id=f"c{index}", metadata=metadata))
        path = tmp_path / name
        nbformat.write(new_notebook(cells=made), path)
        return path

    return write_notebook


@pytest.fixture
def nbrewind(tmp_path: Path) -> Command:
    """Run the command in the test's folder."""

    def run(*arguments: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "nbrewind", *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=240,
        )

    return run
