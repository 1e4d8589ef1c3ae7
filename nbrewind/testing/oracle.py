"""The oracle of law L1: a replay equals a fresh kernel that runs all cells.

Drives the engine in process, without ZMQ, so that thousands of notebooks can be
tried. `compare` audits one version of a notebook, replays another, and sets
outputs, namespace and files against a run without NBRewind. A `Session` runs one
cell after the other, so that live sessions can be compared as well.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from nbrewind.model.records import OutputMessage
from nbrewind.model.reports import CellReport
from nbrewind.store.abc import Store
from nbrewind.testing.forking import in_a_fork
from nbrewind.testing.memory_store import MemoryStore
from nbrewind.testing.plain_shell import PlainShell
from nbrewind.testing.process import Process
from nbrewind.testing.signature import signature
from nbrewind_analysis.validity import EnvironmentPolicy
from nbrewind_kernels.engine import Engine, Mode
from nbrewind_kernels.ports import CellRequest, Reuse


@dataclass
class Run:
    """What one run of a notebook came to."""

    outputs: list[tuple[OutputMessage, ...]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    reports: list[CellReport] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def executed(self) -> list[int]:
        """Positions of the cells that ran."""
        return [report.index for report in self.reports if report.action != "reused"]


class Session:
    """A shell in a process of its own, with or without an engine.

    Args:
        folder: the notebook's folder; the session runs in it.
        mode: `audit` or `replay`; None for a session without NBRewind.
        store: where records go and come from.
        seed: where random number generators start.
        environment: what a changed package means for the cells that used it.
    """

    def __init__(
        self,
        folder: Path,
        mode: Mode | None = None,
        store: Store | None = None,
        *,
        seed: int = 0,
        environment: EnvironmentPolicy = "rerun",
    ) -> None:
        self.folder = folder
        self.run = Run()
        self.shell = PlainShell()
        self._process = Process(folder, seed)
        self._engine: Engine | None = None
        if mode is not None:
            with self._inside():
                self._engine = Engine(
                    self.shell,
                    mode=mode,
                    root=folder,
                    notebook="oracle.ipynb",
                    store=store,
                    environment=environment,
                )

    def plan(self, cells: Sequence[str]) -> None:
        """Tell the engine all cells in advance, as `nbrewind replay` does."""
        if self._engine is not None:
            with self._inside():
                self._engine.plan([CellRequest(source) for source in cells])

    def execute(self, source: str) -> bool:
        """Run a cell or reuse it; returns whether it raised nothing."""
        with self._inside():
            outputs, error, report = self._execute(source)
        self.run.outputs.append(outputs)
        self.run.errors.append(error)
        if report is not None:
            self.run.reports.append(report)
        return not error

    def look(self) -> Run:
        """Load everything that is not loaded and describe the namespace and the files."""
        with self._inside():
            if self._engine is not None:
                self._engine.materialise(None)
                self.run.warnings = self._engine.warnings
            self.run.state = signature(self.shell.user_ns, self.names())
        return self.run

    def names(self) -> list[str]:
        """The names of the namespace that are the notebook's own."""
        hidden = self.shell.hidden_names()
        return [n for n in self.shell.user_ns if n not in hidden]

    def end(self) -> Run:
        """Describe what is left and end the session; iterators are run to their ends for it."""
        self.look()
        with self._inside():
            for name in sorted(self.names()):
                rest = _rest_of(self.shell.user_ns[name])
                if rest is not None:
                    self.run.state[f"rest of {name}"] = rest
            if self._engine is not None:
                self._engine.close()
        self.run.files = files_in(self.folder)
        return self.run

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        with self._process.inside(), self.shell.as_main():
            yield

    def _execute(self, source: str) -> tuple[tuple[OutputMessage, ...], str, CellReport | None]:
        if self._engine is None:
            outcome = self.shell.run(source)
            return outcome.outputs, outcome.error, None
        decision = self._engine.begin(CellRequest(source))
        if isinstance(decision, Reuse):
            return decision.outputs, "", decision.report
        outcome = self.shell.run(source)
        return outcome.outputs, outcome.error, self._engine.finish(outcome)


def run_plainly(cells: Sequence[str], folder: Path, *, seed: int = 0) -> Run:
    """Run cells in order in a fresh shell, up to the first error."""
    session = Session(folder, seed=seed)
    for source in cells:
        if not session.execute(source):
            break
    return session.end()


def run_with_engine(
    cells: Sequence[str],
    mode: Mode,
    store: Store,
    folder: Path,
    *,
    planned: bool = True,
    seed: int = 0,
) -> Run:
    """Run cells in order under an engine, up to the first error.

    Args:
        cells: sources.
        mode: `audit` or `replay`.
        store: where records go and come from.
        folder: the notebook's folder.
        planned: whether the engine is told all cells in advance, as by `nbrewind replay`.
        seed: where `random` starts.
    """
    session = Session(folder, mode, store, seed=seed)
    if planned:
        session.plan(cells)
    for source in cells:
        if not session.execute(source):
            break
    return session.end()


