"""What runs do besides changing names: all observers of a session, begun and ended together."""

from __future__ import annotations

import logging
import re
import resource
import sys
import time
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from nbrewind.model.records import (
    AmbientAccess,
    Environment,
    FileAccess,
    ModuleRead,
    SessionEffects,
    Uses,
)
from nbrewind.model.versions import ABSENT, ENTROPY, Version, content_version
from nbrewind.state.ambient import AmbientTracker, Moved
from nbrewind.state.clocks import is_clock, reads_clock
from nbrewind.state.effects import EffectTracker
from nbrewind.state.entities import MAIN
from nbrewind.state.environment import environment
from nbrewind.state.files import FileTracker
from nbrewind.state.modules import LocalModules
from nbrewind.state.named_paths import Named
from nbrewind.state.places import Places
from nbrewind.state.providers import Provider
from nbrewind.store.abc import Store
from nbrewind_analysis.cells import Cell
from nbrewind_analysis.table import Closure
from nbrewind_analysis.validity import PATCH, START
from nbrewind_kernels.leftovers import Leftovers
from nbrewind_kernels.library_calls import FOLLOWED, function_called, owner_name, package_of

log = logging.getLogger(__name__)

_SEEDING = {
    "random": ("random.seed", "random.setstate"),
    "numpy.random": ("numpy.random.seed", "numpy.random.set_state"),
    "torch.random": ("torch.manual_seed", "torch.set_rng_state"),
    "torch.cuda.random": ("torch.manual_seed", "torch.cuda.manual_seed_all"),
}
"""For each generator the functions that make its former state of no account."""


@dataclass(frozen=True)
class Observed:
    """One run as the observers saw it."""

    moved: list[Moved]
    before: dict[str, Version]
    """Versions of ambient state before the run."""
    files: list[FileAccess]
    effects: SessionEffects
    sought: tuple[str, ...]
    """Modules it looked for and did not import."""
    flags: frozenset[str]
    cpu_seconds: float
    peak_bytes: int
    child_modules: frozenset[str] = frozenset()
    """Modules that its child processes imported."""

    def effects_with(
        self,
        changed: Iterable[str],
        cell: Cell,
        namespace: dict[str, Any],
        is_patchable: Callable[[Any], bool],
        settings_made: Iterable[str] = (),
    ) -> SessionEffects:
        """Session effects, with more that changed and patches that the cell's text shows."""
        patches = [
            f"{PATCH}{owner_name(namespace[root])}.{path}"
            for root, path in sorted(cell.names.attribute_stores)
            if is_patchable(namespace.get(root))
            and not f"{owner_name(namespace[root])}.{path}".startswith(_PROVIDED)
        ]
        patches += [f"{PATCH}{function}" for function in settings_made]
        others = tuple(dict.fromkeys((*self.effects.others, *changed, *patches)))
        return msgspec.structs.replace(self.effects, others=others)


@dataclass(frozen=True)
class Accesses:
    """What a run read and wrote outside the namespace, for its record."""

    ambient: tuple[AmbientAccess, ...] = ()
    files: tuple[FileAccess, ...] = ()
    modules: tuple[ModuleRead, ...] = ()
    packages: tuple[str, ...] = ()
    environment: Environment = field(default_factory=Environment)
    clock: bool = False
    """It may have read the clock or the system's entropy."""


