"""Making values again that are not stored: their cell runs again, unseen, on its own inputs.

This is the way back for needs found late, when a reused cell's generator or
connection is asked for. The cell runs with the names it had read at their
recorded versions; afterwards namespace, generators and options are as before.
Batch runs plan ahead instead (`forecast.must_run`) and seldom get here.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nbrewind.errors import NBRewindError, NotRestorable, StoreError
from nbrewind.model.blobs import ObjectId
from nbrewind.model.reasons import Reason
from nbrewind.model.records import (
    ExecutionRecord,
    FileAccess,
    Group,
    is_place_name,
    is_variable_name,
    plain_name,
)
from nbrewind.model.versions import ABSENT, ENTROPY, PRESENT, Version
from nbrewind.state.digests import contents
from nbrewind.state.effects import FIGURES
from nbrewind.state.entities import carries, is_entity_name
from nbrewind.state.places import LOGGING
from nbrewind.state.put_back import put_back
from nbrewind.state.restoring import Restore
from nbrewind_analysis.book import Entry
from nbrewind_analysis.repeating import is_repeatable, refusal
from nbrewind_kernels.live import LiveNamespace, load_manifest

if TYPE_CHECKING:
    from nbrewind_kernels.engine import Engine

log = logging.getLogger(__name__)

_KEPT_BYTES = 64 * 2**20
"""Largest file that is kept in memory while a cell that writes it runs unseen."""

_MOST_ROUNDS = 3
"""Rounds of loading what was unloaded for the sake of new definitions."""

_MISSING = object()


class Remaker:
    """Runs recorded cells again in place of loading what they made."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._busy: list[ObjectId] = []
        self._effects_due: list[Entry] = []
        self._keeps_figures = False
        self._states: dict[tuple[str, Version], bytes] = {}

    # -- session effects ----------------------------------------------------------------

    def note_reused(self, entry: Entry) -> None:
        """A cell was reused: remember what only running it brings about."""
        for access in entry.record.ambient:
            if access.write is not None and access.state is not None:
                self._states[access.provider, access.write] = access.state
        if entry.record.effects.others:
            self._effects_due.append(entry)

    def session_effects(self) -> None:
        """Bring about what reused cells did to the process: imports first, then the rest."""
        self._engine.virtual.do_imports()
        due, self._effects_due = self._effects_due, []
        for entry in due:
            effects = ", ".join(entry.record.effects.others)
            try:
                self._keeps_figures = FIGURES in entry.record.effects.others
                self.run_again(entry.record)
            except NBRewindError as problem:
                self._engine.warn(f"{effects} of a reused cell could not be repeated: {problem}")
            finally:
                self._keeps_figures = False

    # -- values -------------------------------------------------------------------------

    def remake(self, group: Group) -> bool:
        """Make a co-variable's values again; returns whether they are in place now."""
        record = self._engine.book.get(group.producer) if group.producer else None
        if record is None:
            return False
        try:
            values, _ = self.run_again(record)
        except NBRewindError as problem:
            log.warning("%s cannot be made again: %s", ", ".join(sorted(group.variables)), problem)
            return False
        self._engine.live.hold(values)
        return self._put_in_place(group, values)

    def result_of(self, record: ExecutionRecord) -> tuple[bool, Any]:
        """The result of a recorded cell, by running it again."""
        try:
            _, result = self.run_again(record)
        except NBRewindError as problem:
            log.warning("a result cannot be made again: %s", problem)
            return False, None
        return True, result

    def only_now(self, record: ExecutionRecord, *, planned: bool) -> Reason | None:
        """Why a record that could be reused has to run all the same, while it can.

        It makes a value that is not stored, or changes one in place, and that could not be
        made again later, because a cell on the way to it is not repeated unseen.

        Args:
            record: what could be reused.
            planned: whether the cells to come are known; then those it makes are seen to.
        """
        live, table, book = self._engine.live, self._engine.now.table, self._engine.book
        for name in set(record.writes.written).difference(record.writes.rebound):
            group = table.group(name)
            if group is None or group.manifest is not None or not live.is_loaded(name):
                continue
            if not is_repeatable(group.producer, book):
                return Reason("not-stored", plain_name(name), "it can only be changed as it is")
        if not planned and (refusal(record) or _imports_anew(record)):
            for group in record.writes.groups:
                if group.manifest is None:
                    name = plain_name(min(group.variables))
                    return Reason("not-stored", name, "it could not be made again later")
        return None

    def run_again(self, record: ExecutionRecord) -> tuple[dict[str, Any], Any]:
        """Run a recorded cell on its recorded inputs.

        Returns:
            What the names it read and wrote were bound to, and its result.

        Raises:
            NotRestorable: it may not be repeated, its inputs cannot be had, or it failed.
        """
        engine = self._engine
        refused = refusal(record)
        if refused:
            raise NotRestorable(f"its cell is not repeated unseen ({refused})")
        key = record.recipe().encode()
        if key in self._busy:
            raise NotRestorable("its cell needs its own result")
        self._busy.append(key)
        try:
            with engine.live.holding():
                self._check_files(record)
                inputs = self._inputs(record)
                with self._files_kept(record):
                    return self._run(engine, record, inputs)
        finally:
            self._busy.pop()

    def _run(
        self, engine: Engine, record: ExecutionRecord, inputs: dict[str, Any]
    ) -> tuple[dict[str, Any], Any]:
        live = engine.live
        written = {name for group in record.writes.groups for name in group.variables}
        involved = {n for n in written | set(record.reads.versions) if not is_entity_name(n)}
        before = {name: _value(live, name) for name in involved}
        tracker = engine.observers.ambient
        saved = tracker.save()
        try:
            for name in involved:
                if name in inputs:
                    live.bind(name, inputs[name])
                elif is_variable_name(name) and not (
                    record.reads.versions.get(name) == ABSENT and name in engine.hidden
                ):
                    live.namespace.pop(name, None)
            self._set_generators(record)
            keep = self._keeps_figures and len(self._busy) == 1
            outcome = engine.shell.run_quietly(record.source, keep_figures=keep)
            if outcome.status != "ok":
                raise NotRestorable(f"its cell failed when it ran again: {outcome.error}")
            live.places.refresh(involved, live.has_problem)
            values = {name: _value(live, name) for name in involved}
            made = {name: value for name, value in values.items() if value is not _MISSING}
        finally:
            for name, value in before.items():
                self._put_back(name, value)
            tracker.restore_saved(saved)
        self._adopt_definitions(record, made)
        return made, outcome.result

    def _put_back(self, name: str, value: Any) -> None:
        live = self._engine.live
        if value is not _MISSING:
            live.bind(name, value)
        elif is_variable_name(name):
            live.namespace.pop(name, None)

    def _put_in_place(self, group: Group, made: dict[str, Any]) -> bool:
        live = self._engine.live
        for name in group.variables:
            if is_entity_name(name):
                obj = _definition(name, made)
                if obj is not None:
                    live.entities.bind(name, obj)
                elif live.entities.get(name) is None:
                    return False
            elif name not in made:
                return False
        for name in group.variables:
            if not is_entity_name(name):
                live.bind(name, made[name])
        return True

    def _adopt_definitions(self, record: ExecutionRecord, made: dict[str, Any]) -> None:
        """Functions and classes that the run defined are the live ones from now on.

        What it made points to them. Values that were loaded before and point to the former
        ones are loaded again when they are needed.
        """
        engine = self._engine
        live, table = engine.live, engine.now.table
        written = {n: v.own for g in record.writes.groups for n, v in g.variables.items()}
        replaced: set[str] = set()
        definitions = set(filter(is_entity_name, record.writes.rebound))
        for entity in filter(is_entity_name, record.writes.rebound):
            obj = _definition(entity, made)
            if obj is None or live.entities.get(entity) is obj:
                continue
            live.entities.bind(entity, obj)
            if entity not in table:
                continue
            group = table.group(entity)
            if group is not None and not definitions.issuperset(group.variables):
                # What it shares with others is the run's own here: they are loaded together.
                live.unload(group.variables)
            elif table.own(entity) == written[entity]:
                live.lazy.discard(entity)
                live.settle([entity])
            else:
                live.lazy.add(entity)
            replaced.add(entity)
        if live.rounds > _MOST_ROUNDS:
            return  # they stay with the equal definition they were made with
        for name in list(table) if replaced else ():
            group = table.group(name)
            if group is None or group.manifest is None or not live.is_loaded(name):
                continue
            # Also through others: a name of a class whose base was replaced.
            if replaced & table.entities_in_use([name]):
                live.unload(group.variables)

    # -- inputs -------------------------------------------------------------------------

    def _inputs(self, record: ExecutionRecord) -> dict[str, Any]:
        """Fresh values for the names the record had read.

        Never the live ones: what the run makes may hold on to them, and whether it
        shares them with the notebook's names is for the version table to say.
        """
        engine, reads = self._engine, record.reads
        # Where only existence counted (`del x`), any value serves.
        inputs: dict[str, Any] = {n: None for n, v in reads.versions.items() if v == PRESENT}
        wanted = {
            name: version
            for name, version in reads.versions.items()
            if version not in (ABSENT, PRESENT)
        }
        runs: dict[ObjectId, dict[str, Any]] = {}  # what one cell made together stays together
        # Cells that run again first: what they define is what the rest is loaded with.
        for name in sorted(wanted, key=lambda n: (n in reads.manifests, not is_entity_name(n), n)):
            version = wanted[name]
            if set(name) == {"_"}:
                raise NotRestorable("its cell reads the result of another cell")
            if name in inputs:
                continue
            current = engine.now.table.own(name) == version
            if is_entity_name(name):
                self._need_entity(name, current, record, runs)
            elif name in reads.manifests:
                try:
                    self._load_into(inputs, reads.manifests[name], reads.manifests)
                except (NotRestorable, StoreError):
                    self._remake_into(inputs, name, record, runs)
            else:
                self._remake_into(inputs, name, record, runs)
        self._add_imported(inputs, record)
        missing = [n for n in wanted if n not in inputs and not is_entity_name(n)]
        if missing:
            raise NotRestorable(f"its inputs cannot be had: {', '.join(sorted(missing))}")
        return inputs

    def _add_imported(self, inputs: dict[str, Any], record: ExecutionRecord) -> None:
        """Local modules that the cell was the first to import are as their import left them."""
        live, reads = self._engine.live, record.reads.versions
        for name, version in reads.items():
            if not is_place_name(name) or version != ABSENT or not live.places.is_there(name):
                continue
            if name == LOGGING:
                inputs[name] = {}
            elif ":" not in name:
                inputs[name] = live.as_imported(name)
            elif reads.get(name.partition(":")[0]) == ABSENT and name in live.places.used:
                raise NotRestorable(f"{plain_name(name)} was used since its module was imported")

    def _need_entity(
        self,
        name: str,
        current: bool,
        record: ExecutionRecord,
        runs: dict[ObjectId, dict[str, Any]],
    ) -> None:
        """Put a function or class in place as the run saw it.

        There is one live object for it, so an earlier state is loaded into that; the
        present one is loaded again when something needs it.
        """
        engine = self._engine
        if name in engine.now.table and current:
            engine.live.load([name], engine.now.table, self.remake)
            return
        group = engine.now.table.group(name)
        manifest = record.reads.manifests.get(name)
        if manifest is None:
            # A run that reached it only through instances binds no name to it.
            made = _definition(name, self._values_for(name, record, runs))
            made = made or engine.live.entities.get(name)
            if made is None:
                raise NotRestorable(f"{plain_name(name)} was changed since its cell ran")
            engine.live.entities.bind(name, made)
        else:
            if group is not None and not self._is_being_made(group):
                engine.live.load([name], engine.now.table, self.remake)
            self._load_into({}, manifest, {})
        if group is not None:
            engine.live.lazy.update(n for n in group.variables if is_entity_name(n))

    def _is_being_made(self, group: Group) -> bool:
        record = self._engine.book.get(group.producer) if group.producer else None
        return record is not None and record.recipe().encode() in self._busy

    def _load_into(
        self, inputs: dict[str, Any], manifest: ObjectId, wanted: dict[str, ObjectId]
    ) -> None:
        live = self._engine.live

        def need(entity: str) -> Any:
            live.load([entity], self._engine.now.table, self.remake)
            found = live.entities.get(entity)
            if found is None:
                raise NotRestorable(f"{plain_name(entity)} cannot be restored")
            return found

        restore = Restore(live.namespace, live.entities, need)
        names, loaded = load_manifest(live.store, manifest, restore)
        live.hold(loaded.values)
        if not live.came_back(names, loaded):
            raise NotRestorable(f"{', '.join(names)} did not come back as it was stored")
        for name, value in zip(names, loaded.values, strict=True):
            if is_entity_name(name):
                self._unload_partners(name)
            elif wanted.get(name) == manifest:
                inputs[name] = value

    def _unload_partners(self, entity: str) -> None:
        """A live function was given what belongs to fresh inputs: it has to be loaded again.

        So have the names that share its default, or whatever ties them to it.
        """
        live, group = self._engine.live, self._engine.now.table.group(entity)
        if group is not None and group.manifest is not None and len(group.variables) > 1:
            live.unload(group.variables)

    def _remake_into(
        self,
        inputs: dict[str, Any],
        name: str,
        record: ExecutionRecord,
        runs: dict[ObjectId, dict[str, Any]],
    ) -> None:
        producers = record.reads.producers
        for other, value in self._values_for(name, record, runs).items():
            if producers.get(other) == producers[name] and other not in inputs:
                inputs[other] = value

    def _values_for(
        self, name: str, record: ExecutionRecord, runs: dict[ObjectId, dict[str, Any]]
    ) -> dict[str, Any]:
        """What the cell that made an input makes when it runs again, once per need."""
        producer = record.reads.producers.get(name)
        earlier = self._engine.book.get(producer) if producer else None
        if producer is None or earlier is None:
            raise NotRestorable(f"the record that made {name} is gone")
        if producer not in runs:
            runs[producer], _ = self.run_again(earlier)
        return runs[producer]

    def _set_generators(self, record: ExecutionRecord) -> None:
        tracker = self._engine.observers.ambient
        for access in record.ambient:
            if access.read is None:
                continue
            if access.read == ENTROPY:
                state = access.start
            else:
                state = self._states.get((access.provider, access.read))
            if state is not None:
                tracker.set(access.provider, access.read, state)

    @contextmanager
    def _files_kept(self, record: ExecutionRecord) -> Iterator[None]:
        """Put the files that a cell writes back as they are now once it has run."""
        root = self._engine.surroundings.root
        kept: list[tuple[FileAccess, bytes | None]] = []
        for access in record.files:
            if access.write is None or access.path.startswith("/"):
                continue
            path = root / access.path
            there, folder = os.path.lexists(path), access.directory or path.is_dir()
            data = None if folder or not there else contents(str(path), _KEPT_BYTES)
            if there and not folder and data is None:
                raise NotRestorable(f"its cell writes {access.path}, which is in use or large")
            version = PRESENT if there else ABSENT
            mode = path.stat().st_mode & 0o777 if data is not None else access.mode
            kept.append((FileAccess(access.path, None, version, None, mode, folder), data))
        try:
            yield
        finally:
            for access, data in reversed(kept):
                put_back(root, access, data)
            self._engine.surroundings.forget()

    def _check_files(self, record: ExecutionRecord) -> None:
        engine = self._engine
        engine.virtual.settle_files()
        engine.surroundings.forget()
        for access in record.files:
            if access.read is None:
                continue
            if engine.now.file_version(access.path, access.read) != access.read:
                raise NotRestorable(f"{access.path} was changed since its cell ran")


def _value(live: LiveNamespace, name: str) -> Any:
    """The live value of a name or place; `_MISSING` if there is none."""
    try:
        return live.value(name)
    except KeyError:
        return _MISSING


def _imports_anew(record: ExecutionRecord) -> bool:
    """Whether a run was the first to import a local module: later it is there, and used."""
    return any(is_place_name(n) and v == ABSENT for n, v in record.reads.versions.items())


def _definition(entity: str, made: dict[str, Any]) -> Any | None:
    """The function or class that an id was given for, among what a run made.

    Usually bound to its own name; `functools.wraps` lends it another's.
    """
    first = made.get(plain_name(entity))
    return next((obj for obj in (first, *made.values()) if carries(obj, entity)), None)
