"""A cell between its begin and its finish, and the draft of the record its run becomes."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from nbrewind.model.blobs import ObjectId
from nbrewind.model.records import ExecutionRecord, Reads, SessionEffects, is_place_name
from nbrewind.model.reports import CellReport
from nbrewind.model.versions import PRESENT, Version
from nbrewind.state.entities import is_entity_name
from nbrewind_analysis.cells import Cell
from nbrewind_analysis.choice import CellHint
from nbrewind_analysis.reach import Reach
from nbrewind_analysis.validity import Situation
from nbrewind_kernels.observers import MAGICS, SHELL, Observed, Observers
from nbrewind_kernels.own_magics import OwnMagics
from nbrewind_kernels.ports import CellOutcome, Shell
from nbrewind_kernels.recording import Changes, Touch

_INPUTS = re.compile(r"In|_ih|_i+|_i\d+")
"""Names of the texts of other cells."""

_RESULTS = frozenset({"_", "__", "___", "Out", "_oh", "In", "_ih"})


@dataclass(slots=True)
class RunningCell:
    """A cell that was begun."""

    cell: Cell
    hint: CellHint
    reached: Reach
    magics: OwnMagics
    report: CellReport
    registries: dict[str, int | str]
    """The shell's registries before the run."""
    started: float
    """Clock reading when the request came."""
    clock: float = field(default_factory=time.perf_counter)
    """Clock reading when the user's code began."""


def touch_of(running: RunningCell, completed: bool) -> Touch:
    """What a cell that ran may have touched; one that raised may have stored nothing."""
    reached = running.reached
    return Touch(
        frozenset(reached.names),
        reached.may_store,
        reached.must_store if completed else frozenset(),
        reached.must_delete,
        reached.everything,
    )


def draft_record(
    running: RunningCell,
    outcome: CellOutcome,
    observed: Observed,
    changes: Changes,
    before: Situation,
    observers: Observers,
    shell: Shell,
) -> ExecutionRecord:
    """The record of a run, as far as it does not depend on what is stored.

    Args:
        running: the cell.
        outcome: how the user's code ended.
        observed: what the observers saw.
        changes: what the run changed in the namespace.
        before: the versions before the run.
        observers: the session's observers.
        shell: the shell, after the run.
    """
    cell, hint = running.cell, running.hint
    made = [changes.dumps[name].uses for name in changes.rebound if _counts(name, changes)]
    accesses = observers.accesses(cell, running.reached.closure, observed, shell.user_ns, made)
    flags = outcome.flags | observed.flags | _flags(running, before)
    if accesses.clock:
        flags |= {"clock"}
    draft = ExecutionRecord(
        source=cell.source,
        source_digest=cell.digest,
        raw_source=cell.names.raw_text,
        cell_id=hint.cell_id,
        ordinal=hint.ordinal,
        started=time.time() - (time.perf_counter() - running.clock),
        reads=_reads(running, changes, before),
        ambient=accesses.ambient,
        files=accesses.files,
        modules=accesses.modules,
        packages=(*accesses.packages, *_parts_of_shell(running, outcome)),
        effects=_effects(running, observed, observers, shell),
        environment=accesses.environment,
        status=outcome.status,
        error=outcome.error,
        flags=tuple(sorted(flags)),
        cpu_seconds=observed.cpu_seconds,
        peak_bytes=observed.peak_bytes,
    )
    patches = observers.patches(draft.effects, draft.packages, before.ambient, cell, draft.recipe())
    return msgspec.structs.replace(draft, ambient=(*draft.ambient, *patches))


def _counts(name: str, changes: Changes) -> bool:
    """Whether what a new value refers to was used already: a mere definition uses nothing."""
    dump = changes.dumps.get(name)
    return dump is not None and not (is_entity_name(name) and dump.type == "function")


def _parts_of_shell(running: RunningCell, outcome: CellOutcome) -> Iterator[str]:
    """What of the shell a run depends on that a notebook can change."""
    if outcome.has_result or any("display" in output.type for output in outcome.outputs):
        yield SHELL  # it showed values through the shell's formatters
    if running.magics.called:
        yield MAGICS


def _flags(running: RunningCell, before: Situation) -> set[str]:
    """What cannot be told from the names a cell reads.

    A result that can be changed may be anything's alias, and the texts of other cells are
    no inputs: such a cell runs every time.
    """
    cell = running.cell
    if running.magics.hidden_state:
        return {"untracked"}
    if cell.names.raw_text and any(map(_INPUTS.fullmatch, cell.raw_identifiers)):
        return {"untracked"}
    if running.reached.everything and cell.names.strings & _RESULTS:
        return {"untracked"}
    results = cell.names.results
    safe = all(name in before.table or before.is_plain_result(name) for name in results)
    return set() if safe else {"untracked"}


def _reads(running: RunningCell, changes: Changes, before: Situation) -> Reads:
    table, closure = before.table, running.reached.closure
    versions = {name: table.own(name) for name in sorted(closure.names | closure.absent)}
    if _imports_what_is_there(running.cell, changes):
        versions = {n: v for n, v in versions.items() if not is_place_name(n)}
    # What was changed in place or perhaps not stored at all rests on what it was before.
    for name in (*changes.doubtful, *(changes.changed - changes.rebound)):
        versions[name] = table.own(name)
    for former in changes.former:
        versions.update((name, table.own(name)) for name in former.names)
    for name in filter(is_place_name, changes.rebound):
        versions[name] = table.own(name)
    for name in running.cell.names.deletes:
        versions.setdefault(name, PRESENT if name in table else table.own(name))
    for name in running.cell.names.results:
        versions[name] = before.version(name)
    manifests, producers = _origins(versions, before)
    return Reads(
        versions=versions,
        sharing=table.sharing(name for name in versions if name in table),
        former=tuple(changes.former),
        manifests=manifests,
        producers=producers,
        dynamic=running.reached.everything,
    )


def _imports_what_is_there(cell: Cell, changes: Changes) -> bool:
    """Whether a cell does no more than bind modules that were loaded: no code of theirs runs."""
    names = cell.names
    idle = not (names.reads or names.attributes or names.star_import or names.dynamic)
    return idle and not any(map(is_place_name, changes.rebound | changes.changed))


def _origins(
    versions: dict[str, Version], before: Situation
) -> tuple[dict[str, ObjectId], dict[str, ObjectId]]:
    """Where the values of names can be loaded from, and which records made them."""
    manifests: dict[str, ObjectId] = {}
    producers: dict[str, ObjectId] = {}
    for name in versions:
        group = before.table.group(name)
        if group is None:
            continue
        if group.manifest is not None:
            manifests[name] = group.manifest
        if group.producer:
            producers[name] = group.producer
    return manifests, producers


def _effects(
    running: RunningCell, observed: Observed, observers: Observers, shell: Shell
) -> SessionEffects:
    before = running.registries
    changed = [
        f"ipython:{name}" for name, now in shell.registries().items() if before.get(name) != now
    ]
    return observed.effects_with(
        changed,
        running.cell,
        shell.user_ns,
        observers.is_patchable,
        observers.settings_made(running.cell, shell.user_ns),
    )
