"""An independent account of a namespace: values, types, and which objects are one.

Two namespaces with equal signatures are indistinguishable to code that looks at
values and at the identity of mutable objects. It shares nothing with capture on
purpose: it is what capture is judged by.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import functools
import re
import types
import uuid
from collections import deque
from typing import Any

_VALUES = (decimal.Decimal, fractions.Fraction, datetime.date, datetime.datetime, uuid.UUID)
"""Types whose instances nobody can change: `is` is not promised among equal ones."""

_ATOMS = (int, float, complex, bool, str, bytes, type(None), range, slice, type(Ellipsis))
_DISPATCHER = functools.singledispatch(print).__code__  # type: ignore[attr-defined]


def signature(namespace: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Describe some names of a namespace, with one numbering of objects for all."""
    walk = _Walk(namespace)
    return {name: walk.describe(namespace[name]) for name in sorted(names)}


class _Walk:
    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []

    def describe(self, value: Any) -> Any:
        kind = type(value)
        if kind in _ATOMS:
            return kind.__name__, repr(value)
        if any(base.__module__ == "numpy" and base.__name__ == "generic" for base in kind.__mro__):
            return kind.__name__, repr(value)
        if kind.__name__ == "_HAS_DEFAULT_FACTORY_CLASS":
            return "dataclasses", "default factory"  # a mark that only `repr` and `is` see
        if kind is frozenset:
            return "frozenset", sorted(repr(self.describe(item)) for item in value)
        if kind is tuple:
            return "tuple", [self.describe(item) for item in value]
        if isinstance(value, re.Pattern):  # immutable: which of two equal ones it is, is no matter
            return "pattern", repr(value)
        if isinstance(value, types.ModuleType):
            return "module", value.__name__
        if isinstance(value, type) and value.__module__ != "__main__":
            return "class", value.__module__, value.__qualname__
        if isinstance(value, (types.BuiltinFunctionType, types.MethodDescriptorType)):
            return "builtin", repr(value).split(" at 0x")[0]
        if kind in _VALUES:
            return kind.__name__, repr(value)
        number = self._numbers.get(id(value))
        if number is not None:
            return "again", number
        number = self._numbers[id(value)] = len(self._numbers)
        self._alive.append(value)
        return kind.__qualname__, number, self._parts(value)

    def _parts(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.MethodType):
            return [self.describe(value.__self__), self.describe(value.__func__)]
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, property):
            return [self.describe(part) for part in (value.fget, value.fset, value.fdel)]
        if isinstance(value, (classmethod, staticmethod)):
            return self.describe(value.__func__)
        if isinstance(value, functools.singledispatchmethod):
            return [self.describe(value.dispatcher), self.describe(value.func)]
        if isinstance(value, functools.partial):
            return [self.describe(part) for part in (value.func, value.args, value.keywords)]
        if isinstance(value, (list, dict, set, frozenset, tuple, deque)):
            return [self._container(value), self._state(value)]
        if kind.__name__ == "ndarray":
            return self._array(value)
        if kind.__module__.startswith("pandas") and kind.__name__ == "MultiIndex":
            return [repr(value.tolist()), repr(value.names)]
        if kind.__module__.startswith("pandas") and hasattr(value, "array"):
            return [str(value.dtype), repr(value.tolist()), repr(value.name)]
        if kind.__module__.startswith("pandas") and hasattr(value, "dtypes"):
            parts = [value.index, value.columns, *(column for _, column in value.items())]
            return [[str(part.dtype), repr(part.tolist())] for part in parts]
        state = self._state(value)
        if state:
            return [self.describe(type(value)), state]
        return [self.describe(type(value)), repr(value).split(" at 0x")[0]]

    def _state(self, value: Any) -> Any:
        """Attributes of an instance, in its dictionary and in slots."""
        state = getattr(value, "__dict__", None)
        found = [] if state is None else [["dict", self.describe(state)]]
        for cls in type(value).__mro__:
            for name, slot in vars(cls).items():
                if isinstance(slot, types.MemberDescriptorType) and cls.__module__ == "__main__":
                    found.append([name, self.describe(getattr(value, name, "unset"))])
        return found

    def _container(self, value: Any) -> Any:
        if isinstance(value, dict):
            pairs = [[self.describe(k), self.describe(v)] for k, v in value.items()]
            return pairs
        if isinstance(value, (list, tuple, deque)):
            return [self.describe(item) for item in value]
        return sorted(repr(self.describe(item)) for item in value)

    def _array(self, value: Any) -> Any:
        root = value
        while type(getattr(root, "base", None)) is type(value):
            root = root.base
        offset = value.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        owner = self.describe(root) if root is not value else "own"
        return [
            str(value.dtype),
            value.shape,
            re.sub("at 0x[0-9a-fA-F]+", "at 0x", repr(value.tolist())),
            owner,
            offset,
        ]

    def _function(self, function: Any) -> Any:
        if function.__code__ is _DISPATCHER:  # beside its registry it has a cache of look-ups
            return [[repr(cls), self.describe(made)] for cls, made in function.registry.items()]
        cells = []
        for cell in function.__closure__ or ():
            try:
                cells.append([self.describe(cell)[:2], self.describe(cell.cell_contents)])
            except ValueError:
                cells.append(["empty"])
        code = function.__code__
        return [
            function.__qualname__,
            code.co_code,
            [repr(c) for c in code.co_consts if not isinstance(c, types.CodeType)],
            code.co_names,
            self.describe(function.__defaults__ or None),
            self.describe(function.__kwdefaults__),
            self.describe(function.__dict__),
            cells,
            function.__globals__ is self._namespace,
        ]

    def _class(self, cls: type) -> Any:
        own = {
            key: value
            for key, value in vars(cls).items()
            if key not in ("__dict__", "__weakref__", "__firstlineno__", "__slotnames__")
            and not isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType))
        }
        bases = [self.describe(base) for base in cls.__bases__]
        return [cls.__qualname__, bases, [[k, self.describe(own[k])] for k in sorted(own)]]
