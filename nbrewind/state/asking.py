"""Pickling that asks about every object: for values with a part whose writing pickle settles alone.

The C pickler writes floats and sets without asking. Where that loses something, the
identity of a NaN or the order of a frozen set, the value is written again by a pickler
that is asked for a name of each object. It takes longer, so it is used for such values only.
"""

from __future__ import annotations

from typing import Any

from nbrewind.state.nans import library_nans, load_nan, name_nan
from nbrewind.state.pickling import Scope, StatePickler
from nbrewind.state.set_order import FrozenOrder, make_frozen


class AskingPickler(StatePickler):
    """Writes NaN floats by their identity, and frozen sets in `frozen_sets` by their order."""

    def __init__(self, scope: Scope, frozen_sets: dict[int, FrozenOrder]) -> None:
        super().__init__(scope)
        self.frozen_sets = frozen_sets
        self._known = {id(value): name for name, value in library_nans().items()}
        self._numbers: dict[int, int] = {}

    def persistent_id(self, obj: Any) -> Any:
        """What stands for an object in the stream: None for most, which are written as usual."""
        kind = type(obj)
        if kind is float and obj != obj:
            known = self._known.get(id(obj))
            if known is not None:
                return known
            number, _ = self.nans.setdefault(id(obj), (len(self.nans), obj))
            return name_nan(obj, number)
        if kind is frozenset and id(obj) in self.frozen_sets:
            number = self._numbers.get(id(obj), -1)
            if number >= 0:
                return number
            self._numbers[id(obj)] = len(self._numbers)
            return self._numbers[id(obj)], self.frozen_sets[id(obj)]
        return None


class Answers:
    """Finds what the names in one stream stand for."""

    def __init__(self) -> None:
        self._nans: dict[str, float] = {}
        self._frozen_sets: dict[int, frozenset[Any]] = {}

    def find(self, name: Any) -> Any:
        """The object that `AskingPickler` gave a name."""
        if isinstance(name, str):
            return load_nan(name, self._nans)
        if isinstance(name, tuple):
            number, order = name
            found = self._frozen_sets[number] = make_frozen(order)
            return found
        return self._frozen_sets[name]
