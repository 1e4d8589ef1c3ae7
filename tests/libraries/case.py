"""How a class of a library is put to the test: the words of the tables in `cases`."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One class of objects, as the cells of a notebook that makes, uses and changes one."""

    name: str
    """The class, as a reader of the documentation would look for it; unique in its library."""
    create: str
    """Binds `x` to an object of the class, and other names as needed; deterministic."""
    read: str
    """Prints what there is to be seen of `x`, the same in every process; changes nothing."""
    modify: str = ""
    """Changes `x` so that `read` prints something else; empty for immutable classes."""
    recomputed: str = ""
    """Why such an object is not stored, so that its cell runs again; empty if it is stored."""
    unseen: str = ""
    """Why a modification goes unnoticed: a fault that is known; empty if it is noticed."""
    fills: str = ""
    """What reading it for the first time adds, which counts as a change; empty if nothing does."""
    varies: str = ""
    """Why an equal object made in another process counts as another value; empty if it does not."""
    prepare: str = ""
    """Runs in a cell before: writes the files that `create` opens."""
    requires: tuple[str, ...] = ()
    """Modules it needs besides those of its library."""


@dataclass(frozen=True)
class Library:
    """The cases of one library."""

    title: str
    cases: tuple[Case, ...]
    requires: tuple[str, ...] = ()
    """Modules that must be importable; without them the cases are skipped."""
    prelude: str = ""
    """Stands at the beginning of each cell that creates something."""
    reset: str = ""
    """Run between notebooks that share a process, for state the library keeps."""
    fast: bool = False
    """Tried in the fast tier too."""


def load(name: str) -> Library:
    """The library whose table is in module `name` of `cases`."""
    library: Library = importlib.import_module(f"tests.libraries.cases.{name}").LIBRARY
    names = [case.name for case in library.cases]
    assert len(set(names)) == len(names), f"{name}: two cases have one name"
    return library


def load_all() -> dict[str, Library]:
    """All libraries by the name of their module, in the order of their titles."""
    cases = importlib.import_module("tests.libraries.cases")
    found = {module.name: load(module.name) for module in pkgutil.iter_modules(cases.__path__)}
    return dict(sorted(found.items(), key=lambda item: item[1].title.casefold()))
