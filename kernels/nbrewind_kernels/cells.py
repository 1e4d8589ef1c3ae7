"""One kernel's dealings with its engine.

`Cells` opens a cell, asks the engine what to do with it, and hands over what it
did. It owns three rules that kernels and the extension share:

- nothing the engine does reaches the user's cell (law L6): what it raises is
  told once and the cell runs as in plain ipykernel;
- the engine is used by one thread at a time, but never while user code runs;
- code outside cells (subshells, comm handlers, hidden requests) gets the
  variables it may see first, and the engine looks at the namespace again before
  the next cell. If such code ran while a cell was running, that cell is flagged.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from nbrewind.model.records import OutputMessage
from nbrewind.model.reports import CellReport
from nbrewind_kernels.outputs import OutputRecorder, Recording
from nbrewind_kernels.ports import CellEngine, CellOutcome, CellRequest, Decision, Execute, Reuse

_T = TypeVar("_T")


@dataclass
class Cell:
    """One execution request that is a cell."""

    request: CellRequest
    msg_id: str
    recording: Recording | None = None
    decision: Decision | None = None
    """None where the engine was not asked or failed: the cell runs plainly."""
    status: str = "ok"
    error: str = ""
    result: Any = None
    flags: set[str] = field(default_factory=set)

    def note_error(self, name: str, value: str) -> None:
        """The cell raised, or was interrupted."""
        interrupted = name in ("KeyboardInterrupt", "CancelledError", "Interrupted")
        self.status = "interrupted" if interrupted else "error"
        self.error = f"{name}: {value}"


@dataclass(frozen=True)
class Entry:
    """A finished cell, for people."""

    source: str
    report: CellReport


class Cells:
    """See the module's docstring.

    Args:
        engine: the engine, or None where it could not be started.
        log: the kernel's log.
        recorder: where outputs are recorded; None in a terminal.
    """

    def __init__(
        self,
        engine: CellEngine | None,
        log: logging.Logger,
        recorder: OutputRecorder | None = None,
    ) -> None:
        self.engine = engine
        self.recorder = recorder
        self.entries: list[Entry] = []
        self.last_report: CellReport | None = None
        """Report of the last cell; None if it was not recorded."""
        self._log = log
        self._lock = threading.RLock()
        self._settled = threading.Event()
        self._settled.set()
        self._told: list[str] = []
        self._running: Cell | None = None
        self._outside = 0
        self._stale = False
        self._forced: set[tuple[str, str]] = set()

    @property
    def warnings(self) -> list[str]:
        """Problems met so far, each once: the engine's and those of reaching it."""
        known = list(self.engine.warnings) if self.engine is not None else []
        return known + [told for told in self._told if told not in known]

    @property
    def running(self) -> Cell | None:
        """The cell whose code runs now."""
        return self._running

    # A cell, from its request to its end

    def open(self, request: CellRequest, msg_id: str) -> Cell:
        """A cell was requested: record what it publishes from now on."""
        if (request.cell_id, request.source) in self._forced:
            request = CellRequest(request.source, request.cell_id, request.policy, True)
        cell = Cell(request, msg_id)
        if self.recorder is not None:
            cell.recording = self.recorder.open(msg_id)
        self.last_report = None
        return cell

    def decide(self, cell: Cell) -> Decision | None:
        """Ask the engine about a cell; None means: run it and do not record it."""
        engine = self.engine
        if engine is None or not is_recorded(cell.request.source):
            return None
        with self._lock:
            if self._stale:
                self._stale = False
                self._ask("look at the namespace again", engine.absorb)
            if self.recorder is not None and _streams_replaced():
                # What a reused cell shows would not pass through the notebook's own stream.
                cell.request = replace(cell.request, force=True)
                cell.flags.add("untracked")
            cell.decision = self._ask("decide about a cell", engine.begin, cell.request)
            if self._outside:
                cell.flags.add("untracked")
            self._running = cell
        return cell.decision

    def finish(self, cell: Cell) -> None:
        """The cell has ended, its reply is sent: capture what it did."""
        self._settled.clear()
        try:
            with self._lock:
                self._running = None
                self._report(cell)
        finally:
            if self.recorder is not None:
                self.recorder.close(cell.msg_id)
            self._settled.set()

    def _report(self, cell: Cell) -> None:
        decision, engine = cell.decision, self.engine
        report: CellReport | None = None
        if isinstance(decision, Reuse):
            report = decision.report
        elif isinstance(decision, Execute) and engine is not None:
            report = self._ask("capture a cell", engine.finish, self._outcome(cell))
        cell.result = None  # the engine must be the only one that keeps results alive
        if report is not None:
            self.entries.append(Entry(cell.request.source, report))
        self.last_report = report

    def _outcome(self, cell: Cell) -> CellOutcome:
        flags = set(cell.flags)
        if self.recorder is not None and _streams_replaced():
            flags.add("untracked")
        outputs: tuple[OutputMessage, ...] = ()
        if cell.recording is not None:
            if self.recorder is not None:
                self.recorder.drain()
            outputs = cell.recording.outputs()
            flags |= cell.recording.flags
        return CellOutcome(
            status=cell.status,
            result=cell.result,
            has_result=cell.result is not None,
            error=cell.error,
            outputs=outputs,
            flags=frozenset(flags),
        )

    # Code outside cells

    @contextmanager
    def outside(self, names: frozenset[str] | None = None) -> Iterator[None]:
        """Code that is no cell runs inside this; it may see `names` (None: all)."""
        if self.engine is None:
            yield
            return
        with self._lock:
            self._outside += 1
            self._note_untracked()
        self.materialise(names)
        try:
            yield
        finally:
            with self._lock:
                self._outside -= 1
                self._stale = True
                self._note_untracked()

    def materialise(self, names: frozenset[str] | None, patience: float = -1) -> None:
        """Load what is not loaded among `names` (None: everything).

        Args:
            names: variables that somebody is about to look at.
            patience: seconds to wait for the engine; negative: as long as it takes.
                A debugger that stopped the thread which holds it must not hang.
        """
        engine = self.engine
        if engine is None or (names is not None and not names & self.lazy_names(patience)):
            return
        if not self._lock.acquire(timeout=patience):
            return
        try:
            self._ask("load variables", engine.materialise, names)
        finally:
            self._lock.release()

    def lazy_names(self, patience: float = -1) -> frozenset[str]:
        """Variables that exist but are not loaded."""
        engine = self.engine
        if engine is None or not self._lock.acquire(timeout=patience):
            return frozenset()
        try:
            return self._ask("list variables", engine.lazy_names) or frozenset()
        finally:
            self._lock.release()

    def _note_untracked(self) -> None:
        if self._running is not None:
            self._running.flags.add("untracked")

    # The session

    def plan(self, cells: list[CellRequest]) -> None:
        """All cells of a batch run, in order; those that are not recorded are left out."""
        cells = [cell for cell in cells if is_recorded(cell.source)]
        self._forced = {(c.cell_id, c.source) for c in cells if c.force}
        with self._lock:
            if self.engine is not None:
                self._ask("plan a run", self.engine.plan, cells)

    def wait_until_captured(self, seconds: float) -> None:
        """Wait while a finished cell is being captured (not while one runs)."""
        self._settled.wait(seconds)
        if self.engine is not None:
            self._ask("keep a record", self.engine.secure)

    def close(self, patience: float = 30.0) -> None:
        """End the session; cells run plainly from now on."""
        got = self._lock.acquire(timeout=patience)
        try:
            engine, self.engine = self.engine, None
            if engine is not None:
                if got:
                    self._ask("end the session", engine.close)
                self._told = list(engine.warnings) + self._told
        finally:
            if got:
                self._lock.release()

    def tell(self, doing: str, error: BaseException) -> None:
        """A failure of ours: told once, visible in reports, never raised."""
        told = f"Could not {doing}: {type(error).__name__}: {error}"
        if told not in self._told:
            self._told.append(told)
            self._log.warning("nbrewind: %s", told, exc_info=error)

    def _ask(self, doing: str, function: Callable[..., _T], *args: Any) -> _T | None:
        try:
            return function(*args)
        except Exception as error:
            self.tell(doing, error)
            return None


def _streams_replaced() -> bool:
    """Whether the notebook put streams of its own in place of ipykernel's.

    Those do not learn which cell runs, and what they pass on counts for an earlier one.
    """
    return not all(hasattr(stream, "set_parent") for stream in (sys.stdout, sys.stderr))


def is_recorded(source: str) -> bool:
    """Whether a cell is more than blank lines, comments and `%rewind` commands."""
    lines = (line.strip() for line in source.splitlines())
    return any(
        line and not line.startswith("#") and line.split(None, 1)[0] != "%rewind" for line in lines
    )
