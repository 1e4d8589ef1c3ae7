"""The pages of the documentation, and running what they say.

A page is run in a folder of its own, from top to bottom, in a home of its own:

- ```` ```console ````: lines after `$ ` are run by bash; what follows each is what it prints.
- ```` ```ipython ````: cells after `In [n]: ` are run in one IPython, output and all.
- ```` ```python ````: run in one process for the page; a `text` block marked `output`
  after it holds what it prints.

A comment right before a block says something else about it:

- `<!-- cell: NB.ipynb [TAG] -->`: the block becomes the next cell of that notebook;
- `<!-- edit: NB.ipynb INDEX -->`: it replaces a code cell of the notebook (from 0);
- `<!-- file: NAME -->`: it is written to that file;
- `<!-- content: NAME -->`: it is what that file holds;
- `<!-- fails -->`: the last command of the block fails, as it should;
- `<!-- output -->`: it is what the Python block before printed;
- `<!-- not run: REASON -->` and `<!-- command: NAME -->`: it is not run here.

A line of three dots stands for any lines of output.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([ROOT / "README.md", *(p for p in ROOT.glob("docs/**/*.md") if p.name != "cli.md")])
"""All pages with snippets; the command reference is made from the commands themselves."""

EXECUTED = frozenset({"console", "ipython", "python"})
SHELLS = frozenset({"bash", "sh", "shell"})
ELSEWHERE = ("not run", "command")
TIMEOUT = 240

_COMMENT = re.compile(r"<!-- ([a-z ]+?)(?:: (.*?))? -->")
_FENCE = re.compile(r"( *)```(\w*)$")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PROMPT = re.compile(r"In \[\d+\]: ?")
_MORE = re.compile(r" *\.\.\.: ?")

_PYTHON_SERVER = """
import contextlib, io, json, sys, traceback
space = {"__name__": "__main__"}
for line in sys.stdin:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(json.loads(line), "<snippet>", "exec"), space)
            failed = ""
        except BaseException:
            failed = traceback.format_exc()
    print(json.dumps([printed.getvalue(), failed]), flush=True)
"""
_IPYTHON_SERVER = """
import contextlib, io, json, sys
from IPython.terminal.interactiveshell import TerminalInteractiveShell
shell = TerminalInteractiveShell.instance(simple_prompt=True, colors="nocolor")
for line in sys.stdin:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        shell.run_cell(json.loads(line), store_history=True)
    print(json.dumps([printed.getvalue(), ""]), flush=True)
"""


@dataclass
class Block:
    """One fenced block."""

    language: str
    lines: list[str]
    first: int
    """Index of its first line within the page's lines; that of the fence plus one."""
    marks: dict[str, str] = field(default_factory=dict)
    """Comments right before it."""

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    lines = text.split("\n")
    marks: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if comment := _COMMENT.fullmatch(line.strip()):
            marks[comment[1]] = comment[2] or ""
        elif fence := _FENCE.fullmatch(line):
            end = next(i for i in range(at, len(lines)) if lines[i] == f"{fence[1]}```")
            indent = len(fence[1])
            yield Block(fence[2], [one[indent:] for one in lines[at:end]], at, marks)
            marks, at = {}, end + 1
        elif line.strip():
            marks = {}


def is_run(block: Block) -> bool:
    """Whether a block is run as code of the page."""
    return block.language in EXECUTED and not any(mark in block.marks for mark in ELSEWHERE)


@dataclass
class Difference:
    """A page says something else than what was printed."""

    where: str
    said: list[str]
    printed: list[str]
    first: int
    """Where in the page's lines that output begins."""

    def __str__(self) -> str:
        said, printed = "\n".join(self.said), "\n".join(self.printed)
        return f"{self.where}\n--- the page says\n{said}\n--- it printed\n{printed}"


