"""What a run changed in the process: modules it imported, libraries it patched."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import ModuleType

from nbrewind.model.records import SessionEffects
from nbrewind.state.figures import open_figures
from nbrewind.state.import_watch import ImportWatch
from nbrewind.state.patches import PatchWatch

log = logging.getLogger(__name__)

FIGURES = "patch:matplotlib.pyplot.figures"
"""The effect of a run on the figures that pyplot has open, which have no names."""

_NEVER = frozenset({"__main__", "__mp_main__"})


class EffectTracker:
    """The session effects of one run at a time. Never raises into the caller (law L6).

    Args:
        root: The notebook's folder; by default the current one.
        imports: The session's watch over imports; by default one of its own. What
            modules patch while they are imported comes back with their import.
    """

    def __init__(self, root: Path | None = None, imports: ImportWatch | None = None) -> None:
        root = root or Path.cwd()
        self.imports = imports or ImportWatch(root)
        self.imports.around(self._pause, self._resume, libraries_only=False)
        self._modules: frozenset[str] = frozenset()
        self._watch = PatchWatch(root.resolve())
        self._patches: dict[str, None] = {}
        self._thorough = False
        self._figures = b""

    def begin(self, thorough: bool) -> None:
        """Take note of what is loaded.

        Args:
            thorough: Also look for patches: the cell imports something or calls into a
                library.
        """
        self._modules = frozenset(sys.modules)
        self.imports.sought.clear()
        self._patches = {}
        self._thorough = thorough
        self._figures = open_figures()
        if thorough:
            self._resume()

    def end(self) -> SessionEffects:
        """What the run added; imports in the order in which they ended."""
        imported = tuple(
            name
            for name, module in list(sys.modules.items())
            if name not in self._modules and _is_importable(name, module)
        )
        self._pause()
        self._thorough = False
        if open_figures() != self._figures:
            self._patches[FIGURES] = None
        return SessionEffects(imported, tuple(self._patches))

    def sought(self) -> tuple[str, ...]:
        """Modules that the run looked for and did not import: there or not, it went on."""
        return tuple(name for name in self.imports.sought if name not in sys.modules)

    def close(self) -> None:
        """Stop watching imports."""
        self.imports.close()

    def _pause(self) -> None:
        """Collect the patches made since the last look."""
        if self._thorough:
            try:
                self._patches.update(dict.fromkeys(self._watch.changes()))
            except Exception:
                log.warning("patches of libraries were not looked for", exc_info=True)

    def _resume(self, _: object = None) -> None:
        """Start from what is there now."""
        if self._thorough:
            try:
                self._watch.begin()
            except Exception:
                self._thorough = False
                log.warning("patches of libraries are not looked for", exc_info=True)


def _is_importable(name: str, module: object) -> bool:
    """Whether `import name` elsewhere brings the module back."""
    if name in _NEVER or not isinstance(module, ModuleType):
        return False
    spec = vars(module).get("__spec__")
    if spec is None or getattr(spec, "name", None) != name:
        return False  # an alias, or made by hand
    return spec.loader is not None or spec.submodule_search_locations is not None
