"""Local (project) modules: whose code a run may have used, and in which version.

A module is local if its file belongs neither to the interpreter nor to an installed
package; packages installed in editable mode count as local. The version of a loaded
module is that of the source it was loaded from, which may differ from what is on disk
by now.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from pkgutil import get_importer
from types import FunctionType, ModuleType
from typing import Any

from nbrewind.model.records import ModuleRead
from nbrewind.model.versions import ABSENT, Version
from nbrewind.state.audit import unheard
from nbrewind.state.digests import digest_file
from nbrewind.state.locations import inside, is_library_file
from nbrewind.state.module_imports import imports_of

_NEVER_LOCAL = frozenset({"__main__", "__mp_main__"})
_OURS = ("nbrewind", "nbrewind_kernels", "nbrewind_analysis", "nbrewind_packaging")


@dataclass(slots=True)
class _Loaded:
    """A local module as it was loaded."""

    spec: object
    """Replaced by `importlib.reload`: tells that the code was loaded again."""
    path: str
    version: Version


class LocalModules:
    """The local modules of one session.

    Args:
        root: The notebook's folder.

    `notice` should be called after every run: versions are those of the files at the
    first sight of a module.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._loaded: dict[str, _Loaded] = {}
        self._foreign: set[str] = set()
        """Loaded modules that are known not to be local."""
        self._reached: dict[tuple[frozenset[str], frozenset[str], int], list[ModuleRead]] = {}
        self._foreign_names: set[str] = set(sys.stdlib_module_names)
        """Top-level names that were found outside the project."""
        self.notice()

    def notice(self) -> None:
        """Take note of modules loaded or reloaded since the last time."""
        for name in sys.modules.keys() - self._foreign - self._loaded.keys():
            self._look_at(name)
        for name, loaded in list(self._loaded.items()):
            module = sys.modules.get(name)
            if module is None:
                del self._loaded[name]
            elif getattr(module, "__spec__", None) is not loaded.spec:
                del self._loaded[name]
                self._look_at(name)

    def loaded(self) -> list[str]:
        """Names of the local modules that are loaded."""
        self.notice()
        return [name for name in self._loaded if name in sys.modules]

    def is_local(self, name: str) -> bool:
        """Whether a module, imported or not, belongs to the project."""
        if name in self._loaded:
            return True
        if name in sys.modules:
            return name not in self._foreign and self._look_at(name)
        return self._find(name) is not None

    def version(self, name: str) -> Version:
        """Version of a local module's code: as loaded, else as on disk; `absent` if neither."""
        if self.is_local(name) and name in self._loaded:
            return self._loaded[name].version
        path = self._find(name)
        return digest_file(path) if path else ABSENT

    def is_importable(self, name: str) -> bool:
        """Whether an import statement would find a module now, local or not; imports nothing."""
        if name in sys.modules:
            return True
        if name in self._foreign_names or self._spec(name) is not None:
            return True
        return "." not in name and _search_folders(name, [str(self._root)]) is not None

    def on_disk(self, read: ModuleRead) -> Version:
        """The version that `read.name` has, or would have if it were imported now."""
        if read.name in sys.modules and self.is_local(read.name):
            return self.version(read.name)
        path = self._find(read.name)
        return digest_file(path if path else str(self._root / read.path))

    def reach(self, names: Iterable[str], imported: Iterable[str] = ()) -> list[ModuleRead]:
        """All local modules whose code may run when code uses and imports modules.

        Importing runs the packages around a module as well; using it does not.

        Args:
            names: Modules that are used, local or not; `package.module.attribute` is allowed.
            imported: Modules that are imported.

        Returns:
            The local ones among them, and what they refer to in turn: modules, and objects
            of modules, in their namespaces, and the targets of import statements anywhere
            in their source, imported yet or not.
        """
        self.notice()
        key = frozenset(names), frozenset(imported), len(self._loaded)
        if key in self._reached:
            return self._reached[key]
        names, imported, _ = key
        reached: dict[str, ModuleRead] = {}
        self._follow(reached, [p for name in imported for p in self._local_parts(name)], True)
        used = [part for name in names for part in self._nearest(name)]
        self._follow(reached, used, False)
        self._reached[key] = [reached[name] for name in sorted(reached)]
        return self._reached[key]

    def forget(self) -> None:
        """Sources and modules may have changed: work out anew what code reaches."""
        self._reached.clear()

    def _follow(self, reached: dict[str, ModuleRead], waiting: list[str], importing: bool) -> None:
        done: set[str] = set()
        while waiting:
            name = waiting.pop()
            path = None if name in done else self._path(name)
            done.add(name)
            if path is None:
                continue
            if name not in reached:
                reached[name] = ModuleRead(name, inside(self._root, path), self.version(name))
            names, late = self._used_by(name, path)
            for used in names:
                waiting += self._local_parts(used) if importing else self._nearest(used)
            for used in late:
                waiting += self._local_parts(used)

    def _look_at(self, name: str) -> bool:
        """Decide about a loaded module; True if it is local."""
        path = self._file_of(name, sys.modules.get(name))
        if path is None:
            self._foreign.add(name)
            return False
        spec = getattr(sys.modules.get(name), "__spec__", None)
        self._loaded[name] = _Loaded(spec, path, digest_file(path))
        return True

    def _file_of(self, name: str, module: object) -> str | None:
        """The file of a loaded module if it is local."""
        if name in _NEVER_LOCAL or name.partition(".")[0] in _OURS:
            return None
        if not isinstance(module, ModuleType):
            return None
        path = vars(module).get("__file__")
        if not isinstance(path, str) or path.startswith("<"):
            return None
        path = os.path.abspath(path)
        return None if is_library_file(path, self._root) else path

    def _path(self, name: str) -> str | None:
        loaded = self._loaded.get(name)
        return loaded.path if loaded else self._find(name)

    def _find(self, name: str) -> str | None:
        """The file of a local module that is not imported, found without running any code."""
        if name.partition(".")[0] in (*_OURS, *_NEVER_LOCAL):
            return None
        spec = self._spec(name)
        if spec is None or not spec.has_location or spec.origin is None:
            return None
        path = os.path.abspath(spec.origin)
        return None if is_library_file(path, self._root) else path

    def _spec(self, name: str) -> ModuleSpec | None:
        """A spec found along the search paths; None for what only exists in memory."""
        package = name.rpartition(".")[0]
        if not package:
            if name in self._foreign_names:
                return None
            spec = _search(name, None)
            if spec and spec.origin and is_library_file(spec.origin, self._root):
                self._foreign_names.add(name)
            return spec
        module = sys.modules.get(package)
        where: Any = getattr(module, "__path__", None)
        if where is None:
            parent = self._spec(package) if module is None else None
            where = parent.submodule_search_locations if parent else None
        return _search(name, list(where)) if where is not None else None

    def _local_parts(self, name: str) -> Iterator[str]:
        """The local ones of `a`, `a.b`, `a.b.c`: importing the last runs them all."""
        parts = name.split(".")
        if parts[0] in self._foreign_names and parts[0] not in self._loaded:
            return
        for end in range(1, len(parts) + 1):
            part = ".".join(parts[:end])
            if self.is_local(part):
                yield part

    def _nearest(self, name: str) -> list[str]:
        """The innermost local module of `a.b.c`."""
        return list(self._local_parts(name))[-1:]

    def _used_by(self, name: str, path: str) -> tuple[set[str], frozenset[str]]:
        """Names of modules that a local module refers to, and of those its functions import."""
        loaded = sys.modules.get(name)
        imports = imports_of(name, path)
        names = set(imports.names)
        if loaded is None:
            return names, imports.late
        for value in list(vars(loaded).values()):
            if issubclass(type(value), ModuleType):
                names.add(value.__name__)
            else:
                owner = _owner(value)
                if owner is not None and owner in self._loaded:
                    names.add(owner)
        names.discard(name)
        return names, imports.late


