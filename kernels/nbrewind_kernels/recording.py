"""What a run did to the namespace: the writes of its record.

Only *touched* names are looked at: those the cell's code can reach, those it may
store, those whose object is another one than before, and their co-variables.
A touched name is examined once. Sharing is worked out anew even if no value changed:
`a[0] = b[0]` ties two names together whose values were, and stay, equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import compress
from operator import ne
from typing import Any

from nbrewind.model.blobs import ObjectId
from nbrewind.model.records import FormerGroup, Group, Uses, Variable, is_place_name
from nbrewind.model.versions import lineage_version
from nbrewind.state.capture import Dump, Examination
from nbrewind.state.entities import is_entity_name
from nbrewind.state.mutability import ATOMS
from nbrewind.state.sharing import Sharing
from nbrewind_analysis.table import VersionTable
from nbrewind_kernels.live import LiveNamespace

StoreGroup = Callable[[tuple[str, ...], Dump], ObjectId | None]
"""Stores a co-variable; returns None if nothing can be stored."""


MODULE_NAMES = frozenset(
    {"__name__", "__doc__", "__package__", "__loader__", "__spec__"}
    | {"__builtin__", "__builtins__", "__warningregistry__"}
)
"""Names that every module has of itself; `__version__` or `__annotations__` are the notebook's."""

_ATOM_NAMES = frozenset(kind.__name__ for kind in ATOMS)


@dataclass(frozen=True, slots=True)
class Touch:
    """What a run may have touched, as far as its code tells."""

    reached: frozenset[str]
    """Names and entities its code can reach."""
    may_store: frozenset[str]
    must_store: frozenset[str]
    must_delete: frozenset[str]
    everything: bool = False


@dataclass(slots=True)
class Changes:
    """The outcome of looking at the namespace after a run."""

    exam: Examination
    dumps: dict[str, Dump] = field(default_factory=dict)
    rebound: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    """Names whose value differs from what it was, in place or by a new binding."""
    deleted: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    """Names the code may or may not have stored: their old versions count as read."""
    components: list[tuple[str, ...]] = field(default_factory=list)
    """Co-variables that are new, changed or regrouped."""
    former: list[FormerGroup] = field(default_factory=list)
    sharing: Sharing | None = None
    held: list[Any] = field(default_factory=list)
    """Functions and classes looked at: perhaps nothing else keeps them from the collector."""


def user_names(live: LiveNamespace, hidden: frozenset[str]) -> list[str]:
    """The names of the namespace that are the notebook's own."""
    return [name for name in live.namespace.copy() if _is_own(name, hidden)]


def _is_own(name: str, hidden: frozenset[str]) -> bool:
    return name not in hidden and name not in MODULE_NAMES


def _bound_anew(live: LiveNamespace, hidden: frozenset[str]) -> set[str]:
    """Names that are bound to another object than after the last cell.

    Of ten thousand names few are: only those are looked at one by one.
    """
    space = live.namespace
    # Nothing in here runs Python code, so that no thread of the user comes between.
    differ = map(ne, map(live.ids.get, space), map(id, space.values()))
    return {name for name in [*compress(space, differ)] if _is_own(name, hidden)}


def look_at_changes(
    live: LiveNamespace, table: VersionTable, touch: Touch, hidden: frozenset[str]
) -> Changes:
    """Find out what a run changed.

    Args:
        live: the namespace; `live.ids` and `live.prints` are from before the run.
        table: versions before the run.
        touch: what the code may have touched.
        hidden: names that are the shell's.
    """
    live.entities.begin_look()
    anew = _bound_anew(live, hidden)
    places = live.places.present()
    anew |= live.places.arrived(places) | {n for n in places - live.lazy if n not in table}
    gone = {n for n in live.ids.keys() - live.namespace.keys() if n in table}
    gone |= table.places - live.lazy - places
    stored = anew | {n for n in touch.must_store if n in live.namespace and n not in hidden}
    may_store = touch.may_store | set(table) if touch.everything else touch.may_store
    doubtful = {
        n
        for n in may_store - touch.must_store
        if n in live.namespace and n not in stored and n in table
    }
    touched = stored | doubtful | {n for n in touch.reached if live.is_loaded(n)}
    if touch.everything:
        touched |= {*user_names(live, hidden)} | {n for n in table if live.is_loaded(n)}
    # Names that only shared with a name bound anew lose it and are otherwise as they were.
    for group in table.groups((touched - stored) | ((stored | gone) & touch.reached)):
        touched |= {n for n in group.variables if live.is_loaded(n)}
    changes = Changes(live.examination(_in_use(table, stored | gone)))
    changes.rebound, changes.deleted, changes.doubtful = stored, gone, doubtful
    changes.former = _read_and_lost(live, table, touch, stored | gone)
    for entity in filter(is_entity_name, [*touched]):
        found = live.entities.get(entity)
        if found is None:
            touched.discard(entity)  # collected since it was found loaded
        changes.held.append(found)
    _examine(live, table, touched - gone, changes)
    _find_changed(live, table, changes)
    several = sum(dump.may_share for dump in changes.dumps.values()) > 1
    if changes.changed or changes.rebound or changes.deleted or several:
        _regroup(live, table, changes)
    return changes