class Observers:
    """The observers of one session."""

    def __init__(self, root: Path, store: Store | None, modules: LocalModules) -> None:
        excluded = [] if store is None else [Path(folder) for folder in store.directories]
        self.ambient = AmbientTracker(root)
        self.files = FileTracker(root, excluded)
        self.effects = EffectTracker(root, self.ambient.imports)
        self.modules = modules
        self.places = Places(modules, self.ambient.imports)
        self.leftovers = Leftovers()
        self._before: dict[str, Version] = {}
        self._touched: set[str] = set()
        """Ambient state that a cell, run or reused, has moved."""
        self._cpu = 0.0

    def begin(self, *, thorough: bool, named: Named) -> None:
        """A cell is about to run that names these paths."""
        self._forgive_moves_outside_cells()
        self._before = self.ambient.begin()
        self.leftovers.begin()
        self.effects.begin(thorough)
        self.files.begin(named)
        self._cpu = time.process_time()

    def end(self) -> Observed:
        """The cell has run."""
        cpu = time.process_time() - self._cpu
        files = self.files.end()
        effects = self.effects.end()
        moved = self.ambient.end()
        self._touched.update(move.provider for move in moved)
        self.modules.forget()
        self.modules.notice()
        flags = set(files.flags)
        if self.leftovers.end():
            flags.add("threads")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        sought = self.effects.sought()
        return Observed(
            *(moved, self._before, files.accesses, effects, sought, frozenset(flags), cpu, peak),
            files.modules,
        )

    def _forgive_moves_outside_cells(self) -> None:
        """A generator the notebook has not touched is still at its start.

        Kernels draw from it too: IPython picks a tip for its banner.
        """
        for name, version in self.ambient.versions().items():
            provider = self.ambient.providers[name]
            if provider.kind == "rng" and version != ENTROPY and name not in self._touched:
                self.ambient.set(name, ENTROPY, provider.capture())

    def put(self, provider: str, version: Version, state: bytes | None) -> bool:
        """Put the state in force that a reused cell left; returns whether that worked."""
        self._touched.add(provider)
        return self.ambient.set(provider, version, state)

    def close(self) -> None:
        """End the session."""
        self.effects.close()
        self.ambient.close()
        self.files.close()

    def tidy(self, uses: Uses) -> Uses:
        """Module names as records keep them: local ones whole, others by their package."""
        modules = {
            name if self.modules.is_local(name) else package_of(name) for name in uses.modules
        }
        return msgspec.structs.replace(uses, modules=tuple(sorted(modules)))

    def accesses(
        self,
        cell: Cell,
        closure: Closure,
        observed: Observed,
        namespace: dict[str, Any],
        made: Iterable[Uses],
    ) -> Accesses:
        """What a run read and wrote outside the namespace.

        Args:
            cell: the cell that ran.
            closure: what its code could reach.
            observed: what the observers saw.
            namespace: the notebook's namespace after the run.
            made: uses of the values it bound.
        """
        reached = set(closure.modules) | set(cell.names.imports)
        for uses in made:
            reached.update(uses.modules)
        packages = {package_of(name) for name in reached} - _PURE
        attributes = set(closure.attributes) | set(cell.names.attributes) | set(cell.names.reads)
        attributes.update(_MAGICS[text] for text in cell.names.strings & _MAGICS.keys())
        imported = {*cell.names.imports, *observed.sought}
        local = (*self.modules.reach(reached, imported), *self._not_there(observed.sought))
        return Accesses(
            tuple(self._ambient(cell, packages, attributes, observed, namespace)),
            tuple(observed.files),
            local,
            tuple(sorted({package_of(n) for n in reached} | {m.name for m in local} | {BUILTINS})),
            environment(packages | observed.child_modules),
            reads_clock(cell.code, reached, closure.attributes | cell.names.attributes)
            or any(is_clock(namespace.get(name)) for name in closure.names),
        )

    def _not_there(self, sought: Iterable[str]) -> list[ModuleRead]:
        """Modules that a run looked for and that do not exist: it coped without."""
        missing = sorted(name for name in sought if not self.modules.is_importable(name))
        return [ModuleRead(name, "", ABSENT) for name in missing]

    def settings_made(self, cell: Cell, namespace: dict[str, Any]) -> list[str]:
        """Functions of libraries that a cell called to set something nobody else follows."""
        provided = {provider.library for provider in self.ambient.providers.values()}
        calls = sorted(cell.names.setting_calls, key=lambda call: call.dotted)
        found = (function_called(call, namespace) for call in calls)
        return [
            name
            for name in filter(None, found)
            if (package := name.split(".")[0]) not in provided | FOLLOWED | _PURE
            and not name.startswith(_PROVIDED)
            and self.is_patchable(sys.modules.get(package))
        ]

    def is_patchable(self, value: Any) -> bool:
        """Whether setting an attribute on a value changes a library, not the notebook's state.

        Modules of the project are places: their attributes are state like any other.
        """
        if isinstance(value, types.ModuleType):
            return value.__name__ != MAIN and not self.modules.is_local(value.__name__)
        if not isinstance(value, type) or value.__module__ == MAIN:
            return False
        return not self.modules.is_local(str(value.__module__))

    def patches(
        self,
        effects: SessionEffects,
        packages: Iterable[str],
        now: Mapping[str, Version],
        cell: Cell,
        how: str,
    ) -> list[AmbientAccess]:
        """What a run saw and changed of attributes that a notebook set in packages.

        Args:
            effects: the run's session effects; `patch:` ones are writes.
            packages: packages it could reach.
            now: versions of ambient state before the run.
            cell: the cell that ran.
            how: digest of what the run started from.
        """
        written: dict[str, list[str]] = {}
        for effect in effects.others:
            if effect.startswith(PATCH):
                dotted = effect.removeprefix(PATCH)
                written.setdefault(dotted.split(".")[0], []).append(dotted)
            elif effect in _DISPLAY:
                # `%precision 3` says all there is to say; other ways depend on what was read.
                written[SHELL] = _MAGIC_CALL.findall(cell.code) or [how]
            elif effect in _MAGIC_REGISTRIES:
                written.setdefault(MAGICS, []).append(effect)
        accesses = []
        for package in sorted(written.keys() | {p for p in packages if PATCH + p in now}):
            before = now.get(PATCH + package, START)
            after = None
            if package in written:
                reasons = [] if package == SHELL else [how]
                after = content_version("patch", before, *reasons, *written[package])
            accesses.append(AmbientAccess(PATCH + package, before, after))
        return accesses

    def _ambient(
        self,
        cell: Cell,
        packages: set[str],
        attributes: set[str],
        observed: Observed,
        namespace: dict[str, Any],
    ) -> Iterable[AmbientAccess]:
        moved = {move.provider: move for move in observed.moved}
        seeded = _seeded(cell.names.first_calls, namespace)
        for name, provider in self.ambient.providers.items():
            before = observed.before[name]
            move = moved.get(name)
            if provider.kind == "rng":
                if move is not None:
                    read = None if name in seeded else before
                    yield AmbientAccess(name, read, move.after, move.state, move.start)
                elif name in seeded and before != ENTROPY:
                    # It was set to what it was already, or came back to it.
                    yield AmbientAccess(name, None, before, provider.capture())
                elif attributes & provider.mentions and _in_reach(provider, packages):
                    yield AmbientAccess(name, before)
            elif move is not None:
                yield AmbientAccess(name, before, move.after, move.state)
            elif (
                _consults(provider, packages, attributes)
                or (name in _INHERITED and not observed.flags.isdisjoint(_PROCESS_FLAGS))
                or (name == _WHERE_PATHS_START and observed.files)
            ):
                yield AmbientAccess(name, before)