def compare(
    before: Sequence[str],
    after: Sequence[str],
    root: Path,
    *,
    planned: bool = True,
    files: Mapping[str, str] | None = None,
    edited_files: Mapping[str, str] | None = None,
    forked: bool = False,
) -> Run:
    """Audit `before`, replay `after` twice, and check each against a run without NBRewind.

    Every comparison starts from the files as they are at that moment, in a copy of the
    folder for the run without NBRewind.

    Args:
        before: cells to audit.
        after: cells to replay.
        root: a folder to make the notebook's folder in.
        planned: whether the replay is told all cells in advance.
        files: what the folder contains before the audit.
        edited_files: files written anew between audit and replay.
        forked: every run has a process of its own. Needed where a notebook changes what
            `Process` does not keep apart, such as options of libraries.

    Returns:
        The first replay.

    Raises:
        AssertionError: outputs, errors, state or files differ.
    """
    store = MemoryStore()
    folder = root / "notebook"
    folder.mkdir(exist_ok=True)
    try:
        write_files(folder, files)
        checked(before, "audit", store, folder, forked=forked)
        write_files(folder, edited_files)
        replayed = checked(after, "replay", store, folder, planned=planned, forked=forked)
        checked(
            after, "replay", store, folder, planned=planned, what="second replay", forked=forked
        )
    finally:
        _empty(folder)
    return replayed


def checked(
    cells: Sequence[str],
    mode: Mode,
    store: MemoryStore,
    folder: Path,
    *,
    planned: bool = True,
    what: str = "",
    forked: bool = False,
) -> Run:
    """Run cells under an engine, and beside it without one; returns the engine's run.

    Raises:
        AssertionError: outputs, errors, state or files differ.
    """
    copy = folder.with_name(f"{folder.name}-plain")
    shutil.copytree(folder, copy, symlinks=True, dirs_exist_ok=True)
    try:
        plain = in_a_fork(lambda: run_plainly(cells, copy)) if forked else run_plainly(cells, copy)
    finally:
        _empty(copy)
    if forked:
        run, contents = in_a_fork(lambda: _run_and_tell(cells, mode, store, folder, planned))
        store.take_over(*contents)
    else:
        run = run_with_engine(cells, mode, store, folder, planned=planned)
    check(run, plain, what or mode)
    return run


def _run_and_tell(
    cells: Sequence[str], mode: Mode, store: MemoryStore, folder: Path, planned: bool
) -> tuple[Run, Any]:
    store.take_over(store.objects, store.committed)
    run = run_with_engine(cells, mode, store, folder, planned=planned)
    return run, (store.objects, store.committed)


def check(run: Run, plain: Run, what: str) -> None:
    """Raise `AssertionError` where a run differs from a plain one."""
    assert run.errors == plain.errors, f"{what}: errors {run.errors} != {plain.errors}"
    for index, (ours, theirs) in enumerate(zip(run.outputs, plain.outputs, strict=True)):
        got, wanted = shown(ours), shown(theirs)
        assert got == wanted, f"{what}: outputs of cell {index}: {got} != {wanted}"
    assert run.state.keys() == plain.state.keys(), (
        f"{what}: names {sorted(run.state)} != {sorted(plain.state)}"
    )
    for name in plain.state:
        assert run.state[name] == plain.state[name], (
            f"{what}: {name}: {run.state[name]} != {plain.state[name]}"
        )
    assert run.files == plain.files, f"{what}: files {run.files} != {plain.files}"


def shown(outputs: tuple[OutputMessage, ...]) -> list[tuple[str, bytes]]:
    """Outputs without the addresses that `repr` shows."""
    return [(o.type, re.sub(rb"at 0x[0-9a-fA-F]+", b"at 0x", bytes(o.content))) for o in outputs]


def files_in(folder: Path) -> dict[str, bytes]:
    """Files and links below a folder, with their contents, and folders that are empty."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if "__pycache__" in path.parts:
            continue
        if path.is_symlink():
            found[str(path.relative_to(folder))] = f"link to {path.readlink()}".encode()
        elif path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes()
        elif path.is_dir() and not any(path.iterdir()):
            found[f"{path.relative_to(folder)}/"] = b""
    return found


def write_files(folder: Path, files: Mapping[str, str | None] | None) -> None:
    """Write files into a folder; one whose text is None is removed."""
    for name, text in (files or {}).items():
        path = folder / name
        if text is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _empty(folder: Path) -> None:
    """Remove what is in a folder; removing the folder itself is what takes long."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _rest_of(value: Any) -> list[str] | None:
    """What an iterator still has to give; None for everything else."""
    if not hasattr(type(value), "__next__"):
        return None
    found = []
    try:
        for item in islice(value, 8):
            found.append(re.sub(r"at 0x[0-9a-fA-F]+", "at 0x", repr(item)))
    except Exception as problem:
        found.append(type(problem).__name__)
    return found
