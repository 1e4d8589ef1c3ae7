"""Notice that code added attributes to modules or classes of others.

`tqdm.pandas()` gives `DataFrame` a new method, `math.tau2 = 1` a module a new name: only
running the cell again brings that back. Sizes of namespaces are compared, nothing is
copied. Replacing an attribute keeps the size and is not seen here.
"""

from __future__ import annotations

import abc
import builtins
import dis
import os
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeGuard

from nbrewind.state.locations import is_library_file

_HEAP_TYPE = 1 << 9
_IMMUTABLE_TYPE = 1 << 8
_NOTEBOOK = ("__main__", "__mp_main__")
_OURS = ("nbrewind", "debugpy", "pydevd", "_pydev")
_ERROR_DISPLAY = frozenset({"last_type", "last_value", "last_traceback", "last_exc"})

_class_space = type.__dict__["__dict__"].__get__
"""The namespace of a class, past what its metaclass says."""


class PatchWatch:
    """Sizes of the namespaces of all loaded modules and of their classes.

    Args:
        root: The notebook's folder: modules of the project are not looked at, because
            their state is versioned (`places`).
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, tuple[ModuleType, int]] = {}
        """Modules that were searched for classes, and their size then."""
        self._places: dict[int, int] = {}
        """Identity of an owner to its position in the lists below."""
        self._owners: list[ModuleType | type] = []
        self._spaces: list[Mapping[str, Any]] = []
        self._sizes: list[int] = []
        self._registrations: object = None
        """`abc`'s token: changes when a class is registered with an abstract one."""

    def begin(self) -> None:
        """Take the present sizes, also of what was loaded since the last time."""
        for name, module in list(sys.modules.items()):
            if not isinstance(module, ModuleType):
                continue
            known = self._known.get(name)
            size = len(module.__dict__)
            if known is not None and known[0] is module and known[1] == size:
                continue
            if name in _NOTEBOOK or name.startswith(_OURS) or self._is_project(module):
                continue
            self._known[name] = (module, size)
            self._own(module, module.__dict__)
            for value in list(module.__dict__.values()):
                if _is_class(value) and _is_patchable(value):
                    self._own(value, _class_space(value))
        self._sizes = list(map(len, self._spaces))
        self._registrations = abc.get_cache_token()

    def changes(self) -> list[str]:
        """Patches since `begin`: `patch:` and the dotted name of what was added.

        A removal cannot be named and is told as `patch:owner.(removed)`.
        """
        sizes = list(map(len, self._spaces))
        found: list[str] = []
        if abc.get_cache_token() != self._registrations:
            found += (f"patch:{name}.register" for name in _registered_with())
        if sizes == self._sizes:
            return found
        for position, (before, after) in enumerate(zip(self._sizes, sizes, strict=True)):
            if before != after:
                owner, space = self._owners[position], self._spaces[position]
                found += (f"patch:{name}" for name in self._patches(owner, space, before))
        return found

    def _own(self, owner: ModuleType | type, space: Mapping[str, Any]) -> None:
        # Owners are kept alive, so an identity stays theirs.
        if id(owner) not in self._places:
            self._places[id(owner)] = len(self._owners)
            self._owners.append(owner)
            self._spaces.append(space)

    def _patches(
        self, owner: ModuleType | type, space: Mapping[str, Any], before: int
    ) -> Iterator[str]:
        is_module = isinstance(owner, ModuleType)
        name = owner.__name__ if is_module else f"{owner.__module__}.{owner.__qualname__}"
        if len(space) < before:
            if owner is builtins:
                return  # IPython puts names there, and takes them away
            yield f"{name}.(removed)"
            return
        for added in list(space)[before:]:  # namespaces keep the order of insertion
            value = space[added]
            if (added.startswith("_") or owner is builtins) and not _is_from_notebook(value):
                continue  # caches, and what IPython puts into builtins
            if isinstance(owner, ModuleType):
                if self._is_own_doing(owner, added, value):
                    continue
            elif not _is_from_notebook(value) and _is_set_by_its_module(owner, added):
                continue
            yield f"{name}.{added}"

    def _is_project(self, module: ModuleType) -> bool:
        path = vars(module).get("__file__")
        return isinstance(path, str) and not is_library_file(os.path.abspath(path), self._root)

    def _is_own_doing(self, module: ModuleType, name: str, value: object) -> bool:
        """Whether a module's new global is no patch: a submodule, or set by itself when used."""
        if isinstance(value, ModuleType):
            return value.__name__ in sys.modules
        if module is sys and name in _ERROR_DISPLAY:
            return True
        origin = getattr(value, "__module__", None)
        if isinstance(origin, str) and _top(origin) == _top(module.__name__):
            return True  # the package's own functions: made when they are first used
        if "__getattr__" in vars(module) and _top(_origin(value)) == _top(module.__name__):
            return True  # imports its parts when they are first asked for
        if "__getattr__" in vars(module) and name in vars(module).get("__all__", ()):
            return True  # as does this one, from another package
        if any(_sets_global(code, name) for code in _codes(module)):
            return True
        siblings = [m for m, _ in self._known.values() if _top(m.__name__) == _top(module.__name__)]
        owner = module.__name__.rpartition(".")[2]
        return any(
            _sets_attribute(code, owner, name) for sibling in siblings for code in _codes(sibling)
        )


