"""Entities: the functions and classes a notebook defines, as things of their own.

Values refer to an entity by id instead of containing it. So a class is stored
once however many instances it has, instances do not share state through their
class, and after a restore `type(obj) is C` holds because both were resolved to
the one object that carries the id.

An id is `@qualname:definition digest:n`. `n` tells equal definitions apart that
are alive at the same time; it is 0 for nearly everything.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from typing import Any

from nbrewind.model.versions import combine
from nbrewind.state.code import code_digest

MAIN = "__main__"


def is_entity_name(name: str) -> bool:
    """Whether a name of the version table stands for an entity."""
    return name.startswith("@")


def is_notebook_class(cls: type) -> bool:
    """Whether a class was made by code of the notebook."""
    return getattr(cls, "__module__", None) == MAIN


def is_entity_class(cls: type) -> bool:
    """Whether a class is an entity: of the notebook, and not local to a function."""
    return is_notebook_class(cls) and "<locals>" not in cls.__qualname__


def is_entity_function(function: types.FunctionType, namespace: dict[str, Any]) -> bool:
    """Whether a function is an entity: of the notebook, named, at top level."""
    qualname = function.__qualname__
    return function.__globals__ is namespace and "." not in qualname and "<" not in qualname


def definition_digest(obj: types.FunctionType | type) -> str:
    """Digest of what a `def` or `class` statement said, blind to later changes of state."""
    if isinstance(obj, types.FunctionType):
        return code_digest(obj.__code__)[:16]
    parts = [obj.__qualname__, *(base.__qualname__ for base in obj.__bases__)]
    for key, value in type.__getattribute__(obj, "__dict__").items():
        code = _code_of(value)
        parts.append(f"{key}={'' if code is None else code_digest(code)}")
    return combine("class", parts)[:16]


def _code_of(value: object) -> types.CodeType | None:
    """The code of a method or property; other objects of the user are not asked for anything."""
    if issubclass(type(value), (classmethod, staticmethod)):
        value = value.__func__  # type: ignore[attr-defined]
    elif issubclass(type(value), property):
        value = value.fget  # type: ignore[attr-defined]
    return value.__code__ if type(value) is types.FunctionType else None


def carries(obj: Any, entity: str) -> bool:
    """Whether an object, just defined, is what an entity id was given for."""
    if not isinstance(obj, (types.FunctionType, type)):
        return False
    return entity.startswith(f"@{obj.__qualname__}:{definition_digest(obj)}:")


class EntityTable:
    """Which live object carries which entity id."""

    def __init__(self) -> None:
        self._objects: dict[str, weakref.ref[Any]] = {}
        self._ids: dict[int, tuple[str, weakref.ref[Any]]] = {}
        self._met: set[str] = set()
        self.fresh: set[str] = set()
        """Entities that were bound to an object since this set was cleared last."""

    def get(self, entity: str) -> Any | None:
        """The live object with this id, or None."""
        ref = self._objects.get(entity)
        return None if ref is None else ref()

    def alive(self) -> list[Any]:
        """The live objects of all ids."""
        return [obj for ref in self._objects.values() if (obj := ref()) is not None]

    def known_id(self, obj: Any) -> str | None:
        """The id of a live object that has one."""
        found = self._ids.get(id(obj))
        if found is None or found[1]() is not obj:
            return None
        return found[0]

    def identify(self, obj: Any, in_use: Callable[[str], bool]) -> str:
        """The id of an object, a new one if need be.

        Args:
            obj: a function or class of the notebook.
            in_use: whether an id is still referred to by state that is not loaded, or
                not being captured anew; such an id is not given to another object.
        """
        known = self.known_id(obj)
        if known is not None:
            self._met.add(known)
            return known
        stem = f"@{obj.__qualname__}:{definition_digest(obj)}:"
        n = 0
        while in_use(f"{stem}{n}") or self._is_taken(f"{stem}{n}"):
            n += 1
        self.bind(f"{stem}{n}", obj)
        return f"{stem}{n}"

    def _is_taken(self, entity: str) -> bool:
        """Whether another object was given this id, or was met under it, just now."""
        return entity in (self.fresh | self._met) and self.get(entity) is not None

    def begin_look(self) -> None:
        """The namespace is about to be looked at: what was met before is of no account."""
        self._met.clear()

    def bind(self, entity: str, obj: Any) -> None:
        """Give an id to an object; an object that had the id loses it."""
        former = self.get(entity)
        if former is not None and former is not obj:
            self._ids.pop(id(former), None)
        ref = weakref.ref(obj)
        self.fresh.add(entity)
        self._objects[entity] = ref
        self._ids[id(obj)] = (entity, ref)

    def forget(self, entity: str) -> None:
        """Take an id away from its object: the id now stands for a stored value."""
        former = self.get(entity)
        if former is not None:
            self._ids.pop(id(former), None)
        self._objects.pop(entity, None)

    def sweep(self) -> None:
        """Drop the entries of objects that are gone."""
        self._objects = {e: r for e, r in self._objects.items() if r() is not None}
        self._ids = {i: (e, r) for i, (e, r) in self._ids.items() if r() is not None}
