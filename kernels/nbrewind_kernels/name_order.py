"""The order of the notebook's names, as `globals()` and `dir` of a plain kernel have it.

Values that are loaded late would come last. What order they belong in follows from the
order in which cells bound them first, run or reused.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from nbrewind.model.records import Writes, is_variable_name


class NameOrder:
    """The names that exist, in the order in which they were bound first."""

    def __init__(self) -> None:
        self._order: dict[str, None] = {}

    def note(self, writes: Writes) -> None:
        """A cell was run or reused."""
        for name in writes.deleted:
            self._order.pop(name, None)
        self._order.update(dict.fromkeys(filter(is_variable_name, writes.rebound)))

    def apply(self, namespace: dict[str, Any]) -> None:
        """Put the names into their order; nothing happens where they are in it."""
        present = [name for name in namespace if name in self._order]
        wanted = [name for name in self._order if name in namespace]
        if present != wanted:
            for name in wanted:
                namespace[name] = namespace.pop(name)


def in_order_of(names: set[str], namespace: Collection[str]) -> tuple[str, ...]:
    """Names as a namespace has them; entities and places, which it has not, come last."""
    if len(names) < 2:
        return tuple(names)
    return (*(n for n in namespace if n in names), *sorted(names.difference(namespace)))
