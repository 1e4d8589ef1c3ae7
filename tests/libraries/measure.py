"""Put the cases of one library to the test in two processes with different hash seeds.

    python -m tests.libraries.measure LIBRARY [CASE...]

prints what was found. The first process audits a notebook for each case; the second
replays an edited one, so that `x` has to come out of the store, and replays one whose
first cell runs again, so that an equal `x` has to be recognised.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from nbrewind.model.records import ExecutionRecord
from nbrewind.state.capture import Examination
from nbrewind.testing.memory_store import MemoryStore
from nbrewind.testing.oracle import Run, Session, shown
from tests.libraries.case import Case, Library, load

ROOT = Path(__file__).parent.parent.parent
_SINGLE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass
class Finding:
    """What was found out about one case."""

    stored: bool = False
    """`x` is in the store, and a replay took it from there."""
    problem: str = ""
    """Why it is not stored, in NBRewind's words."""
    faults: list[str] = field(default_factory=list)
    """Everything that differs from a run without NBRewind, or is wrong with the case."""
    steady: bool = True
    """Reading `x`, as made and as restored, was not taken for a change."""
    detected: bool = False
    """Modifying `x`, as made and as restored, was noticed."""
    canonical: bool = False
    """An equal `x` made in another process was recognised as equal."""
    unlike: str = ""
    """Why it was not, in NBRewind's words."""
    cost: float = 0.0
    """Time to examine `x`, as a multiple of the time to pickle it; 0 if it does not pickle."""


def measure(name: str, chosen: Sequence[str] = (), timeout: float = 400) -> dict[str, Finding]:
    """Measure the cases of the library whose table is in module `name` of `cases`.

    Args:
        name: the module.
        chosen: names of cases; all if it is empty.
        timeout: seconds for each of the two processes.
    """
    with tempfile.TemporaryDirectory(prefix="nbrewind-libraries-") as folder:
        for part, seed in (("first", "1"), ("second", "2")):
            environ = {**os.environ, **dict.fromkeys(_SINGLE, "1")}
            environ |= {"PYTHONHASHSEED": seed, "MPLBACKEND": "agg"}
            path = [str(ROOT / root) for root in (".", "kernels", "analysis", "packaging")]
            environ["PYTHONPATH"] = os.pathsep.join(path)
            command = [sys.executable, "-m", "tests.libraries.measure", "--part", part, folder]
            subprocess.run(
                [*command, name, *chosen], cwd=ROOT, env=environ, timeout=timeout, check=True
            )
        found = json.loads(Path(folder, "second.json").read_text())
    return {case: Finding(**finding) for case, finding in found.items()}


# -- in the two processes -----------------------------------------------------------------


@dataclass(frozen=True)
class _Notebooks:
    """The cells of the notebooks that are made of a case."""

    audited: list[str]
    edited: list[str]
    """All cells but those that make `x` and hold it are new."""
    remade: list[str]
    """The cell that makes `x` is new."""


_HOLD = "alias = x; box = [x]"
_MADE, _READ, _MODIFIED = 1, 3, 4


def _notebooks(case: Case, library: Library) -> _Notebooks:
    prepare, create = (
        "\n".join(filter(None, (library.prelude, code))) for code in (case.prepare, case.create)
    )
    use = [case.read]
    if case.modify:
        use += [case.modify, case.read, "print(alias is x, box[0] is x)"]
    use = [f"{source}\nNone" for source in use]  # values of expressions are not at issue
    return _Notebooks(
        audited=[prepare, create, _HOLD, *use],
        edited=[prepare, create, _HOLD, *(f"{source}\nNone" for source in use)],
        remade=[prepare, f"{create}\nremade = True", _HOLD, use[0]],
    )