class Page:
    """One page while it is run."""

    def __init__(self, path: Path, scratch: Path) -> None:
        self.path = path
        self.home = scratch / "home"
        self.folder = self.home / "project"
        self.folder.mkdir(parents=True)
        self.differences: list[Difference] = []
        self.environment = _environment(self.home, _shims(scratch / "bin"))
        self._servers: dict[str, subprocess.Popen[str]] = {}
        shutil.copytree(
            ROOT / "examples",
            self.folder / "examples",
            ignore=shutil.ignore_patterns(".*", "*.csv"),
        )

    def run(self) -> list[Difference]:
        """Run everything; returns what printed something else than the page says.

        Raises:
            AssertionError: something failed that should not.
        """
        printed: list[str] = []
        try:
            for block in blocks(self.path.read_text(encoding="utf-8")):
                if "output" in block.marks:
                    self._compare("Python", block.lines, printed, block.first)
                elif "content" in block.marks:
                    name = block.marks["content"]
                    held = self._presentable(self._file(name).read_text(encoding="utf-8"))
                    self._compare(name, block.lines, held, block.first)
                elif "file" in block.marks:
                    self._file(block.marks["file"]).write_text(block.text, encoding="utf-8")
                elif "cell" in block.marks:
                    self._add_cell(block)
                elif "edit" in block.marks:
                    self._edit_cell(block)
                elif is_run(block) and block.language == "console":
                    self._console(block)
                elif is_run(block) and block.language == "ipython":
                    self._ipython(block)
                elif is_run(block):
                    printed = self._ask("python", _PYTHON_SERVER, "\n".join(block.lines))
        finally:
            for server in self._servers.values():
                server.communicate()
        return self.differences

    def _console(self, block: Block) -> None:
        steps = list(_steps(block.lines, re.compile(r"\$ "), re.compile(r"> ")))
        for number, (command, said, first) in enumerate(steps):
            ran = subprocess.run(
                ["bash", "-c", command],
                cwd=self.folder,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=TIMEOUT,
            )
            fails = "fails" in block.marks and number == len(steps) - 1
            assert (ran.returncode != 0) == fails, f"$ {command}\n{ran.stdout}"
            printed = self._presentable(ran.stdout)
            self._compare(f"$ {command}", said, printed, block.first + first)

    def _ipython(self, block: Block) -> None:
        for code, said, first in _steps(block.lines, _PROMPT, _MORE):
            printed = self._ask("ipython", _IPYTHON_SERVER, code)
            self._compare(code, said, printed, block.first + first)

    def _ask(self, name: str, program: str, code: str) -> list[str]:
        server = self._servers.get(name)
        if server is None:
            server = self._servers[name] = subprocess.Popen(
                [sys.executable, "-c", program],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(code) + "\n")
        server.stdin.flush()
        printed, failed = json.loads(server.stdout.readline())
        assert not failed, f"{code}\n{failed}"
        return self._presentable(printed)

    def _add_cell(self, block: Block) -> None:
        name, *tags = block.marks["cell"].split()
        path = self._file(name)
        nb = nbformat.read(path, 4) if path.exists() else new_notebook()
        metadata = {"tags": tags} if tags else {}
        source = "\n".join(block.lines)
        nb.cells.append(new_code_cell(source, id=f"cell-{len(nb.cells)}", metadata=metadata))
        nbformat.write(nb, path)

    def _edit_cell(self, block: Block) -> None:
        name, index = block.marks["edit"].split()
        path = self._file(name)
        nb = nbformat.read(path, 4)
        cells = [cell for cell in nb.cells if cell.cell_type == "code"]
        cells[int(index)].source = "\n".join(block.lines)
        nbformat.write(nb, path)

    def _file(self, name: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _presentable(self, printed: str) -> list[str]:
        """What a page shows of an output: no colours, and nothing of this machine's own."""
        text = _ANSI.sub("", printed)
        for real, shown in (
            (str(self.home.resolve()), "/home/you"),
            (str(self.home), "/home/you"),
            (sys.prefix, "/home/you/.venv"),
            (platform.node(), "laptop"),
        ):
            text = re.sub(rf"(?<!\w){re.escape(real)}(?!\w)", shown, text)
        # The interpreter has several names in a virtual environment.
        text = re.sub(r"(?<=/\.venv/bin/)python3(\.\d+)?", "python", text)
        lines = [line.rstrip() for line in text.split("\n")]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def _compare(self, where: str, said: list[str], printed: list[str], first: int) -> None:
        if not matches(said, printed):
            place = f"{self.path.relative_to(ROOT)}:{first + 1}: {where}"
            self.differences.append(Difference(place, said, printed, first))


def matches(said: list[str], printed: list[str]) -> bool:
    """Whether an output is what a page says, times, sizes and ids left aside."""
    pattern = r"\n".join(
        r"(?:.*\n)*?.*" if line.strip() == "..." else re.escape(_comparable(line)) for line in said
    )
    while said and not said[-1].strip():
        said = said[:-1]
    return bool(re.fullmatch(pattern, "\n".join(map(_comparable, printed))))


def refreshed(text: str, differences: list[Difference]) -> str:
    """A page with what was printed in place of what it said."""
    lines = text.split("\n")
    for one in sorted(differences, key=lambda d: d.first, reverse=True):
        lines[one.first : one.first + len(one.said)] = one.printed
    return "\n".join(lines)


_VARYING = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "DATE"),
    (r"\d+\.\d+ (s|min|h)\b", "TIME"),
    (r"\d+(\.\d+)? [kMGT]?B\b", "SIZE"),
    (r"\b[vl]?[0-9a-f]{8,64}\b", "ID"),
    (r"Python 3\.\d+ on \w+", "PYTHON"),
    (r"^([\w.-]+) \d+(\.\w+)+$", r"\1 VERSION"),
    (r"\b\d+ (chunk|manifest|pack|module)s?\b", r"N \1s"),
    (r"(?<=  )\d+\.\d\d(?=\b)", "TIME"),
)


def _comparable(line: str) -> str:
    line = line.strip()
    for pattern, name in _VARYING:
        line = re.sub(pattern, name, line)
    return re.sub(r"\s+", " ", line).strip()


def _steps(
    lines: list[str], start: re.Pattern[str], more: re.Pattern[str]
) -> Iterator[tuple[str, list[str], int]]:
    """Inputs, each with the output after it and where among the lines that begins."""
    at = 0
    while at < len(lines):
        found = start.match(lines[at])
        assert found, f"not an input: {lines[at]!r}"
        code = [lines[at][found.end() :]]
        at += 1
        while at < len(lines) and (found := more.match(lines[at])):
            code.append(lines[at][found.end() :])
            at += 1
        first = at
        while at < len(lines) and not start.match(lines[at]):
            at += 1
        yield "\n".join(code), lines[first:at], first


def _environment(home: Path, shims: Path) -> dict[str, str]:
    """A newcomer's environment: no settings, and this checkout's packages."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    ours = ("NBREWIND_", "JUPYTER_", "JPY_", "XDG_", "IPYTHON", "COV_", "PYTEST_")
    kept: dict[str, Any] = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    roots = [str(ROOT / name) for name in (".", "kernels", "analysis", "packaging")]
    return {
        **kept,
        "HOME": str(home),
        "XDG_CACHE_HOME": cache,  # matplotlib takes long to list the fonts of a new home
        "PATH": f"{shims}{os.pathsep}{os.environ['PATH']}",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTHONPATH": os.pathsep.join(roots),
        "LANG": "C.UTF-8",
    }


def _shims(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, arguments in {"nbrewind": "-m nbrewind", "python": ""}.items():
        shim = folder / name
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        shim.chmod(0o755)
    return folder
