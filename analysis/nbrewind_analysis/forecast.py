"""The forecast: what a replay will do, worked out on versions alone, without running anything."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field

from nbrewind.model.blobs import ObjectId
from nbrewind.model.reasons import Reason
from nbrewind.model.records import ExecutionRecord, Group, Uses, Variable, plain_name
from nbrewind.model.reports import CellStatus, Forecast, StatusReport
from nbrewind.model.versions import Version
from nbrewind_analysis.book import Entry, RecordBook
from nbrewind_analysis.cells import Cell
from nbrewind_analysis.choice import CellHint, Choice, choose
from nbrewind_analysis.reach import reach
from nbrewind_analysis.repeating import is_repeatable
from nbrewind_analysis.runs import ends_at, may_be_run, run_name
from nbrewind_analysis.validity import RESULT_NAMES, EnvironmentPolicy, Situation

_UNKNOWN = "u"
"""First character of the version of a value that a cell yet to run will make."""


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A cell that will be asked for."""

    cell: Cell
    hint: CellHint
    force: bool = False


@dataclass(slots=True)
class Step:
    """One cell of a forecast."""

    status: Forecast
    choice: Choice
    needs: dict[str, ObjectId] = field(default_factory=dict)
    """Names it may read that are not stored → the record that makes them."""
    run: str = ""
    """The training run that a cell which runs may go on with."""
    results: frozenset[int] = frozenset()
    """Cells whose results it reads that are not stored."""

    @property
    def entry(self) -> Entry | None:
        """The record that is reused, or would be if nothing forced the cell to run."""
        return self.choice.entry


def foresee(
    plan: list[PlannedCell],
    book: RecordBook,
    now: Situation,
    environment: EnvironmentPolicy,
    forced: dict[int, Reason] | None = None,
) -> list[Step]:
    """Go through cells in order, as a replay would.

    Args:
        plan: the cells.
        book: the records.
        now: versions before the first cell; not changed.
        environment: what to make of changed distributions.
        forced: cells that must run whatever the records say; their records' effects are
            assumed to come out again.
    """
    situation = now.copy()
    used: set[ObjectId] = set()
    steps: list[Step] = []
    shown: list[int] = []
    for index, planned in enumerate(plan):
        cell = planned.cell
        reached = reach(cell, situation.table)
        needs = {
            name: group.producer
            for name in reached.names
            if (group := situation.table.group(name)) is not None
            and group.manifest is None
            and group.producer
        }
        results = _results_read(cell, situation, shown)
        choice = choose(
            book,
            cell.source,
            cell.digest,
            situation,
            planned.hint,
            used=used,
            environment=environment,
        )
        status: Forecast = "reusable"
        run = run_name(cell, situation) if choice.entry is None and may_be_run(cell) else ""
        if choice.entry is None:
            status = "may-run" if _rests_on_unknown(choice, situation) else "would-run"
            _assume_run(situation, choice, cell, index)
            if len(situation.results) > len(shown):
                shown.append(index)
        else:
            used.add(choice.entry.id)
            situation.apply(choice.entry.record)
            if len(situation.results) > len(shown):
                shown.append(index)
            if planned.force or (forced and index in forced):
                status = "would-run"
        steps.append(Step(status, choice, needs, run, results))
    return steps


def _results_read(cell: Cell, now: Situation, shown: list[int]) -> frozenset[int]:
    """Positions of cells whose results a cell reads and which are not stored by value."""
    found: set[int] = set()
    for name in cell.names.results:
        if name in now.table or now.is_plain_result(name):
            continue
        if name in RESULT_NAMES:
            found.update(shown[-len(name) :][:1])
        else:
            places = zip(shown, now.results, strict=False)
            found.update(i for i, result in places if result is not None and result.value is None)
    return frozenset(found)


def _mutations(steps: list[Step], maker: int, reader: int) -> list[int]:
    """Cells between that change in place what the maker's result is another name of."""
    entry = steps[maker].entry
    result = entry.record.result if entry is not None else None
    if result is None or not result.alias:
        return []
    found = []
    for index in range(maker + 1, reader):
        later = steps[index].entry
        writes = later.record.writes if later is not None else None
        if writes is not None and result.alias in set(writes.written) - set(writes.rebound):
            found.append(index)
    return found