class _Part:
    """One of the two processes."""

    def __init__(self, folder: Path, library: Library) -> None:
        self._folder = folder
        self._library = library

    def first(self, case: Case, place: Path) -> Finding:
        """Audit the notebook of a case and keep the store."""
        finding = Finding()
        cells = _notebooks(case, self._library).audited
        plain = self._run_plainly(cells, place)
        self._note_errors(finding, plain, "the case itself")
        if finding.faults:
            return finding
        self._judge_case(finding, case, plain)
        store = MemoryStore()
        run = self._run(cells, place / "notebook", "audit", store, finding)
        _compare(finding, run, plain, "audited")
        if len(run.reports) == len(cells):
            finding.steady = not run.reports[_READ].writes
            finding.detected = bool(case.modify) and _writes(run, store)
        state = (store.objects, store.committed, plain.outputs)
        (place / "store").write_bytes(pickle.dumps(state))
        return finding

    def second(self, case: Case, place: Path, finding: Finding) -> None:
        """Replay the edited notebooks of a case."""
        objects, committed, outputs = pickle.loads((place / "store").read_bytes())
        notebooks = _notebooks(case, self._library)
        plain = self._run_plainly(notebooks.edited, place)
        self._note_errors(finding, plain, "the case itself, in another process,")
        if [*map(shown, plain.outputs)] != [*map(shown, outputs)]:
            finding.faults.append("the case prints something else in another process")
        store = MemoryStore()
        store.objects, store.committed = dict(objects), list(committed)
        remade: list[str] = []
        run = self._run(notebooks.edited, place / "notebook", "replay", store, remade=remade)
        _compare(finding, run, plain, "replayed")
        finding.stored = bool(run.reports) and run.reports[_MADE].action == "reused"
        if remade:
            finding.stored = False
            finding.problem = finding.problem or "it does not load"
        if finding.stored and len(run.reports) == len(notebooks.edited):
            finding.steady &= not run.reports[_READ].writes
            finding.detected &= bool(case.modify) and _writes(run, store)
        elif run.reports and not finding.problem:
            finding.problem = ", ".join(map(str, run.reports[_MADE].reasons))
        store = MemoryStore()
        store.objects, store.committed = dict(objects), list(committed)
        plain = self._run_plainly(notebooks.remade, place)
        run = self._run(notebooks.remade, place / "notebook", "replay", store)
        _compare(finding, run, plain, "remade")
        if len(run.reports) == len(notebooks.remade):
            finding.canonical = run.reports[_READ].action == "reused"
            finding.unlike = ", ".join(map(str, run.reports[_READ].reasons))

    def _run_plainly(self, cells: list[str], place: Path) -> Run:
        """Run cells without NBRewind, on the files as they are now."""
        (place / "notebook").mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place) as copy:
            shutil.copytree(place / "notebook", copy, dirs_exist_ok=True)
            return self._run(cells, Path(copy))

    def _run(
        self,
        cells: list[str],
        folder: Path,
        mode: Any = None,
        store: MemoryStore | None = None,
        finding: Finding | None = None,
        remade: list[str] | None = None,
    ) -> Run:
        folder.mkdir(exist_ok=True)
        session = Session(folder, mode, store)
        if remade is not None:
            _note_remaking(session, remade)
        session.plan(cells)
        for index, source in enumerate(cells):
            if not session.execute(source):
                break
            if index == _MADE and finding is not None:
                self._look(finding, session)
        run = session.run
        engine = session._engine
        if engine is not None:
            with session._inside():
                run.warnings = engine.warnings
                engine.close()
        del session, engine
        gc.collect()  # open files are closed
        if self._library.reset:
            exec(self._library.reset, {})
        return run

    @staticmethod
    def _look(finding: Finding, session: Session) -> None:
        """Why `x` cannot be stored, and what examining it costs."""
        engine, value = session._engine, session.shell.user_ns.get("x")
        assert engine is not None
        with session._inside():
            started = time.perf_counter()
            exam: Examination = engine.live.examination()
            finding.problem = exam.look(value).problem
            ours = time.perf_counter() - started
            try:
                started = time.perf_counter()
                pickle.dumps(value, 5)
                finding.cost = ours / (time.perf_counter() - started)
            except Exception:
                finding.cost = 0.0

    @staticmethod
    def _note_errors(finding: Finding, run: Run, what: str) -> None:
        finding.faults += [f"{what} fails: {error}" for error in run.errors if error]

    @staticmethod
    def _judge_case(finding: Finding, case: Case, plain: Run) -> None:
        if not plain.outputs[_READ]:
            finding.faults.append("`read` prints nothing")
        elif case.modify and shown(plain.outputs[_READ]) == shown(plain.outputs[_READ + 2]):
            finding.faults.append("`read` does not show what `modify` does")


