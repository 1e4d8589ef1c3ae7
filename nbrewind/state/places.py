"""Places: state that cells share without naming it, versioned as names are.

`cnt.bump()` changes a global of the module `cnt`, `log.info(…)` the buffer that a
handler of `logging` writes to. Each such place has a name in the version table, `%cnt`
or `%logging`, and a value made up from what it holds at the moment. So places are
read, written, stored, shared with variables and restored like variables. What a module
holds that cannot be stored is a place of its own, `%cnt:connection`, so that the rest can.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from typing import Any

from nbrewind.errors import NotRestorable
from nbrewind.model.records import PLACE, is_place_name
from nbrewind.state import module_state
from nbrewind.state.import_watch import ImportWatch
from nbrewind.state.logging_state import LoggingState
from nbrewind.state.modules import LocalModules
from nbrewind.state.mutability import ATOMS

LOGGING = f"{PLACE}logging"
"""What a notebook set up of the standard library's `logging`."""


class Places:
    """The places of one session.

    Args:
        modules: the session's local modules.
        imports: the session's watch over imports.
    """

    def __init__(self, modules: LocalModules, imports: ImportWatch) -> None:
        self._modules = modules
        self._logging = LoggingState()
        self._elsewhere = frozenset(modules.loaded())
        """Modules of before the session: a test runner's, say, and not the notebook's."""
        self._loaded: frozenset[str] = frozenset()
        self._left_out: dict[str, dict[str, int]] = {}
        """By place: the ids of values that cannot be stored, by their dotted names."""
        self._originals: dict[str, module_state.Originals] = {}
        """By module."""
        self.used: set[str] = set()
        """Places that code which ran could look at or change."""
        self.imported: Callable[[str], None] = lambda name: None
        """Called with the name of a module's place right after its import."""
        imports.around(self._logging.before_import, self._logging.after_import, libraries_only=True)
        self._told: set[str] = set()
        imports.around(lambda: None, self._tell_imported, libraries_only=False)

    def present(self) -> set[str]:
        """Names of the places that have a state now."""
        found = self._names()
        for name in list(found):
            found.update(self.parts(name))
        if self._logging.is_set():
            found.add(LOGGING)
        return found

    def begin(self, reached: Iterable[str]) -> None:
        """A cell is about to run that can reach some places."""
        self._loaded = frozenset(self.present())
        self.used.update(filter(is_place_name, reached))

    def arrived(self, present: set[str]) -> set[str]:
        """Which of the present places came into being since `begin`."""
        return present - self._loaded

    def is_there(self, name: str) -> bool:
        """Whether a place has a live state."""
        if name == LOGGING:
            return self._logging.is_set()
        module = _module(name)
        return module in sys.modules and (name == PLACE + module or name in self.parts(name))

    def get(self, name: str) -> Any:
        """The state of a place, made up of the live objects. Raises `KeyError`."""
        module, _, part = name[1:].partition(":")
        if part:
            return self._parts(PLACE + module)[part]
        return self._take(name, self._keeper(name))

    def parts(self, name: str) -> set[str]:
        """Names of the places that hold what a place cannot store."""
        whole = PLACE + _module(name)
        return {f"{whole}:{key}" for key in self._parts(whole)}

    def leave_out(self, name: str, has_problem: Callable[[Any], bool]) -> bool:
        """Leave out of a place's state what cannot be stored; returns whether there is more."""
        if ":" in name:
            return False
        known = self._left_out.setdefault(name, {})
        found = False

        def keep(key: str, value: Any) -> bool:
            nonlocal found
            if known.get(key) == id(value):
                return True
            if type(value) not in ATOMS and has_problem(value):
                known[key] = id(value)
                found = True
            return True

        self._take(name, keep)
        return found

    def refresh(self, names: Iterable[str], has_problem: Callable[[Any], bool]) -> None:
        """Find out anew what some places cannot store."""
        for name in {PLACE + _module(name) for name in names if ":" in name and name[0] == PLACE}:
            if self.is_there(name):
                self.leave_out(name, has_problem)

    def put(self, name: str, value: Any) -> None:
        """Put a state in force.

        Raises:
            NotRestorable: the module cannot be imported, or refuses.
        """
        module, _, part = name[1:].partition(":")
        try:
            if name == LOGGING:
                self._logging.put(value)
            elif not part:
                loaded = importlib.import_module(module)
                originals = self._originals.setdefault(module, {})
                module_state.put(loaded, value, self._keeper(name), originals)
            elif self._parts(PLACE + module).get(part) is not value:
                module_state.set_part(importlib.import_module(module), part, value)
                self._left_out.setdefault(PLACE + module, {})[part] = id(value)
        except Exception as problem:
            raise NotRestorable(f"the state of {module} cannot be set: {problem}") from problem

    def remove(self, name: str) -> None:
        """Bring a place back to where it has no state."""
        module, _, part = name[1:].partition(":")
        if name == LOGGING:
            self._logging.put({})
        elif not part:
            sys.modules.pop(module, None)
            self._originals.pop(module, None)

    def _take(self, name: str, keep: module_state.Keep) -> Any:
        if name != LOGGING:
            originals = self._originals.setdefault(name[1:], {})
            return module_state.take(sys.modules[name[1:]], keep, originals)
        state = self._logging.take(keep)
        if state is None:
            raise KeyError(name)
        return state

    def _keeper(self, name: str) -> module_state.Keep:
        known = self._left_out.get(name, {})
        return lambda key, value: known.get(key) != id(value)

    def _parts(self, name: str) -> dict[str, Any]:
        """What is left out of a place, by its dotted names."""
        known, found = self._left_out.get(name), dict[str, Any]()
        if not known or not self.is_there(name):
            return found

        def keep(key: str, value: Any) -> bool:
            if known.get(key) == id(value):
                found[key] = value
            return True

        self._take(name, keep)
        return found

    def _names(self) -> set[str]:
        """Names of the places of the modules that the notebook imported."""
        return {PLACE + m for m in self._modules.loaded() if m not in self._elsewhere}

    def _tell_imported(self, _: None) -> None:
        names = self._names()
        new, self._told = names - self._told, names
        for name in sorted(new):
            self.imported(name)


def _module(name: str) -> str:
    return name[1:].partition(":")[0]
