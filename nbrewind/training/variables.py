"""Plain variables of a cell that are saved with its training state: `losses`, counters, tables."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from nbrewind.errors import CheckpointError
from nbrewind.training import states, trees
from nbrewind.training.tensors import is_tensor


class Variables:
    """Those variables of `__main__` that the running cell assigns.

    Args:
        names: their names.
        state: what is saved by itself.
    """

    def __init__(self, names: Iterable[str], state: Mapping[str, Any]) -> None:
        self._names = tuple(names)
        self._state = {id(value) for value in state.values()}

    def capture(self) -> dict[str, Any]:
        """The values that are plain, or tensors, or made of such; others are left out."""
        space = sys.modules["__main__"].__dict__
        found = {}
        for name in self._names:
            value = space.get(name, _NOTHING)
            if value is _NOTHING or id(value) in self._state or isinstance(value, _NO_VALUES):
                continue
            try:
                trees.encode(states.collect({name: value}), is_tensor)
            except (CheckpointError, RecursionError):
                continue
            found[name] = value
        return found

    def put(self, values: Mapping[str, Any]) -> None:
        """Give the variables the values that were captured."""
        space = sys.modules["__main__"].__dict__
        for name, value in values.items():
            space[name] = self.put_into(space.get(name), value)

    @staticmethod
    def put_into(target: Any, value: Any) -> Any:
        """Put a value in place of another, into the same container where that is possible."""
        if type(target) is list and type(value) is list:
            target[:] = value
            return target
        if type(target) is dict and isinstance(value, dict):
            target.clear()
            target.update(value)
            return target
        if type(target) is set and isinstance(value, set):
            target.clear()
            target.update(value)
            return target
        return value


_NO_VALUES = (torch.nn.Module, torch.optim.Optimizer, types.ModuleType, types.FunctionType, type)
_NOTHING = object()