def _writes(run: Run, store: MemoryStore) -> bool:
    """Whether the cell that modifies `x` is recorded with a change.

    It may be that of what `x` refers to, or of what a library keeps for it.
    """
    oid = bytes.fromhex(run.reports[_MODIFIED].record or "")
    return bool(msgspec.msgpack.decode(store.get(oid), type=ExecutionRecord).writes.written)


def _note_remaking(session: Session, remade: list[str]) -> None:
    """Note the names that are made by running their cell unseen, because they did not load."""
    engine = session._engine
    assert engine is not None
    remake = engine.remaker.remake

    def noted(group: Any) -> bool:
        remade.extend(group.variables)
        return remake(group)

    engine.remaker.remake = noted  # type: ignore[method-assign]


def _compare(finding: Finding, run: Run, plain: Run, what: str) -> None:
    finding.faults += [f"{what}: {warning}" for warning in run.warnings]
    if run.errors != plain.errors:
        finding.faults.append(f"{what}: errors {run.errors} instead of {plain.errors}")
    for index, (ours, theirs) in enumerate(zip(run.outputs, plain.outputs, strict=False)):
        if shown(ours) != shown(theirs):
            got, wanted = (str(shown(o))[:300] for o in (ours, theirs))
            finding.faults.append(f"{what}: cell {index} shows {got} instead of {wanted}")


def _main(part: str, folder: Path, name: str, chosen: Sequence[str]) -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    with contextlib.suppress(ImportError):
        import importlib_metadata  # noqa: F401 (registers a finder, which all sessions need)
    library = load(name)
    process = _Part(folder, library)
    known = {}
    if part == "second":
        known = json.loads((folder / "first.json").read_text())
    findings: dict[str, Any] = {}
    for number, case in enumerate(library.cases):
        if chosen and case.name not in chosen:
            continue
        place = folder / str(number)
        place.mkdir(exist_ok=True)
        (folder / "running").write_text(f"{part}: {case.name}")
        finding = Finding(**known[case.name]) if known else Finding()
        try:
            if part == "first":
                finding = process.first(case, place)
            elif (place / "store").exists():
                process.second(case, place, finding)
        except Exception:
            finding.faults.append(traceback.format_exc())
        findings[case.name] = asdict(finding)
    (folder / f"{part}.json").write_text(json.dumps(findings))


def _show(name: str, chosen: Sequence[str]) -> None:
    for case, found in measure(name, chosen).items():
        marks = "stored" if found.stored else f"NOT STORED ({found.problem})"
        marks += "" if found.steady else ", READ COUNTS AS CHANGE"
        marks += ", detected" if found.detected else ", not detected"
        marks += ", canonical" if found.canonical else f", NOT CANONICAL ({found.unlike})"
        sys.stdout.write(f"{case}: {marks}, cost {found.cost:.1f}\n")
        for fault in found.faults:
            sys.stdout.write(f"    FAULT {fault}\n")


if __name__ == "__main__":
    if sys.argv[1] == "--part":
        _main(sys.argv[2], Path(sys.argv[3]), sys.argv[4], sys.argv[5:])
    else:
        _show(sys.argv[1], sys.argv[2:])
