"""The live side of the version table: which names are loaded, and as what.

A name of the table is either *loaded* (its value is in the namespace, or it is an
entity whose object is alive) or *lazy* (known by its version only). Values are
loaded by co-variable, and only for code that is about to run.
"""

from __future__ import annotations

import logging
import marshal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations
from typing import Any

import msgspec

from nbrewind.errors import NotRestorable, StoreError
from nbrewind.model.blobs import ObjectId
from nbrewind.model.manifests import MANIFEST_FORMAT, Manifest, hash_mark
from nbrewind.model.records import Group, is_place_name, is_variable_name, plain_name
from nbrewind.state.canonical import is_as_stored
from nbrewind.state.capture import Dump, Examination
from nbrewind.state.entities import EntityTable, is_entity_name
from nbrewind.state.page_tracking import PageTracker
from nbrewind.state.pickling import Scope
from nbrewind.state.places import Places
from nbrewind.state.restoring import PYTHON, Loaded, Restore
from nbrewind.state.sharing import Sharing
from nbrewind.store.abc import Store, StoreWriter
from nbrewind.store.leaves import LeafHasher
from nbrewind_analysis.table import VersionTable

log = logging.getLogger(__name__)

Remake = Callable[[Group], bool]
"""Runs the cell that made a co-variable again; returns whether its names are loaded now."""

_MISSING = object()

_LARGEST_IMPORTED = 16 * 2**20
"""Bytes of a module's state up to which a copy is kept of how its import left it."""


