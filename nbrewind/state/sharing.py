"""Which names share mutable state: co-variables and how they hang together.

Two names belong together iff their streams contain one mutable object, or memory
that overlaps. How they share is kept per pair of names as a digest over the
positions of the shared objects in the two streams: streams being equal, equal
digests mean equal sharing, and it can be cut down to any subset of the names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import combinations

from nbrewind.model.versions import combine
from nbrewind.state.capture import Dump


class Sharing:
    """The partition of some names into co-variables."""

    def __init__(self, dumps: Mapping[str, Dump]) -> None:
        self._parent = {name: name for name in dumps}
        self._pairs: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        self._join_objects(dumps)
        self.broken: set[str] = set()
        """Names that share memory in a way their streams cannot express."""
        self._join_memory(dumps)

    def components(self) -> list[tuple[str, ...]]:
        """The co-variables, each as sorted names."""
        members: dict[str, list[str]] = defaultdict(list)
        for name in sorted(self._parent):
            members[self._find(name)].append(name)
        return [tuple(names) for names in members.values()]

    def pairs(self, names: tuple[str, ...]) -> dict[str, str]:
        """The sharing table of one co-variable, as `Group.sharing` keeps it."""
        table: dict[str, str] = {}
        for pair in combinations(names, 2):
            positions = self._pairs.get(pair)
            if positions:
                parts = (f"{i},{j}" for i, j in sorted(positions))
                table["\0".join(pair)] = combine("sharing", parts)[:24]
        return table

    def _join_objects(self, dumps: Mapping[str, Dump]) -> None:
        for key, found in _in_several(dumps).items():
            places = [(name, dumps[name].position(key)) for name in sorted(found)]
            holders = [(name, position) for name, position in places if position is not None]
            for name, _ in holders[1:]:
                self._join(holders[0][0], name)
            for (first, one), (second, other) in combinations(holders, 2):
                self._pairs[first, second].append((one, other))

    def _join_memory(self, dumps: Mapping[str, Dump]) -> None:
        spans = sorted(
            (address, address + size, owner, name)
            for name, dump in dumps.items()
            for address, size, owner in dump.memory
            if size
        )
        reach: list[tuple[int, int, str]] = []
        for start, end, owner, name in spans:
            reach = [entry for entry in reach if entry[0] > start]
            for _, other_owner, other_name in reach:
                if other_owner != owner:
                    self._join(name, other_name)
                    self.broken.update((name, other_name))
            reach.append((end, owner, name))

    def _find(self, name: str) -> str:
        while self._parent[name] != name:
            self._parent[name] = self._parent[self._parent[name]]
            name = self._parent[name]
        return name

    def _join(self, one: str, other: str) -> None:
        first, second = sorted((self._find(one), self._find(other)))
        self._parent[second] = first


def _in_several(dumps: Mapping[str, Dump]) -> dict[int, list[str]]:
    """Objects, by id, that are part of several values; most values have millions, or none."""
    sharing = [name for name in dumps if dumps[name].may_share]
    if len(sharing) < 2:
        return {}
    sharing.sort(key=lambda name: len(dumps[name].ids()))
    found: dict[int, list[str]] = {}
    owner: dict[int, str] = {}
    for name in sharing:
        ids = dumps[name].ids()
        for key in ids & owner.keys():
            found.setdefault(key, [owner[key]]).append(name)
        if name != sharing[-1]:  # the largest is only looked up in the others
            owner.update(dict.fromkeys(ids - owner.keys(), name))
    return found