def must_run(
    plan: list[PlannedCell],
    book: RecordBook,
    now: Situation,
    environment: EnvironmentPolicy,
) -> dict[int, Reason]:
    """Cells that have to run although they could be reused.

    A cell that will run may read a value that is not stored: then the chain of cells
    that makes it runs in its places. And before any cell runs, those earlier ones run
    whose effect on the process nothing else brings back.
    """
    forced: dict[int, Reason] = {}
    while True:
        steps = foresee(plan, book, now, environment, forced)
        makers = {step.entry.id: i for i, step in enumerate(steps) if step.entry is not None}
        running = [i for i, step in enumerate(steps) if step.status == "would-run"]
        found = dict(forced)
        for index in running:
            for name, producer in steps[index].needs.items():
                maker = makers.get(producer)
                if maker is not None and maker < index:
                    found.setdefault(maker, Reason("not-stored", plain_name(name), "it is needed"))
            for maker in steps[index].results:
                found.setdefault(maker, Reason("not-stored", "_", "its result is needed"))
                for later in _mutations(steps, maker, index):
                    found.setdefault(later, Reason("not-stored", "_", "it changes that result"))
        for step in (step for step in steps if step.status == "may-run"):
            for name, producer in step.needs.items():
                if producer in makers and not is_repeatable(producer, book):
                    reason = Reason("not-stored", plain_name(name), "it could not be made later")
                    found.setdefault(makers[producer], reason)
        if running:
            for index, step in enumerate(steps[: running[-1]]):
                others = step.entry.record.effects.others if step.entry is not None else ()
                if others:
                    found.setdefault(
                        index, Reason("session-effect", others[0], "later cells may need it")
                    )
        if len(found) == len(forced):
            return forced
        forced = found


def forecast(
    plan: list[PlannedCell],
    book: RecordBook,
    now: Situation,
    environment: EnvironmentPolicy,
    notebook: str,
    saved_steps: Callable[[str, int | None], int | None] = lambda run, until: None,
) -> StatusReport:
    """What `nbrewind replay` would do with a notebook.

    Args:
        plan: its cells.
        book: the records.
        now: versions before the first cell.
        environment: what to make of changed distributions.
        notebook: its path, for the report.
        saved_steps: tells how many steps of a training run are saved, of those up to an end.
    """
    forced = must_run(plan, book, now, environment)
    steps = foresee(plan, book, now, environment, forced)
    cells = []
    for index, (planned, step) in enumerate(zip(plan, steps, strict=True)):
        previous = step.choice.previous
        cells.append(
            CellStatus(
                index=index,
                id=planned.hint.cell_id,
                status=step.status,
                reasons=[forced[index]] if index in forced else step.choice.reasons,
                recorded_seconds=previous.record.seconds if previous else None,
                resumable_step=saved_steps(step.run, ends_at(planned.cell)) if step.run else None,
            )
        )
    counts = [cell.status for cell in cells]
    return StatusReport(
        notebook=notebook,
        reusable=counts.count("reusable"),
        would_run=counts.count("would-run"),
        may_run=counts.count("may-run"),
        cells=cells,
    )


def _rests_on_unknown(choice: Choice, now: Situation) -> bool:
    """Whether a record differs only in inputs that a cell yet to run may leave as they were."""
    if choice.previous is None or not choice.reasons:
        return False
    unknown = {
        plain_name(name)
        for name in choice.previous.record.reads.versions
        if now.table.own(name).startswith(_UNKNOWN)
    }
    for reason in choice.reasons:
        if reason.kind == "input-changed" and reason.subject in unknown:
            continue
        if reason.kind == "sharing-changed" and unknown:
            continue
        if reason.kind in ("ambient-changed", "file-changed") and _is_unknown(reason, now):
            continue
        return False
    return True


def _is_unknown(reason: Reason, now: Situation) -> bool:
    if reason.kind == "ambient-changed":
        return now.ambient.get(reason.subject, "").startswith(_UNKNOWN)
    # A folder's listing is as unknown as what cells that will run put into it.
    return any(
        version.startswith(_UNKNOWN)
        for path, version in now.files.items()
        if reason.subject in (path, posixpath.dirname(path) or ".")
    )


def _assume_run(now: Situation, choice: Choice, cell: Cell, index: int) -> None:
    """A cell will run: what it makes is not known, only which names it is about."""
    previous = choice.previous.record if choice.previous is not None else None
    version: Version = f"{_UNKNOWN}{index}"
    variables: dict[str, Variable] = {}
    if previous is not None:
        now.table.drop(previous.writes.deleted)
        variables = _writes_of(previous, version)
    names = (cell.names.stores | cell.names.deletes) - cell.names.definite_deletes
    for name in names - variables.keys():
        variables[name] = Variable(version, uses=_latent_uses(cell, name))
    now.table.drop(cell.names.definite_deletes)
    for name, variable in variables.items():
        now.table.put(Group({name: variable}))
    if previous is not None and previous.result is not None:
        now.results.append(previous.result)
    if previous is not None:
        for access in previous.ambient:
            if access.write is not None:
                now.ambient[access.provider] = version
        for file in previous.files:
            if file.write is not None:
                now.files[file.path] = version


def _writes_of(record: ExecutionRecord, version: Version) -> dict[str, Variable]:
    written = set(record.writes.written)
    return {
        name: Variable(version, uses=variable.uses)
        for group in record.writes.groups
        for name, variable in group.variables.items()
        if name in written
    }


def _latent_uses(cell: Cell, name: str) -> Uses:
    latent = cell.names.latent.get(name)
    if latent is None:
        return Uses()
    return Uses(loads=tuple(sorted(latent.loads)), stores=tuple(sorted(latent.stores)))
