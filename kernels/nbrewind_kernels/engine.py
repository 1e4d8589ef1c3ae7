"""The engine: decides for each cell whether to run it, and records the runs.

It owns one session's `Situation` (the versions of everything) and its live side,
and asks others for the rest: `choice` for a record to reuse, `LiveNamespace` for
values, `Observers` for what runs do besides changing names, `Journal` for
committing records, `remaking` for values that are not stored.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Any, Literal

import msgspec

from nbrewind.errors import NBRewindError
from nbrewind.model.blobs import ObjectId
from nbrewind.model.reasons import Reason
from nbrewind.model.records import (
    ExecutionRecord,
    Group,
    Writes,
    is_place_name,
    is_variable_name,
    plain_name,
)
from nbrewind.model.reports import Action, CellReport
from nbrewind.model.spans import stopwatch
from nbrewind.state.named_paths import Named, named
from nbrewind.store.abc import Store
from nbrewind_analysis.book import Entry, RecordBook
from nbrewind_analysis.cells import Cell
from nbrewind_analysis.choice import CellHint, Choice, choose
from nbrewind_analysis.forecast import PlannedCell, must_run
from nbrewind_analysis.reach import Reach, reach
from nbrewind_analysis.surroundings import DiskSurroundings
from nbrewind_analysis.validity import EnvironmentPolicy, Situation
from nbrewind_kernels.analysing import CellReader
from nbrewind_kernels.drafts import RunningCell, draft_record, touch_of
from nbrewind_kernels.journal import Journal
from nbrewind_kernels.live import LiveNamespace
from nbrewind_kernels.name_order import NameOrder, in_order_of
from nbrewind_kernels.notes import notes_on
from nbrewind_kernels.observers import Observed, Observers
from nbrewind_kernels.own_magics import own_magics
from nbrewind_kernels.ports import CellOutcome, CellRequest, Decision, Execute, Reuse, Shell
from nbrewind_kernels.recording import (
    Changes,
    StoreGroup,
    Touch,
    look_at_changes,
    user_names,
    write_groups,
)
from nbrewind_kernels.remaking import Remaker
from nbrewind_kernels.results import RecordedResults
from nbrewind_kernels.trace import Trace
from nbrewind_kernels.training_runs import TrainingRuns
from nbrewind_kernels.virtual import VirtualState

log = logging.getLogger(__name__)


Mode = Literal["audit", "replay"]


class Engine:
    """One session of an auditing or replaying kernel."""

    def __init__(
        self,
        shell: Shell,
        *,
        mode: Mode,
        root: Path,
        notebook: str = "",
        store: Store | None = None,
        environment: EnvironmentPolicy = "rerun",
    ) -> None:
        self.shell = shell
        self.mode = mode
        self.place = "" if store is None else store.location
        self.warnings: list[str] = []
        self.environment: EnvironmentPolicy = environment
        self.order = NameOrder()
        self.book = RecordBook(store)
        self.surroundings = DiskSurroundings(root, store)
        self.now = Situation(self.surroundings)
        self.observers = Observers(root, store, self.surroundings.modules)
        self.live = LiveNamespace(shell.user_ns, self.observers.places, store)
        self.journal = Journal(store, self.book, root, notebook, self.warn)
        self.virtual = VirtualState(self.observers, root, store, self.now, self.warn)
        self.results = RecordedResults(shell)
        self.remaker = Remaker(self)
        self.notebook = notebook
        self.trace = Trace(os.environ)
        self.observers.files.before_fork = self._load_for_child
        self._ordinal = 0
        self._used: set[ObjectId] = set()
        self._reader = CellReader(shell, notebook)
        self._plan: list[PlannedCell] = []
        self._must_run: dict[int, Reason] = {}
        self._running: RunningCell | None = None
        self.runs = TrainingRuns(self)
        self._lost = False
        """Something of ours failed: versions and values may disagree, so nothing is reused."""
        self.hidden = shell.hidden_names()
        if user_names(self.live, self.hidden):
            self.absorb()

    # -- what kernels call ----------------------------------------------------------------

    def plan(self, cells: list[CellRequest]) -> None:
        """Know in advance what will be requested, so that chains run in their places."""
        self.book.refresh()
        self._plan = [self._planned(request, index) for index, request in enumerate(cells)]
        if self.mode == "replay":
            self._must_run = must_run(self._plan, self.book, self.now, self.environment)

    def begin(self, request: CellRequest) -> Decision:
        """Decide about a cell; after `Execute` its inputs are in place."""
        if self._lost:
            return Execute(CellReport(index=-1, id=request.cell_id, action="executed"))
        try:
            return self._begin(request)
        except Exception as problem:
            self._give_up(problem)
            return Execute(
                CellReport(
                    index=self._ordinal - 1,
                    id=request.cell_id,
                    action="executed",
                    reasons=[Reason("unsafe", "nbrewind", str(problem))],
                )
            )

    def finish(self, outcome: CellOutcome) -> CellReport:
        """Capture what the cell did and commit its record."""
        running, self._running = self._running, None
        self.runs.end()
        if running is None:
            action: Action = "executed" if outcome.status == "ok" else "failed"
            return CellReport(index=self._ordinal - 1, id="", action=action)
        try:
            return self._finish(running, outcome)
        except Exception as problem:
            self._give_up(problem)
            return running.report

    def materialise(self, names: frozenset[str] | None) -> None:
        """Load what is lazy among `names` (None: everything), for code outside cells."""
        wanted = set(self.live.lazy) if names is None else self.now.table.closure(names).names
        if any(map(is_place_name, wanted)):
            self.virtual.do_imports()
        self._load(wanted)

    def absorb(self) -> None:
        """Look at everything again after code that ran outside a cell."""
        touch = Touch(frozenset(), frozenset(), frozenset(), frozenset(), everything=True)
        changes = look_at_changes(self.live, self.now.table, touch, self.hidden)
        if changes.changed or changes.rebound or changes.deleted:
            recipe = f"outside a cell, {time.time_ns()}"
            groups = write_groups(
                self.live, self.now.table, changes, recipe, lambda names, dump: None, lambda u: u
            )
            self._take_over(changes, groups)

    def lazy_names(self) -> frozenset[str]:
        """Names that exist but are not loaded."""
        return frozenset(filter(is_variable_name, self.live.lazy))

    def secure(self) -> None:
        """Wait until every record so far survives the kernel."""
        self.journal.secure()

    def captured(self) -> frozenset[str]:
        """Ids of records that are not durable yet."""
        return self.journal.captured()

    def settle(self) -> None:
        """Wait until every record so far is durable."""
        self.journal.settle()

    def close(self) -> None:
        """Bring files up to date and end the session."""
        self.virtual.settle_files()
        self.observers.close()
        self.live.tracker.close()
        self.settle()
        if problem := self.trace.write():
            self.warn(problem)

    # -- deciding ---------------------------------------------------------------------------

    def _begin(self, request: CellRequest) -> Decision:
        started = time.perf_counter()
        ordinal = self._ordinal
        self._ordinal += 1
        self.surroundings.forget()
        if self.observers.leftovers.may_have_acted():
            self.absorb()
        cell = self._reader.analyse(request.source, self.live.lazy)
        hint = self._reader.hint(request, cell, ordinal)
        self._reader.note_requested(request)
        if self.mode == "audit":
            choice = Choice(None, [])
            reasons = [Reason("forced", "", "every cell runs under audit")]
        else:
            choice = self._choose(cell, hint, request, ordinal)
            reasons = choice.reasons
        if choice.entry is not None:
            reused = self._reuse(choice.entry, cell, hint, started)
            if reused is not None:
                return reused
            reasons = [Reason("not-stored", "", "its recorded outputs cannot be read")]
        report = CellReport(
            index=ordinal,
            id=request.cell_id,
            action="executed",
            reasons=reasons,
            recorded_seconds=choice.previous.record.seconds if choice.previous else None,
        )
        self._prepare(cell)
        self._running = self._start(cell, hint, report, started)
        return Execute(report)

    def _planned(self, request: CellRequest, ordinal: int) -> PlannedCell:
        cell = self._reader.analyse(request.source, self.live.lazy)
        return PlannedCell(cell, self._reader.hint(request, cell, ordinal), request.force)

    def _choose(self, cell: Cell, hint: CellHint, request: CellRequest, ordinal: int) -> Choice:
        forced = self._must_run.get(ordinal) if self._is_planned(ordinal, cell) else None
        if self.observers.leftovers.are_running():
            forced = Reason("unsafe", "threads", "a thread or task of another cell is running")
        if request.force:
            forced = Reason("forced", "", "it was asked for")
        choice = choose(
            self.book,
            cell.source,
            cell.digest,
            self.now,
            hint,
            used=self._used,
            environment=self.environment,
        )
        if forced is None and choice.entry is not None:
            planned = self._is_planned(ordinal, cell)
            forced = self.remaker.only_now(choice.entry.record, planned=planned)
        if forced is not None and choice.entry is not None:
            return Choice(None, [forced], choice.entry)
        return choice

    def _is_planned(self, ordinal: int, cell: Cell) -> bool:
        return ordinal < len(self._plan) and self._plan[ordinal].cell.digest == cell.digest

    def _reuse(self, entry: Entry, cell: Cell, hint: CellHint, started: float) -> Reuse | None:
        """Put a record's effects in place of a run; None if its outputs are lost."""
        record = entry.record
        try:
            outputs = self.journal.outputs_of(record)
        except NBRewindError as problem:
            log.warning("the outputs of a record cannot be read: %s", problem)
            return None
        self._used.add(entry.id)
        notes = notes_on(record, self.now, self.environment)
        for note in notes:
            if note.startswith("environment"):
                self.warn(f"cells are reused as they ran in another {note}")
        with self.live.holding():
            unloaded = self._unload_for(record)
            self.results.note_rebound((*record.writes.rebound, *record.writes.deleted))
            self.now.apply(record)
            self.order.note(record.writes)
            if unloaded:
                self.live.keep_for_lazy(self.now.table)
        self.virtual.apply(record)
        self.remaker.note_reused(entry)
        self.journal.hold(self.now.table)
        result, has_result = self.results.reuse(entry)
        report = CellReport(
            index=hint.ordinal,
            id=hint.cell_id,
            action="reused",
            recorded_seconds=record.seconds,
            reads=shown(record.reads.versions),
            writes=shown(record.writes.written),
            notes=notes,
            record=entry.id.hex(),
            seconds=time.perf_counter() - started,
        )
        self.trace.note_cell(report.action, record.source, started, report.seconds)
        return Reuse(record, outputs, report, result, has_result, cell.code)

    def _unload_for(self, record: ExecutionRecord) -> bool:
        """Take what is loaded out of the record's way; returns whether there was anything."""
        table, unloaded = self.now.table, False
        gone = [*record.writes.deleted]
        self.live.forget(gone)
        for group in record.writes.groups:
            current = table.group(next(iter(group.variables)))
            same = (
                current is not None
                and current.variables.keys() == group.variables.keys()
                and current.joint() == group.joint()
            )
            if not same:
                if any(map(self.live.is_loaded, group.variables)):
                    self.live.hold(self.live.entities.alive())
                    unloaded = True
                self.live.unload(group.variables)
        return unloaded

    # -- running ------------------------------------------------------------------------------

    def _prepare(self, cell: Cell) -> None:
        """Everything that code about to run may see is in place."""
        self.remaker.session_effects()
        magics = own_magics(cell, self.shell, self.live.entities)
        reached = reach(cell, self.now.table, magics.uses)
        wanted = set(reached.names) | (set(cell.names.deletes) & set(self.now.table))
        wanted |= {n for n in cell.raw_identifiers if n in self.live.lazy}
        self._load(set(self.live.lazy) if reached.everything else wanted)
        if reached.everything:
            self.order.apply(self.live.namespace)
        self.results.materialise(cell.names.results, self)
        self.virtual.settle(self.book, self.notebook, replay=self.mode == "replay")

    def _load(self, names: set[str]) -> None:
        with self.live.holding():
            with stopwatch.measure("restore"):
                lost = self.live.load(names, self.now.table, self.remaker.remake)
            self.live.keep_for_lazy(self.now.table)
        for name in lost:
            self.warn(f"{plain_name(name)} could not be restored; run its cell again")
            self.now.table.drop([name])
            self.live.forget([name])

    def _load_for_child(self) -> None:
        """The running cell forks: what is not loaded now would be missing in the child.

        What the cell has bound anew is left alone, with all that belongs to it, and so is
        what only running a cell could make.
        """
        table, space = self.now.table, self.shell.user_ns
        groups = {name: table.group(name) for name in self.live.lazy}
        wanted = [
            name
            for name, group in groups.items()
            if group is not None and not any(other in space for other in group.variables)
        ]
        self.live.load(wanted, table, lambda group: False)

    def _start(self, cell: Cell, hint: CellHint, report: CellReport, started: float) -> RunningCell:
        magics = own_magics(cell, self.shell, self.live.entities)
        reached = reach(cell, self.now.table, magics.uses)
        self.hidden = self.shell.hidden_names()
        registries = dict(self.shell.registries())
        self.observers.begin(
            thorough=bool(cell.names.calls and (reached.closure.modules or cell.names.imports)),
            named=self._named(cell, reached),
        )
        self.live.places.begin(reached.names)
        running = RunningCell(cell, hint, reached, magics, report, registries, started)
        self.runs.begin(running)
        return running

    def _named(self, cell: Cell, reached: Reach) -> Named:
        """The paths that a cell, and what it can reach, names."""
        values = [
            self.live.value(name)
            for name in reached.names
            if not is_place_name(name) and self.live.is_loaded(name)
        ]
        names = cell.names
        words = names.attributes | names.reads
        return named(names.strings, names.modes, words, values, os.getcwd())

    def _finish(self, running: RunningCell, outcome: CellOutcome) -> CellReport:
        seconds = time.perf_counter() - running.clock
        observed = self.observers.end()
        report = running.report
        if outcome.status != "ok":
            report.action = "failed"
        entry, changes = self._record(running, outcome, observed, seconds)
        record = entry.record
        report.record = entry.id.hex()
        report.reads = shown(name for name in record.reads.versions if name in self.now.table)
        report.writes = shown(record.writes.written)
        self._follow(changes, record)
        self.runs.follow(running, outcome)
        report.seconds = time.perf_counter() - running.started
        self.trace.note_cell(report.action, record.source, running.started, report.seconds)
        return report

    def _record(
        self, running: RunningCell, outcome: CellOutcome, observed: Observed, seconds: float
    ) -> tuple[Entry, Changes]:
        table, completed = self.now.table, outcome.status == "ok"
        self.hidden = self.shell.hidden_names()
        stopwatch.take_totals()
        with stopwatch.measure("detect"):
            changes = look_at_changes(self.live, table, touch_of(running, completed), self.hidden)
        self.results.note_rebound(changes.rebound | changes.deleted)
        draft = draft_record(
            running, outcome, observed, changes, self.now, self.observers, self.shell
        )
        draft = msgspec.structs.replace(draft, notebook=self.notebook, seconds=seconds)
        result = self.results.result_of(outcome, draft, changes)
        draft = msgspec.structs.replace(draft, result=result)
        recipe = draft.recipe()

        def make_writes(store_group: StoreGroup) -> Writes:
            return Writes(
                groups=write_groups(
                    self.live, table, changes, recipe, store_group, self.observers.tidy
                ),
                written=tuple(sorted(changes.changed | changes.rebound)),
                rebound=in_order_of(changes.rebound, self.live.namespace),
                deleted=tuple(sorted(changes.deleted)),
            )

        entry, running.report.checkpoint_bytes = self.journal.commit(
            draft, make_writes, outcome.outputs
        )
        self._used.add(entry.id)
        return entry, changes

    def _follow(self, changes: Changes, record: ExecutionRecord) -> None:
        """Make the session's versions those the run left."""
        self._take_over(changes, record.writes.groups)
        self.order.note(record.writes)
        for access in record.ambient:
            if access.write is not None:
                self.now.ambient[access.provider] = access.write
        for file in record.files:
            self.now.files.pop(file.path, None)
        if record.result is not None:
            self.now.results.append(record.result)
        self.journal.hold(self.now.table)

    def _take_over(self, changes: Changes, groups: tuple[Group, ...]) -> None:
        table = self.now.table
        table.drop(changes.rebound | changes.deleted)
        for group in groups:
            table.put(group)
        self.live.forget(changes.deleted)
        for name, dump in changes.dumps.items():
            self.live.prints[name] = dump.fingerprint
            self.live.lazy.discard(name)
            self.live.note_id(name)
        if changes.sharing is not None:
            self.live.note_ties(changes.dumps, changes.sharing.ties)
        table.sweep()
        self.live.keep_for_lazy(table)
        self.live.entities.fresh.clear()

    def _give_up(self, problem: Exception) -> None:
        """A fault of ours: from here on the session is a plain kernel's (law L6)."""
        log.error("a fault inside NBRewind", exc_info=problem)
        self._lost = True
        self._running = None
        self.warn(
            f"nothing more is recorded or reused in this session: {type(problem).__name__}: "
            f"{problem}; please report this"
        )
        try:
            self._load(set(self.live.lazy))
            self.observers.close()
        except Exception as another:
            log.error("while loading what was not loaded", exc_info=another)

    # -- small things -----------------------------------------------------------------------

    def warn(self, message: str) -> None:
        """Tell the user about a problem, once."""
        if message not in self.warnings:
            self.warnings.append(message)
            log.warning(message)


def shown(names: Any) -> list[str]:
    """Names as people know them: entities without their digests, each once; no places."""
    plain = (plain_name(name) for name in names if not is_place_name(name))
    return sorted(set(plain))
