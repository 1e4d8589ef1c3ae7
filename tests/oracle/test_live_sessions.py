"""Law L1 per request: in a live session each cell has the effect it would have under ipykernel.

A session with an engine and one without run side by side: cells in any order, cells
again, edits, restarts with the same records.
"""

from __future__ import annotations

import os
import shutil
import types
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from nbrewind.testing.memory_store import MemoryStore
from nbrewind.testing.notebooks import edited, notebooks
from nbrewind.testing.oracle import Session, check, checked
from nbrewind.testing.templates import write_modules
from nbrewind_kernels.engine import Mode

SETTINGS = settings(
    max_examples=25,
    stateful_step_count=12,
    derandomize=True,
    database=None,
    deadline=timedelta(seconds=60),
    suppress_health_check=list(HealthCheck),
)


class Notebook(RuleBasedStateMachine):
    """A user at work: one notebook, one store, and kernels that come and go."""

    root: Path

    def __init__(self) -> None:
        super().__init__()
        self.folder = self.root / "live"
        self.beside = self.root / "live-plain"
        for folder in (self.folder, self.beside):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            write_modules(folder)
        self.store = MemoryStore()
        self.cells: list[str] = []
        self.ours: Session | None = None
        self.plain: Session | None = None

    @initialize(cells=notebooks())
    def audit(self, cells: list[str]) -> None:
        self.cells = cells
        checked(cells, "audit", self.store, self.folder)

    @rule(data=st.data())
    def edit(self, data: st.DataObject) -> None:
        self.cells = data.draw(edited(self.cells))

    @rule(planned=st.booleans())
    def replay_all_in_a_fresh_kernel(self, planned: bool) -> None:
        self._end()
        checked(self.cells, "replay", self.store, self.folder, planned=planned)

    @rule()
    def audit_again(self) -> None:
        self._end()
        checked(self.cells, "audit", self.store, self.folder)

    @precondition(lambda self: self.cells)
    @rule(data=st.data())
    def run_a_cell(self, data: st.DataObject) -> None:
        self._step(data.draw(st.sampled_from(self.cells)))

    @precondition(lambda self: self.cells)
    @rule()
    def run_all_in_the_same_kernel(self) -> None:
        for source in self.cells:
            if not self._step(source):
                break

    @rule(mode=st.sampled_from(["audit", "replay"]))
    def restart(self, mode: Mode) -> None:
        self._end()
        self._start(mode)

    def teardown(self) -> None:
        self._end()

    def _start(self, mode: Mode) -> None:
        shutil.rmtree(self.beside)
        shutil.copytree(self.folder, self.beside)
        self.ours = Session(self.folder, mode, self.store)
        self.plain = Session(self.beside)

    def _step(self, source: str) -> bool:
        if self.ours is None or self.plain is None:
            self._start("replay")
        assert self.ours is not None
        assert self.plain is not None
        good = self.plain.execute(source)
        self.ours.execute(source)
        if _has_twins(self.plain.shell.user_ns):
            # A definition that was made again, equal to one still in use: reuse keeps the
            # one object there is. What tells them apart is not compared.
            self.ours = self.plain = None
            return False
        self.ours.look()
        self.plain.look()
        check(self.ours.run, self.plain.run, f"after {source!r}")
        return good

    def _end(self) -> None:
        if self.ours is not None and self.plain is not None:
            check(self.ours.end(), self.plain.end(), "end of the session")
        self.ours = self.plain = None


def _has_twins(namespace: dict[str, Any]) -> bool:
    """Whether two different definitions of a notebook are equal but for their identity."""
    found: dict[Any, int] = {}
    waiting, seen = list(namespace.values()), set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, types.ModuleType):
            continue
        seen.add(id(value))
        if isinstance(value, types.FunctionType) or (
            isinstance(value, type) and value.__module__ == "__main__"
        ):
            key = value.__qualname__, getattr(value, "__code__", None) or _codes(value)
            if found.setdefault(key, id(value)) != id(value):
                return True
        waiting += _parts(value)
    return False


def _codes(cls: type) -> tuple[Any, ...]:
    return tuple(
        getattr(value, "__code__", None)
        for value in vars(cls).values()
        if isinstance(value, types.FunctionType)
    )


def _parts(value: Any) -> list[Any]:
    if isinstance(value, type):
        return [*vars(value).values(), *value.__bases__] if value.__module__ == "__main__" else []
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, types.CellType):
        return [value.cell_contents] if value != types.CellType() else []
    if isinstance(value, types.FunctionType):
        return [value.__dict__, value.__defaults__, *(value.__closure__ or ())]
    if isinstance(value, types.MethodType | classmethod | staticmethod):
        return [value.__func__, getattr(value, "__self__", None)]
    return [type(value), getattr(value, "__dict__", None)]


@pytest.fixture(autouse=True)
def _folder(root: Path) -> None:
    Notebook.root = root


def test_a_session_has_the_effects_of_ipykernel() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(Notebook, settings=SETTINGS)


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_a_session_has_the_effects_of_ipykernel_in_long_searches() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    part = float(os.environ.get("NBREWIND_LONG_SAMPLE", "1"))
    long = settings(
        SETTINGS,
        max_examples=round(250 * part),
        stateful_step_count=25,
        derandomize=part < 1,
    )
    run_state_machine_as_test(Notebook, settings=long)
