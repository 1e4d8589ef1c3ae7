"""Learn that a library is being imported, without changing what user code can see.

A finder placed first asks the other finders, and lends the loader that they return an
`exec_module` of its own for this one import. Modules, specs and the type of loaders
stay what they were, and tracebacks of failing imports show no frame more.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

log = logging.getLogger(__name__)


class ImportWatch(MetaPathFinder):
    """Calls back after chosen modules were imported and around imports of libraries.

    Args:
        watched: Modules whose first import is reported.
        after: Called with a watched module's name right after its code ran.
        is_library: Whether a spec belongs to a library, not to the project.
        before_library: Called before the code of an outermost library import runs;
            what it returns is handed to `after_library`.
        after_library: Called when that import has ended, well or not.
    """

    def __init__(
        self,
        watched: set[str],
        after: Callable[[str], None],
        is_library: Callable[[ModuleSpec], bool],
        before_library: Callable[[], Any],
        after_library: Callable[[Any], None],
    ) -> None:
        self._watched = watched
        self._after = after
        self._is_library = is_library
        self._before_library = before_library
        self._after_library = after_library
        self._here = threading.local()

    def install(self) -> None:
        """Become the first finder."""
        sys.meta_path.insert(0, self)

    def uninstall(self) -> None:
        """Leave the finders; imports under way end as they began."""
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]

    @property
    def importing(self) -> bool:
        """Whether this thread is in the middle of a library's import."""
        return bool(getattr(self._here, "depth", 0))

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """What the other finders find, its loader prepared if this import is of interest."""
        if fullname not in self._watched and self.importing:
            return None
        spec = self._ask_others(fullname, path, target)
        if spec is None or spec.loader is None or isinstance(spec.loader, type):
            return spec
        try:
            library = self._is_library(spec)
            if library or fullname in self._watched:
                attributes = vars(spec.loader)
                attributes.setdefault("exec_module", partial(_execute, self, spec.loader, library))
        except Exception:
            # A loader without attributes of its own cannot be prepared; `begin` and `end`
            # of the tracker still notice the library, only later.
            log.debug("import of %s is not watched", fullname, exc_info=True)
        return spec

    def _ask_others(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                return spec
        return None

    def _enter(self, library: bool) -> Any:
        if not library:
            return None
        depth = getattr(self._here, "depth", 0)
        self._here.depth = depth + 1
        return self._guarded(self._before_library) if depth == 0 else None

    def _leave(self, library: bool, token: Any) -> None:
        if not library:
            return
        self._here.depth -= 1
        if self._here.depth == 0:
            self._guarded(self._after_library, token)

    def _executed(self, name: str) -> None:
        if name in self._watched:
            self._guarded(self._after, name)

    def _guarded(self, call: Callable[..., Any], *args: Any) -> Any:
        try:
            return call(*args)
        except Exception:
            log.warning("watching imports failed", exc_info=True)
            return None


def _execute(watch: ImportWatch, loader: Any, library: bool, module: ModuleType) -> None:
    """Run a module's code with the loader's own method."""
    vars(loader).pop("exec_module", None)
    token = watch._enter(library)
    try:
        loader.exec_module(module)
        watch._executed(module.__name__)
    finally:
        watch._leave(library, token)


# The interpreter cuts frames of its import machinery out of tracebacks, by file name.
_execute.__code__ = _execute.__code__.replace(co_filename="<frozen importlib._bootstrap_external>")