def _registered_with() -> list[str]:
    """Abstract classes of libraries that classes of the notebook are registered with."""
    found: list[str] = []
    waiting: list[type] = [object]
    seen: set[type] = set()
    while waiting:
        derived: type
        for derived in type.__subclasses__(waiting.pop()):
            if derived in seen:
                continue
            seen.add(derived)
            waiting.append(derived)
            if not isinstance(derived, abc.ABCMeta) or derived.__module__ in _NOTEBOOK:
                continue
            registered = abc._get_dump(derived)[0]
            if any(getattr(ref(), "__module__", "") in _NOTEBOOK for ref in registered):
                found.append(f"{derived.__module__}.{derived.__qualname__}")
    return sorted(found)


def _is_class(value: object) -> TypeGuard[type]:
    """As `isinstance(value, type)`, which would ask `__class__` of proxies that warn or load."""
    return issubclass(type(value), type)


def _is_patchable(cls: type) -> bool:
    flags = cls.__flags__
    if not flags & _HEAP_TYPE or flags & _IMMUTABLE_TYPE:
        return False
    return isinstance(cls.__module__, str) and not cls.__module__.startswith((*_NOTEBOOK, *_OURS))


def _origin(value: object) -> str:
    """The module that defines a function, class or property; empty for plain values."""
    if isinstance(value, property):
        value = value.fget
    if isinstance(value, classmethod | staticmethod):
        value = value.__func__
    origin = value.__module__ if isinstance(value, FunctionType | type) else None
    return origin if isinstance(origin, str) else ""


def _is_from_notebook(value: object) -> bool:
    return _origin(value) in _NOTEBOOK


def _top(name: str) -> str:
    return name.partition(".")[0]


_WRAPPERS = (classmethod, staticmethod, MethodType)


def _codes(module: ModuleType) -> Iterator[CodeType]:
    """Code of a module's functions and of the methods of its classes."""
    for value in list(vars(module).values()):
        members = list(_class_space(value).values()) if _is_class(value) else [value]
        for member in members:
            # A module or a proxy that is asked for an attribute may import something.
            inner = member.__func__ if type(member) in _WRAPPERS else member
            if isinstance(inner, FunctionType) and inner.__globals__ is vars(module):
                yield inner.__code__


def _sets_global(code: CodeType, name: str) -> bool:
    """Whether code assigns a global."""
    if name in code.co_names and any(
        step.opname == "STORE_GLOBAL" and step.argval == name for step in dis.get_instructions(code)
    ):
        return True
    return any(_sets_global(c, name) for c in code.co_consts if isinstance(c, CodeType))


def _sets_attribute(code: CodeType, owner: str, name: str) -> bool:
    """Whether code assigns `owner.name`; with no owner given, the attribute of anything."""
    if name in code.co_names and (not owner or owner in (*code.co_names, *code.co_varnames)):
        steps = list(dis.get_instructions(code))
        for loaded, step in pairwise(steps):
            if (step.opname, step.argval) == ("STORE_ATTR", name) and loaded.argval == (
                owner or loaded.argval
            ):
                return True
    return any(_sets_attribute(c, owner, name) for c in code.co_consts if isinstance(c, CodeType))


def _is_set_by_its_module(cls: type, name: str) -> bool:
    """Whether a module of a class or a base sets an attribute somewhere, on `cls` say."""
    modules = {sys.modules.get(base.__module__) for base in type.mro(cls)} - {None, builtins}
    return any(
        _sets_attribute(code, "", name) for module in modules if module for code in _codes(module)
    )
