"""The oracle of law L1: a replay equals a fresh kernel that runs all cells.

Drives the engine in process, without ZMQ, so that thousands of notebooks can be
tried. `compare` audits one version of a notebook, replays another, and sets
outputs and namespace against a run without NBRewind.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbrewind.model.records import OutputMessage
from nbrewind.model.reports import CellReport
from nbrewind.store.abc import Store
from nbrewind.testing.memory_store import MemoryStore
from nbrewind.testing.plain_shell import PlainShell
from nbrewind.testing.signature import signature
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

    @property
    def executed(self) -> list[int]:
        """Positions of the cells that ran."""
        return [report.index for report in self.reports if report.action != "reused"]


def run_plainly(cells: Sequence[str], seed: int = 0) -> Run:
    """Run cells in order in a fresh shell, up to the first error."""
    random.seed(seed)
    shell, run = PlainShell(), Run()
    for source in cells:
        outcome = shell.run(source)
        run.outputs.append(outcome.outputs)
        run.errors.append(outcome.error)
        if outcome.status != "ok":
            break
    _note_state(run, shell)
    return run


def run_with_engine(
    cells: Sequence[str],
    mode: Mode,
    store: Store,
    root: Path,
    *,
    planned: bool = True,
    seed: int = 0,
) -> Run:
    """Run cells in order under an engine, up to the first error.

    Args:
        cells: sources.
        mode: `audit` or `replay`.
        store: where records go and come from.
        root: the notebook's folder.
        planned: whether the engine is told all cells in advance, as by `nbrewind replay`.
        seed: where `random` starts.
    """
    random.seed(seed)
    shell, run = PlainShell(), Run()
    with shell.as_main():
        engine = Engine(shell, mode=mode, root=root, notebook="oracle.ipynb", store=store)
        requests = [CellRequest(source) for source in cells]
        if planned:
            engine.plan(requests)
        for request in requests:
            decision = engine.begin(request)
            if isinstance(decision, Reuse):
                run.outputs.append(decision.outputs)
                run.errors.append("")
                run.reports.append(decision.report)
                continue
            outcome = shell.run(request.source)
            run.outputs.append(outcome.outputs)
            run.errors.append(outcome.error)
            run.reports.append(engine.finish(outcome))
            if outcome.status != "ok":
                break
        engine.materialise(None)
        _note_state(run, shell)
        run.warnings = engine.warnings
        engine.close()
    return run


def compare(
    before: Sequence[str], after: Sequence[str], root: Path, *, planned: bool = True
) -> Run:
    """Audit `before`, replay `after`, and check the replay against a plain run of `after`.

    Returns:
        The replay.

    Raises:
        AssertionError: outputs, errors or state differ.
    """
    store = MemoryStore()
    audited = run_with_engine(before, "audit", store, root)
    check(audited, run_plainly(before), "audit")
    replayed = run_with_engine(after, "replay", store, root, planned=planned)
    check(replayed, run_plainly(after), "replay")
    again = run_with_engine(after, "replay", store, root, planned=planned)
    check(again, run_plainly(after), "second replay")
    return replayed


def check(run: Run, plain: Run, what: str) -> None:
    """Raise `AssertionError` where a run differs from a plain one."""
    assert run.errors == plain.errors, f"{what}: errors {run.errors} != {plain.errors}"
    for index, (ours, theirs) in enumerate(zip(run.outputs, plain.outputs, strict=True)):
        assert _plain(ours) == _plain(theirs), f"{what}: outputs of cell {index}"
    assert run.state.keys() == plain.state.keys(), (
        f"{what}: names {sorted(run.state)} != {sorted(plain.state)}"
    )
    for name in plain.state:
        assert run.state[name] == plain.state[name], (
            f"{what}: {name}: {run.state[name]} != {plain.state[name]}"
        )


def _plain(outputs: tuple[OutputMessage, ...]) -> list[tuple[str, str]]:
    """Outputs without the addresses that `repr` shows."""
    return [(o.type, re.sub(rb"at 0x[0-9a-f]+", b"at 0x", bytes(o.content)).hex()) for o in outputs]


def _note_state(run: Run, shell: PlainShell) -> None:
    hidden = shell.hidden_names()
    names = [n for n in shell.user_ns if n not in hidden and not n.startswith("__")]
    run.state = signature(shell.user_ns, names)