_PURE = frozenset(
    {"collections", "dataclasses", "enum", "functools", "itertools", "math", "operator", "typing"}
    | {"types", "abc", "re", "string", "copy", "json", "builtins", "_io", "_operator", "_functools"}
    | {"fractions", "heapq", "bisect", "statistics", "textwrap", "cmath", "numbers", "keyword"}
)
"""Modules of the standard library that consult no ambient state."""


_PROVIDED = (
    *("os.environ", "sys.path", "matplotlib.rcParams", "matplotlib.pyplot.rcParams"),
    *("pandas.options", "pandas.core.config_init", "decimal.", "warnings.filters"),
)
"""Attributes that are ambient state with a provider: setting one is no patch."""

_MAGICS = {"env": "environ", "set_env": "environ", "pwd": "getcwd", "cd": "getcwd"}
"""What magics consult, by their name."""


_PROCESS_FLAGS = frozenset({"process", "subprocess"})
_INHERITED = frozenset({"cwd", "environ"})
"""What child processes take over."""
_WHERE_PATHS_START = "cwd"
"""Which file a relative path names; whether a path was one, audit events do not tell."""

BUILTINS = "builtins"
"""Names that no other place has come from there: every cell may depend on it."""

SHELL = "IPython"
"""Stands for how the shell shows values: cells that show one depend on it."""

MAGICS = "IPython.magics"
"""Stands for the magics that the notebook registered: cells that call one depend on it."""

_MAGIC_REGISTRIES = frozenset({"ipython:line-magics", "ipython:cell-magics"})
_DISPLAY = frozenset({"ipython:formatters", "ipython:settings"})
_MAGIC_CALL = re.compile(r"get_ipython\(\)\.run_line_magic\(.*\)")


def _in_reach(provider: Provider, packages: set[str]) -> bool:
    return not provider.library or provider.library in packages


def _consults(provider: Provider, packages: set[str], attributes: set[str]) -> bool:
    if provider.library:
        return provider.library in packages
    return bool(packages) or bool(attributes & provider.mentions)


def _seeded(first_calls: Iterable[str], namespace: dict[str, Any]) -> set[str]:
    """Generators that a cell sets to a state before anything can have drawn from them."""
    seeded: set[str] = set()
    for dotted in first_calls:
        root, *path = dotted.split(".")
        called = namespace.get(root)
        for part in path:
            called = getattr(called, part, None)
        set_now = {name for name, functions in _SEEDING.items() if _is_one_of(called, functions)}
        if not set_now:
            break  # this may draw
        seeded |= set_now
    return seeded


def _is_one_of(called: Any, functions: Iterable[str]) -> bool:
    """Whether something is one of some functions of modules, as far as those are imported."""
    places = (name.rpartition(".") for name in functions)
    known = (getattr(sys.modules.get(module), function, None) for module, _, function in places)
    return called is not None and any(called == function for function in known)
