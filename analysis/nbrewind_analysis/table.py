"""The version table: what every name of a notebook is worth, without its value."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable, Iterator, Set
from dataclasses import dataclass, field

from nbrewind.model.records import (
    Group,
    Uses,
    Variable,
    is_place_name,
    restrict_sharing,
)
from nbrewind.model.versions import ABSENT, Version
from nbrewind.state.code import FINALISER
from nbrewind.state.finalisers import CALLBACK
from nbrewind.state.places import LOGGING

_ENDINGS = frozenset({FINALISER, CALLBACK})


Linked = Callable[[Iterable[str]], set[str]]
"""Names of the local modules whose code may run when code uses some modules."""


@dataclass(slots=True)
class Closure:
    """Everything that code may reach, starting from some names."""

    names: set[str] = field(default_factory=set)
    """Names and entities that exist."""
    absent: set[str] = field(default_factory=set)
    """Names looked up that do not exist (they may be builtins)."""
    stores: set[str] = field(default_factory=set)
    """Global names that functions within reach store or delete."""
    attributes: set[str] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)
    dynamic: bool = False


class VersionTable:
    """Names, their versions, and how they hang together as co-variables."""

    def __init__(self, linked: Linked = set) -> None:
        self._linked = linked
        self._groups: dict[str, Group] = {}
        self._places: set[str] = set()
        self._entities: set[str] = set()
        self._referring: set[str] = set()
        """Variables and places whose values refer to entities."""
        self._swept = True
        """Nothing happened since that could leave an entity behind."""
        self._ending: set[str] = set()
        """Names whose values run code of the notebook when they end."""

    def __contains__(self, name: str) -> bool:
        return name in self._groups

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def copy(self) -> VersionTable:
        """An independent table with the same contents."""
        table = VersionTable(self._linked)
        table._groups = dict(self._groups)
        table._places = set(self._places)
        table._entities = set(self._entities)
        table._referring = set(self._referring)
        table._swept = self._swept
        table._ending = set(self._ending)
        return table

    @property
    def places(self) -> Set[str]:
        """The names of places."""
        return self._places

    def own(self, name: str) -> Version:
        """The version of a name's value; `absent` if there is none."""
        group = self._groups.get(name)
        return ABSENT if group is None else group.variables[name].own

    def variable(self, name: str) -> Variable:
        """What is known of a name. Raises `KeyError`."""
        return self._groups[name].variables[name]

    def group(self, name: str) -> Group | None:
        """The co-variable a name belongs to."""
        return self._groups.get(name)

    def groups(self, names: Iterable[str]) -> list[Group]:
        """The co-variables of some names, each once."""
        found = {id(g): g for g in map(self._groups.get, names) if g is not None}
        return list(found.values())

    def drop(self, names: Iterable[str]) -> None:
        """Names were rebound or deleted: take them out of their co-variables."""
        gone = frozenset(names)
        if not (gone.isdisjoint(self._referring) and gone.isdisjoint(self._entities)):
            self._swept = False
        for index in (self._places, self._entities, self._referring, self._ending):
            index -= gone
        for group in self.groups(gone):
            rest = group.without(gone)
            for name in group.variables:
                if name in gone:
                    del self._groups[name]
                elif rest is not None:
                    self._groups[name] = rest

    def put(self, group: Group) -> None:
        """Set a co-variable; its names leave those they were in."""
        self.drop(group.names)
        for name in group.variables:
            self._groups[name] = group
            if name.startswith("@"):
                self._entities.add(name)
                self._swept = False
            elif group.variables[name].uses.entities:
                self._referring.add(name)
            if is_place_name(name):
                self._places.add(name)
            if not _ENDINGS.isdisjoint(group.variables[name].uses.attributes):
                self._ending.add(name)

    def sharing(self, names: Iterable[str]) -> dict[str, str]:
        """How some names share state among each other."""
        wanted = frozenset(names)
        table: dict[str, str] = {}
        for group in self.groups(wanted):
            if len(group.variables) > 1 and len(wanted & group.names) > 1:
                table.update(restrict_sharing(group.sharing, wanted & group.names))
        return table

    def closure(
        self, names: Iterable[str], *, modules: Iterable[str] = (), dynamic: bool = False
    ) -> Closure:
        """Everything that code which loads `names` and imports `modules` may reach."""
        reached = Closure(modules=set(modules), dynamic=dynamic)
        waiting = list(names)
        while True:
            if not waiting:
                waiting += self._places_of(reached.modules) - reached.names
            if not waiting:
                break
            name = waiting.pop()
            if name in reached.names or name in reached.absent:
                continue
            group = self._groups.get(name)
            if group is None:
                reached.absent.add(name)
                continue
            reached.names.add(name)
            uses = group.variables[name].uses
            waiting += self._follow(uses, reached)
            if uses.dynamic and not reached.dynamic:
                reached.dynamic = True
        if reached.dynamic:
            for name in self._groups:
                reached.names.add(name)
                self._follow(self.variable(name).uses, reached)
        return reached

    def ended_by(self, names: Iterable[str]) -> Closure | None:
        """What happens when the values of some names end; None if nothing that shows."""
        known = [name for name in names if name in self._groups] if self._ending else []
        closure = self.closure(known)
        if closure.names.isdisjoint(self._ending):
            return None
        closure.dynamic = closure.dynamic or CALLBACK in closure.attributes
        return closure

    def _places_of(self, modules: set[str]) -> set[str]:
        """The places that code of some modules may look at or change."""
        if not self._places or not modules:
            return set()
        by_module: dict[str, list[str]] = {}
        for place in self._places:
            by_module.setdefault(place[1:].partition(":")[0], []).append(place)
        found: set[str] = set()
        for name in {*modules, *self._linked(modules)}:
            while name and name not in by_module:  # `module.attribute` means the module
                name = name.rpartition(".")[0]
            found.update(by_module.get(name, ()))
        found.discard(LOGGING)
        if LOGGING in self._places and any(map(_may_log, modules)):
            found.add(LOGGING)
        return found

    def entities_in_use(self, names: Iterable[str]) -> set[str]:
        """Entities that values of `names` refer to, directly or through others."""
        found: set[str] = set()
        waiting = [name for name in names if name in self._groups]
        while waiting:
            for entity in self.variable(waiting.pop()).uses.entities:
                if entity not in found:
                    found.add(entity)
                    if entity in self._groups:
                        waiting.append(entity)
        return found

    def entities_kept_without(self, lost: Container[str]) -> set[str]:
        """Entities that values refer to once some names are gone."""
        return self.entities_in_use(name for name in self._referring if name not in lost)

    def sweep(self) -> None:
        """Forget entities that no name leads to any more."""
        if not self._swept:
            self.drop(self._entities - self.entities_kept_without(()))
            self._swept = True

    @staticmethod
    def _follow(uses: Uses, reached: Closure) -> list[str]:
        reached.stores.update(uses.stores)
        reached.attributes.update(uses.attributes)
        reached.modules.update(uses.modules)
        return [*uses.loads, *uses.entities]


def _may_log(module: str) -> bool:
    """Whether code of a module may log: libraries do; the standard library leaves it to others."""
    top = module.split(".")[0]
    return top == "logging" or top not in sys.stdlib_module_names