class LiveNamespace:
    """Loads co-variables into the namespace and knows their fingerprints."""

    def __init__(self, namespace: dict[str, Any], places: Places, store: Store | None) -> None:
        self.namespace = namespace
        self.places = places
        self.store = store
        self.entities = EntityTable()
        self.hasher = LeafHasher() if store is None else store.hasher
        self.tracker = PageTracker.configured(self.hasher)
        self.lazy: set[str] = set()
        self.prints: dict[str, bytes] = {}
        """Fingerprint of each loaded name when it was captured or loaded last."""
        self._imported: dict[str, tuple[bytes, list[bytes], Mapping[str, bytes]]] = {}
        """By place: the stored form of a module's state right after its import."""
        places.imported = self._note_imported
        self.ties: dict[str, str] = {}
        """How pairs of loaded names shared state when it was looked at last, as `Group.sharing`."""
        self._loads: list[tuple[Group, Loaded]] = []
        """What was loaded just now, still to be compared with what was stored."""
        self._looks: dict[str, Dump] = {}
        self.distrusted: set[ObjectId] = set()
        """Manifests of what did not come back as it was stored."""
        self._held: list[Any] = []
        self._holders = 0
        self.rounds = 0
        """How often what others unloaded was loaded again, in the present `load`."""
        self._kept: list[Any] = []
        self.ids: dict[str, int] = {}
        """`id` of each loaded name's value at the end of the last cell."""

    # -- looking ------------------------------------------------------------------------

    def value(self, name: str) -> Any:
        """The live value of a name, place or entity. Raises `KeyError`."""
        if is_place_name(name):
            return self.places.get(name)
        if not is_entity_name(name):
            return self.namespace[name]
        found = self.entities.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def is_loaded(self, name: str) -> bool:
        """Whether a name has a live value."""
        if is_place_name(name):
            return name not in self.lazy and self.places.is_there(name)
        if is_entity_name(name):
            return name not in self.lazy and self.entities.get(name) is not None
        return name in self.namespace

    def examination(self, in_use: Callable[[str], bool] = lambda entity: False) -> Examination:
        """A fresh look at the namespace."""
        return Examination(Scope(self.namespace, self.entities, in_use), self.hasher, self.tracker)

    def look(self, exam: Examination, name: str) -> Dump:
        """Examine a name, a place, or an entity as itself."""
        dump = exam.look(self.value(name), name if is_entity_name(name) else "")
        if not dump.problem or not is_place_name(name):
            return dump
        # One value that cannot be stored shall not keep the rest from being followed.
        if self.places.leave_out(name, lambda value: bool(exam.look(value).problem)):
            return exam.look(self.value(name))
        return dump

    def has_problem(self, value: Any) -> bool:
        """Whether a value cannot be stored."""
        return bool(self.examination().look(value).problem)

    def _note_imported(self, name: str) -> None:
        exam = self.examination()
        dump = exam.finish(self.look(exam, name))
        if not dump.problem and dump.size <= _LARGEST_IMPORTED:
            codes = {digest: marshal.dumps(code) for digest, code in dump.codes.items()}
            self._imported[name] = dump.stream, [bytes(b) for b in dump.buffers], codes

    def as_imported(self, name: str) -> Any:
        """A copy of a module's state right after its import.

        Raises:
            NotRestorable: it was not imported in this session, or could not be kept.
        """
        if name not in self._imported:
            raise NotRestorable(f"how {plain_name(name)} was imported is not known")
        stream, buffers, codes = self._imported[name]
        restore = Restore(self.namespace, self.entities)
        (value,) = restore.load(stream, map(bytearray, buffers), codes, PYTHON).values
        return value

    # -- unloading ----------------------------------------------------------------------

    def unload(self, names: Iterable[str]) -> None:
        """Names now have values that are not loaded: take what is there out of the way."""
        for name in names:
            self.lazy.add(name)
            self.prints.pop(name, None)
            self.ids.pop(name, None)
            if is_variable_name(name):
                self.namespace.pop(name, None)

    def forget(self, names: Iterable[str]) -> None:
        """Names do not exist any more."""
        for name in names:
            self.lazy.discard(name)
            self.prints.pop(name, None)
            self.ids.pop(name, None)
            if is_entity_name(name):
                self.entities.forget(name)
            elif is_place_name(name):
                self.places.remove(name)
            else:
                self.namespace.pop(name, None)

    # -- loading ------------------------------------------------------------------------

    def load(self, names: Iterable[str], table: VersionTable, remake: Remake) -> list[str]:
        """Load what is lazy among `names`, whole co-variables at a time.

        Returns:
            Names that could be loaded in no way.
        """
        wanted = [name for name in names if name in table and self._is_missing(name)]
        self.lazy = {name for name in self.lazy if name in table}
        lost: set[str] = set()
        lazy = set(self.lazy)
        with self.holding():
            # Making a value again may unload others: those that point to a definition it made.
            # Where those have to be made again as well, by the same cell, that has no end.
            if self._holders == 1:
                self.rounds = 0
            while missing := [n for n in wanted if n not in lost and self._is_missing(n)]:
                self.rounds += 1
                lost.update(self._load_once(missing, table, remake))
                wanted += sorted(self.lazy - lazy - set(wanted))
        return [name for name in wanted if name in lost]

    def _load_once(self, wanted: list[str], table: VersionTable, remake: Remake) -> list[str]:
        lost: list[str] = []
        fresh: list[Group] = []
        restore = Restore(self.namespace, self.entities)
        busy: dict[int, int] = {}

        def ensure(name: str) -> bool:
            group = table.group(name)
            if group is None:
                self.lazy.discard(name)
                return False
            begun = busy.get(id(group), 0)
            # A class whose metaclass keeps it in a registry is needed while its own load
            # waits for the metaclass: it is begun once more, and the first load finds it.
            if not self._is_missing(name) or begun > 1 or (begun and self._is_alive(name)):
                return True
            busy[id(group)] = begun + 1
            if self._load_group(group, restore) or remake(group):
                self.lazy.difference_update(group.variables)
                fresh.append(group)
                return True
            return False

        def entity(name: str) -> Any:
            ensure(name)
            found = self.entities.get(name)
            if found is None:
                raise NotRestorable(f"{plain_name(name)} cannot be restored")
            return found

        restore.need_entity = entity
        restore.is_lazy = self._is_missing
        for name in wanted:
            if not ensure(name):
                lost.append(name)
        names = [name for group in fresh for name in group.variables]
        self.settle(names, [(*group.variables,) for group in fresh if len(group.variables) > 1])
        self._give_up_what_changed()
        return lost

    def _give_up_what_changed(self) -> None:
        """Unload what did not come back as it was stored: its cell has to run again."""
        for group, loaded in self._loads:
            names = tuple(sorted(group.variables))
            if self.lazy.isdisjoint(names) and not self.came_back(names, loaded, self._looks):
                log.warning("%s did not come back as it was stored", ", ".join(names))
                if group.manifest is not None:
                    self.distrusted.add(group.manifest)
                self.unload(names)
        self._loads.clear()
        self._looks.clear()

    def came_back(
        self, names: tuple[str, ...], loaded: Loaded, looks: Mapping[str, Dump] = {}
    ) -> bool:
        """Whether values that were loaded are what was stored.

        A class may pickle its instances in a way that loses something. That shows in a look
        at what was loaded, which is needed for the fingerprint anyway.

        Args:
            names: what the values are the values of.
            loaded: the values.
            looks: examinations of single values, by name, if they were made already.
        """
        if not all(map(is_variable_name, names)):
            return True
        dump = looks.get(names[0]) if len(names) == 1 else None
        return is_as_stored(dump or self.examination().look_together(loaded.values, {}), loaded)

    def hold(self, values: Any) -> None:
        """Keep values alive as long as somebody is `holding`."""
        if self._holders:
            self._held.append(values)

    def keep_for_lazy(self, table: VersionTable) -> None:
        """Keep alive the functions and classes that names which are not loaded refer to.

        In a plain session those names would do it. A function that shares its default with
        a loaded name must see what cells do to it meanwhile.
        """
        lazy = (name for name in self.lazy if not is_entity_name(name))
        self._kept = [self.entities.get(entity) for entity in table.entities_in_use(lazy)]

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Keep whatever is loaded alive meanwhile: entities die unless something holds them."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if not self._holders:
                self._held.clear()

    def _is_missing(self, name: str) -> bool:
        """Lazy, or an entity that died because nothing loaded holds it."""
        return name in self.lazy or (is_entity_name(name) and self.entities.get(name) is None)

    def _is_alive(self, name: str) -> bool:
        return not is_entity_name(name) or self.entities.get(name) is not None

    def settle(self, names: Iterable[str], tied: Iterable[tuple[str, ...]] = ()) -> None:
        """Take the present values of names as what their versions stand for.

        Args:
            names: names, loaded or not.
            tied: those of them that share state.
        """
        exam = self.examination()
        single = {(*group.variables,)[0] for group, _ in self._loads if len(group.variables) == 1}
        shared: dict[str, Dump] = {name: Dump("") for group in tied for name in group}
        for name in names:
            self.entities.fresh.discard(name)
            if self.is_loaded(name):
                dump = self.look(exam, name)
                if name in single:
                    self._looks[name] = dump
                self.prints[name] = dump.fingerprint
                self.note_id(name)
                if name in shared:
                    shared[name] = dump
        if shared:
            self.note_ties(shared, Sharing(shared).ties)

    def note_ties(self, names: Iterable[str], ties: Mapping[str, str]) -> None:
        """Remember how some names share state, and that they share no more than that."""
        known = set(names)
        kept = {p: tie for p, tie in self.ties.items() if known.isdisjoint(p.split("\0"))}
        self.ties = {**kept, **ties}

    def ties_among(self, names: tuple[str, ...]) -> dict[str, str]:
        """What was noted of how some names, which are sorted, share state."""
        if not self.ties:
            return {}
        pairs = map("\0".join, combinations(names, 2))
        return {pair: self.ties[pair] for pair in pairs if pair in self.ties}

    def note_id(self, name: str) -> None:
        """Remember which object a name is bound to, without holding on to it."""
        if is_variable_name(name):
            value = self.namespace.get(name, _MISSING)
            if value is not _MISSING:
                self.ids[name] = id(value)

    def _load_group(self, group: Group, restore: Restore) -> bool:
        if group.manifest is None or group.manifest in self.distrusted:
            return False
        if self._is_as_wanted(group):
            return True
        try:
            names, loaded = load_manifest(self.store, group.manifest, restore)
            self.hold(loaded.values)
            for name, value in zip(names, loaded.values, strict=True):
                if name in group.variables:
                    self.bind(name, value)
            if group.variables.keys() == set(names):
                self._loads.append((group, loaded))
        except (StoreError, NotRestorable) as problem:
            log.warning("%s cannot be loaded: %s", ", ".join(sorted(group.variables)), problem)
            return False
        return True

    def bind(self, name: str, value: Any) -> None:
        """Make a value that of a name or place; entities were bound while it was loaded."""
        if is_place_name(name):
            self.places.put(name, value)
        elif not is_entity_name(name):
            self.namespace[name] = value

    def _is_as_wanted(self, group: Group) -> bool:
        """Whether a place is already as its version says: its import made it so.

        Then its objects stay, which other objects of the process may hold on to.
        """
        (name, *others) = group.variables
        if others or not is_place_name(name) or not self.places.is_there(name):
            return False
        exam = self.examination()
        dump = self.look(exam, name)
        return not dump.problem and exam.version(exam.finish(dump)) == group.variables[name].own


