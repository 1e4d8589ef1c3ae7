"""Learn that modules are being imported, without changing what user code can see.

A finder placed first asks the other finders, and lends the loader that they return an
`exec_module` of its own for this one import. Modules, specs and the types of loaders
stay what they were, and tracebacks of failing imports show no frame more.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from nbrewind.state.locations import is_library_file, library_folders

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Around:
    before: Callable[[], Any]
    after: Callable[[Any], None]
    libraries_only: bool


class ImportWatch(MetaPathFinder):
    """Calls back after chosen modules were imported, and around outermost imports.

    Args:
        root: The notebook's folder: tells modules of the project from those of libraries.

    A callback that fails is logged; the import goes on (law L6).
    """

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        # Finding the folders out imports modules, which must not happen inside a cell.
        library_folders(self._root)
        self._after: dict[str, list[Callable[[str], None]]] = {}
        self._around: list[_Around] = []
        self._here = threading.local()
        self.sought: dict[str, None] = {}
        """Modules looked for, by others than a library that is being imported, since this was
        cleared last; those that were imported meanwhile among them."""

    def after(self, modules: Iterable[str], callback: Callable[[str], None]) -> None:
        """Call `callback(name)` right after the code of one of these modules ran."""
        for module in modules:
            self._after.setdefault(module, []).append(callback)
        self._install()

    def around(
        self, before: Callable[[], Any], after: Callable[[Any], None], libraries_only: bool
    ) -> None:
        """Call `before` and `after` around the code of every outermost import.

        Args:
            before: What it returns is handed to `after`.
            after: Called when the import has ended, well or not.
            libraries_only: Outermost among imports of libraries: one that a module of
                the project asks for counts, the project's own do not.
        """
        self._around.append(_Around(before, after, libraries_only))
        self._install()

    def close(self) -> None:
        """Call nobody any more."""
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
        self._after.clear()
        self._around.clear()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """What the other finders find, its loader prepared if this import is of interest."""
        if fullname not in self._after and self._depth("library"):
            return None
        self.sought[fullname] = None
        spec = self._ask_others(fullname, path, target)
        if spec is None or spec.loader is None or isinstance(spec.loader, type):
            return spec
        try:
            self._prepare(spec.loader, self._is_library(spec))
        except (TypeError, AttributeError):
            # A loader without attributes of its own cannot be prepared; trackers still
            # notice the module when they look next.
            log.debug("import of %s is not watched", fullname)
        return spec

    def _install(self) -> None:
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def _ask_others(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        finders = list(sys.meta_path)
        if self not in finders:
            return None
        # Those before this one were asked already, maybe by another session's watch.
        for finder in finders[finders.index(self) + 1 :]:
            if hasattr(finder, "find_spec"):
                spec = finder.find_spec(fullname, path, target)
                if spec is not None:
                    return spec
        return None

    def _prepare(self, loader: Any, library: bool) -> None:
        lent = vars(loader).get("exec_module")
        if isinstance(lent, partial) and lent.args[:1] == (self,):
            return  # a loader that serves many modules and was prepared for another
        # Another session's watch may have lent it something already: that runs next.
        loader.exec_module = partial(_execute, self, loader, library, lent)

    def _is_library(self, spec: ModuleSpec) -> bool:
        origin = spec.origin
        return not spec.has_location or origin is None or is_library_file(origin, self._root)

    def _depth(self, kind: str) -> int:
        return getattr(self._here, kind, 0)

    def _enter(self, library: bool) -> list[tuple[_Around, Any]]:
        """Count an import in; returns whom to tell of its end."""
        first, first_library = not self._depth("any"), library and not self._depth("library")
        self._here.any = self._depth("any") + 1
        self._here.library = self._depth("library") + library
        told = [one for one in self._around if (first_library if one.libraries_only else first)]
        return [(one, self._guarded(one.before)) for one in told]

    def _leave(self, library: bool, told: list[tuple[_Around, Any]]) -> None:
        self._here.any -= 1
        self._here.library -= library
        for one, token in told:
            self._guarded(one.after, token)

    def _executed(self, name: str) -> None:
        for callback in self._after.get(name, ()):
            self._guarded(callback, name)

    def _guarded(self, call: Callable[..., Any], *args: Any) -> Any:
        try:
            return call(*args)
        except Exception:
            log.warning("watching imports failed", exc_info=True)
            return None


def _execute(watch: ImportWatch, loader: Any, library: bool, lent: Any, module: ModuleType) -> None:
    """Run a module's code with the loader's own method."""
    vars(loader).pop("exec_module", None)
    if lent is not None:
        loader.exec_module = lent
    told = watch._enter(library)
    try:
        loader.exec_module(module)
        watch._executed(module.__name__)
    finally:
        watch._leave(library, told)


# The interpreter cuts frames of its import machinery out of tracebacks, by file name.
_execute.__code__ = _execute.__code__.replace(co_filename="<frozen importlib._bootstrap_external>")
