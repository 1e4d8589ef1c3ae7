"""Which names share mutable state: co-variables and how they hang together.

Two names belong together iff their streams contain one mutable object, or memory
that overlaps. How they share is kept per pair of names as a digest over the
positions of the shared objects in the two streams: streams being equal, equal
digests mean equal sharing, and it can be cut down to any subset of the names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from itertools import combinations
from typing import Any

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
        pairs = map("\0".join, combinations(names, 2))
        return {pair: self.ties[pair] for pair in pairs if pair in self.ties}

    @cached_property
    def ties(self) -> dict[str, str]:
        """How any two names share that do, by their names."""
        table = {}
        for pair, positions in self._pairs.items():
            parts = (f"{i},{j}" for i, j in sorted(positions))
            table["\0".join(pair)] = combine("sharing", parts)[:24]
        return table

    def _join_objects(self, dumps: Mapping[str, Dump]) -> None:
        holders: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for name, parts in sorted(_in_several(dumps).items()):
            for key, position in dumps[name].positions(parts).items():
                holders[key].append((name, position))
        for key, places in holders.items():
            if all(dumps[name].lends(key) for name, _ in places):
                continue
            for name, _ in places[1:]:
                self._join(places[0][0], name)
            for (first, one), (second, other) in combinations(places, 2):
                self._pairs[first, second].append((one, other))

    def _join_memory(self, dumps: Mapping[str, Dump]) -> None:
        spans = sorted(
            (address, address + size, owner, name)
            for name, dump in dumps.items()
            for address, size, owner in dump.memory()
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


def _in_several(dumps: Mapping[str, Dump]) -> dict[str, list[Any]]:
    """Of each name, the objects that tie it to another one; most names have none."""
    parts = {name: dump.parts() for name, dump in dumps.items() if dump.may_share}
    met: dict[int, Any] = {}
    ids: set[int] = set()
    several: dict[int, Any] = {}
    # Values have millions of parts. Those of the largest are only looked up in the others, and
    # what an object is matters only for the few that were met before.
    order = sorted(parts, key=lambda name: len(parts[name]))
    for name in order:
        own = parts[name]
        common = [met[key] for key in ids.intersection(map(id, own))]
        several.update((id(obj), obj) for obj in dumps[name].tying(common))
        if name != order[-1]:
            mine = dict(zip(map(id, own), own, strict=True))
            met.update(mine)
            ids.update(mine)
    if not several:
        return {}
    return {
        name: dumps[name].tying(obj for obj in own if id(obj) in several)
        for name, own in parts.items()
    }