def load_manifest(
    store: Store | None, manifest_id: ObjectId, restore: Restore
) -> tuple[tuple[str, ...], Loaded]:
    """The names of a stored co-variable, and it.

    Raises:
        StoreError: an object is missing or damaged.
        NotRestorable: the stream does not load here.
    """
    if store is None:
        raise NotRestorable("there is no store")
    try:
        manifest = msgspec.msgpack.decode(store.get(manifest_id), type=Manifest)
    except msgspec.MsgspecError as problem:
        raise NotRestorable(f"its manifest cannot be read: {problem}") from problem
    if manifest.format > MANIFEST_FORMAT:
        raise NotRestorable("it was stored by a newer NBRewind")
    stream = bytes(store.get_blob(manifest.stream))
    buffers = [
        memoryview(store.get_blob(blob)).toreadonly() if readonly else store.get_blob(blob)
        for blob, readonly in zip(manifest.buffers, manifest.readonly, strict=True)
    ]
    codes = {digest: bytes(store.get_blob(blob)) for digest, blob in manifest.codes.items()}
    loaded = restore.load(stream, buffers, codes, manifest.python)
    return manifest.names, replace(loaded, hashes_alike=manifest.hashes == hash_mark())


def store_manifest(writer: StoreWriter, names: tuple[str, ...], dump: Dump) -> ObjectId:
    """Add a co-variable to a commit; returns its manifest's id."""
    known: Sequence[Sequence[ObjectId] | None] = dump.leaves or [None] * len(dump.buffers)
    manifest = Manifest(
        names=names,
        stream=writer.put_stream(dump.stream),
        buffers=tuple(map(writer.put_blob, dump.buffers, known)),
        readonly=tuple(buffer.readonly for buffer in dump.buffers),
        codes={digest: writer.put_blob(marshal.dumps(code)) for digest, code in dump.codes.items()},
        python=PYTHON,
        hashes=hash_mark(),
    )
    return writer.put("manifest", msgspec.msgpack.encode(manifest))
