"""What a walk knows of the namespace: who reads, binds and deletes, and who may run."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from nbrewind.state.evaluators import identifiers
from nbrewind_analysis.bodies import Body, mangled
from nbrewind_analysis.interactive import HIDDEN, is_history, is_result
from nbrewind_analysis.lookups import ANYWHERE, Lookup
from nbrewind_analysis.paths import BOUND, EITHER, GONE, State


@dataclass(slots=True)
class Findings:
    """What the walk of one cell found; see `CellNames` for the meaning of each field."""

    reads: set[str] = field(default_factory=set)
    stores: set[str] = field(default_factory=set)
    deletes: set[str] = field(default_factory=set)
    attribute_stores: set[tuple[str, str]] = field(default_factory=set)
    results: set[str] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)
    """What the bodies of functions that may run import."""
    parsed: list[ast.Module] = field(default_factory=list)
    """Code found in texts: of magics, of `exec`."""
    calls: bool = False
    dynamic: bool = False
    raw_text: bool = False
    star_import: bool = False


class Namespace:
    """The namespace at the current point of a walk.

    Functions that the cell defines are kept as *latent* bodies. They contribute when they may
    run: at each load of their name, also from another body that may run. Loads only ever add
    to the reads, so it does no harm to count a body more than once.
    """

    def __init__(self, texts: frozenset[str]) -> None:
        """Start with nothing stored.

        Args:
            texts: identifiers in all texts of the cell, for evaluators given any of them.
        """
        self.found = Findings()
        self.state: State | None = {}
        self.latent: dict[str, list[Body]] = {}
        """Functions defined so far, by each name that reaches them."""
        self._texts = texts
        self._loaded: set[str] = set()
        self._counted: set[int] = set()
        """Bodies accounted for since the load that led to the first of them."""
        self._changes: list[tuple[str, str]] = []
        """Every store and deletion so far, in order of the walk."""
        self._scope = ""
        """`A.` in the body of class A: prefix of its names in the state."""
        self._owner = ""
        self._class_globals: frozenset[str] = frozenset()
        self._class_bodies: list[Body] = []

    def load(self, name: str) -> None:
        """Account for loading a global, and for the functions that this may run."""
        if name in HIDDEN:
            return
        if self.state is None or name not in self.state:
            if is_result(name):
                self.found.results.add(name)
            elif is_history(name):
                self.found.raw_text = True
            else:
                self.found.reads.add(name)
        self._loaded.add(name)
        for body in self.latent.get(name, ()):
            self._count(body)

    def store(self, name: str) -> None:
        """Account for binding a name of the current scope."""
        name = mangled(name, self._owner)
        if self._scope and name not in self._class_globals:
            self._set(self._scope + name, BOUND)
            return
        self.found.stores.add(name)
        self._set(name, BOUND)

    def _delete(self, name: str) -> None:
        name = mangled(name, self._owner)
        if self._scope and name not in self._class_globals:
            if self.state is not None:
                self.state.pop(self._scope + name, None)
            return
        self.found.deletes.add(name)
        self._set(name, GONE)

    def _set(self, name: str, what: str) -> None:
        if self.state is not None:
            self.state[name] = what
        self._changes.append((name, what))

    def _maybe_store(self, name: str) -> None:
        self.found.stores.add(name)
        self._changes.append((name, EITHER))
        if self.state is not None and name in self.state:
            self.state[name] = EITHER

    def _define(self, name: str, bodies: list[Body]) -> None:
        """Bind `name` to functions; they run only if something loads it."""
        key = mangled(name, self._owner)
        if self._scope and key not in self._class_globals:
            key = self._scope + key
            self._class_bodies += bodies
        self.latent.setdefault(key, []).extend(bodies)
        if key in self._loaded:
            for body in bodies:
                self._count(body)
        self.store(name)

    def _count(self, body: Body) -> None:
        """Account for a function that may run from here on."""
        if id(body) in self._counted:
            return
        first = not self._counted
        self._counted.add(id(body))
        self.found.dynamic |= body.dynamic
        self.found.attribute_stores |= body.attribute_stores
        self.found.imports |= body.imports
        for name in body.loads:
            self.load(name)
        if body.evaluates:
            self._look_up(ANYWHERE)
        for name in body.stores:
            self._maybe_store(name)
        if first:
            self._counted.clear()

    def _look_up(self, lookup: Lookup | None) -> None:
        if lookup is None:
            return
        self.found.dynamic |= lookup.everything
        for name in self._texts if lookup.anywhere else identifiers(lookup.texts):
            self.load(name)

    def _load_here(self, name: str) -> None:
        """Load a name as the current scope sees it."""
        name = mangled(name, self._owner)
        if self._scope and self.state is not None and self._scope + name in self.state:
            for body in self.latent.get(self._scope + name, ()):
                self._count(body)
        else:
            self.load(name)
            for body in self.latent.get(self._scope + name, ()) if self._scope else ():
                self._count(body)
