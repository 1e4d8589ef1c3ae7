"""Which objects can change, so that names which have one of them in common hang together.

Told by type alone. What an immutable object contains may still be mutable.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import logging
import pathlib
import re
import sys
import types
import uuid
from typing import Any

from nbrewind.state.entities import MAIN

ATOMS = (int, float, bool, type(None), complex, str, bytes)
"""Exact types whose values hold nothing else, and can always be stored."""

_IMMUTABLE = (
    *(*ATOMS, tuple, frozenset, range, slice),
    *(types.FunctionType, types.BuiltinFunctionType, types.CodeType, types.ModuleType),
    types.MappingProxyType,
)
"""Exact types."""

_IMMUTABLE_BASES = (
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo),
    *(decimal.Decimal, enum.Enum, fractions.Fraction, uuid.UUID),
    *(pathlib.PurePath, re.Pattern, types.MethodType),
    *(logging.Logger, type),
)
"""Types with all that are derived from them."""

_VALUES = (
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo),
    *(decimal.Decimal, fractions.Fraction, uuid.UUID),
)
"""Types whose subclasses in the notebook can be given attributes that change."""

_VALUES_BY_ID = frozenset(map(id, _VALUES))
_BY_ID = frozenset(map(id, _IMMUTABLE))
_BASES_BY_ID = frozenset(map(id, _IMMUTABLE_BASES))

_CALLABLES_BY_NAME = frozenset(
    {"cython_function_or_method", "fused_cython_function", "ufunc", "method_descriptor"}
    | {"wrapper_descriptor", "builtin_function_or_method", "_ArrayFunctionDispatcher"}
)
"""Types of callables that pickle by their name, wherever they are defined."""
_IMMUTABLE_NAMES = {
    "numpy.generic": "numpy",
    "numpy.dtype": "numpy",
    "pandas.api.extensions.ExtensionDtype": "pandas",
    "pandas.Index": "pandas",
    "torch.dtype": "torch",
    "torch.device": "torch",
}


def is_mutable_type(kind: type) -> bool:
    """Whether objects of a type can change.

    Functions and classes do not count: most are shared by name, and whoever writes one by
    value knows which it is.
    """
    if id(kind) in _BY_ID or kind.__name__ in _CALLABLES_BY_NAME:
        return False
    bases = set(map(id, kind.__mro__))  # hashes, and `issubclass`, would run code of metaclasses
    if not bases.isdisjoint(_VALUES_BY_ID) and _may_have_attributes(kind):
        return True
    return bases.isdisjoint(_BASES_BY_ID) and bases.isdisjoint(_immutable_of_libraries())


def _may_have_attributes(kind: type) -> bool:
    module = type.__getattribute__(kind, "__module__")
    return module == MAIN and bool(type.__getattribute__(kind, "__dictoffset__"))


def _immutable_of_libraries() -> set[int]:
    """Ids of the classes in `_IMMUTABLE_NAMES` whose libraries are imported."""
    classes = set()
    for name, library in _IMMUTABLE_NAMES.items():
        found: Any = sys.modules.get(library)
        for part in name.split(".")[1:]:
            found = getattr(found, part, None)  # the library may be half imported
        if found is not None:
            classes.add(id(found))
    return classes