def _read_and_lost(
    live: LiveNamespace, table: VersionTable, touch: Touch, lost: set[str]
) -> list[FormerGroup]:
    """Co-variables of names that were read and then rebound or deleted.

    Their old values may have been mutated before they went (`x += [1]` does both), which
    any other name that shares them must see: such a run fits no other grouping. The same
    holds for functions and classes that went with them.
    """
    former = []
    for name in touch.reached:
        if is_entity_name(name) and name in table and live.entities.get(name) is None:
            former.append(FormerGroup((name,), ""))
    for group in table.groups(lost & touch.reached):
        rest = group.without(frozenset(lost - touch.reached))
        if rest is None or all(v.type in _ATOM_NAMES for v in rest.variables.values()):
            continue
        former.append(FormerGroup(tuple(sorted(rest.variables)), rest.joint()))
    return former


def _in_use(table: VersionTable, lost: set[str]) -> Callable[[str], bool]:
    found: set[str] | None = None

    def in_use(entity: str) -> bool:
        nonlocal found
        if entity not in table:
            return False
        if found is None:
            found = table.entities_kept_without(lost)
        return entity in found

    return in_use


def _examine(
    live: LiveNamespace, table: VersionTable, touched: Iterable[str], changes: Changes
) -> None:
    waiting = sorted(touched)
    while waiting:
        name = waiting.pop()
        if name in changes.dumps:
            continue
        dump = changes.dumps[name] = live.look(changes.exam, name)
        if is_place_name(name):
            for part in live.places.parts(name) - changes.dumps.keys():
                if part not in table or part in changes.deleted:
                    changes.deleted.discard(part)
                    changes.rebound.add(part)
                    waiting.append(part)
        for entity in dump.entities:
            if entity in live.entities.fresh or entity not in table:
                live.lazy.discard(entity)
                changes.rebound.add(entity)
                waiting.append(entity)


def _find_changed(live: LiveNamespace, table: VersionTable, changes: Changes) -> None:
    for name, dump in changes.dumps.items():
        former = live.prints.get(name)
        if name not in table or not dump.fingerprint or dump.fingerprint != former:
            changes.changed.add(name)
            changes.doubtful.discard(name)


def _regroup(live: LiveNamespace, table: VersionTable, changes: Changes) -> None:
    """Keep co-variables that merely lost names; collect those that are new or different."""
    rest = table.copy()
    rest.drop(changes.rebound | changes.deleted)
    sharing = changes.sharing = Sharing(changes.dumps)
    for names in sharing.components():
        group = rest.group(names[0])
        same = group is not None and tuple(sorted(group.variables)) == names
        # Held against this session's own look: after a restore, positions may be others than
        # those in the record.
        tied = same and sharing.pairs(names) == live.ties_among(names)
        if tied and not changes.changed.intersection(names):
            continue
        changes.components.append(names)
        for former in rest.groups(names):
            changes.former.append(FormerGroup(tuple(sorted(former.variables)), former.joint()))


def write_groups(
    live: LiveNamespace,
    table: VersionTable,
    changes: Changes,
    recipe: str,
    store_group: StoreGroup,
    tidy_modules: Callable[[Uses], Uses],
) -> tuple[Group, ...]:
    """The co-variables of a record, stored where that is possible."""
    groups = []
    for names in changes.components:
        variables = {name: _variable(name, table, changes, recipe, tidy_modules) for name in names}
        sharing = changes.sharing.pairs(names) if changes.sharing is not None else {}
        dump = _joint_dump(live, names, changes)
        manifest = None if dump is None else store_group(names, dump)
        groups.append(Group(variables, sharing, manifest))
    return tuple(groups)


def _variable(
    name: str,
    table: VersionTable,
    changes: Changes,
    recipe: str,
    tidy_modules: Callable[[Uses], Uses],
) -> Variable:
    if name not in changes.changed and name in table:
        return table.variable(name)
    dump = changes.exam.finish(changes.dumps[name])
    own = lineage_version(recipe, name) if dump.problem else changes.exam.version(dump)
    return Variable(own, dump.type, dump.size, tidy_modules(dump.uses))


def _joint_dump(live: LiveNamespace, names: tuple[str, ...], changes: Changes) -> Dump | None:
    if any(changes.exam.finish(changes.dumps[name]).problem for name in names):
        return None
    if changes.sharing is not None and changes.sharing.broken.intersection(names):
        return None
    if len(names) == 1:
        return changes.dumps[names[0]]
    values = [live.value(name) for name in names]
    entities = {
        id(value): name for name, value in zip(names, values, strict=True) if is_entity_name(name)
    }
    dump = changes.exam.finish(changes.exam.look_together(values, entities))
    if dump.problem:
        return None
    changes.exam.find_leaves(dump)
    return dump