def _owner(value: object) -> str | None:
    """The module that defines a function or class, or an object's class."""
    # Asking any other object, even for its `__class__`, could run code of its own.
    kind: Any = type(value)
    definition: Any = value if issubclass(kind, type | FunctionType) else kind
    owner = definition.__module__
    return owner if isinstance(owner, str) else None


def _search(name: str, where: list[str] | None) -> ModuleSpec | None:
    """Search for a module like an import statement does, but run none of its code."""
    with unheard():
        try:
            if where is not None:
                return _search_folders(name, where)
            for finder in list(sys.meta_path):
                # Editable installs bring finders of their own; none imports a top-level module.
                find = getattr(finder, "find_spec", None)
                spec: ModuleSpec | None = find(name, None, None) if find else None
                if spec is not None:
                    return spec
        except (ImportError, ValueError, AttributeError):
            return None
    return None


def _search_folders(name: str, where: list[str]) -> ModuleSpec | None:
    """Search a package's folders; `PathFinder` wants namespace packages to be loaded."""
    portions: list[str] = []
    for folder in where:
        importer = get_importer(folder)
        spec = importer.find_spec(name) if importer is not None else None
        if spec is not None and spec.loader is not None:
            return spec
        portions += (spec.submodule_search_locations or ()) if spec is not None else ()
    if not portions:
        return None
    namespace = ModuleSpec(name, None, is_package=True)
    namespace.submodule_search_locations = portions
    return namespace
