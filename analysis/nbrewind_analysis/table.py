"""The version table: what every name of a notebook is worth, without its value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from nbrewind.model.records import Group, Uses, Variable, restrict_sharing
from nbrewind.model.versions import ABSENT, Version


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

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._groups

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def copy(self) -> VersionTable:
        """An independent table with the same contents."""
        table = VersionTable()
        table._groups = dict(self._groups)
        return table

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

    def sharing(self, names: Iterable[str]) -> dict[str, str]:
        """How some names share state among each other."""
        wanted = frozenset(names)
        table: dict[str, str] = {}
        for group in self.groups(wanted):
            if len(group.variables) > 1 and len(wanted & group.names) > 1:
                table.update(restrict_sharing(group.sharing, wanted & group.names))
        return table

    def closure(self, names: Iterable[str], *, dynamic: bool = False) -> Closure:
        """Everything that code which loads `names` may reach."""
        reached = Closure(dynamic=dynamic)
        waiting = list(names)
        while waiting:
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

    def sweep(self) -> None:
        """Forget entities that no name leads to any more."""
        entities = [name for name in self._groups if name.startswith("@")]
        if not entities:
            return
        used = self.entities_in_use(n for n in self._groups if not n.startswith("@"))
        dead = [entity for entity in entities if entity not in used]
        if dead:
            self.drop(dead)

    @staticmethod
    def _follow(uses: Uses, reached: Closure) -> list[str]:
        reached.stores.update(uses.stores)
        reached.attributes.update(uses.attributes)
        reached.modules.update(uses.modules)
        return [*uses.loads, *uses.entities]
