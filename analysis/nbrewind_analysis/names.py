"""Which names a cell reads, stores and deletes, found without running it."""

from __future__ import annotations
import __future__

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from nbrewind.state.evaluators import identifiers
from nbrewind_analysis.bodies import Body
from nbrewind_analysis.flow import Flow
from nbrewind_analysis.mentions import Mentions, mentions
from nbrewind_analysis.paths import BOUND, GONE
from nbrewind_analysis.seeding import first_calls
from nbrewind_analysis.setting_calls import SettingCall, setting_calls


@dataclass(frozen=True, slots=True)
class Latent:
    """What a function that the cell defines does if something outside the cell runs it."""

    loads: frozenset[str]
    stores: frozenset[str]
    attribute_stores: frozenset[tuple[str, str]]
    imports: frozenset[str]
    dynamic: bool


@dataclass(frozen=True, slots=True)
class CellNames:
    """The names of a cell. Sets err on the large side, `definite_*` on the small side."""

    reads: frozenset[str] = frozenset()
    """Globals that may be loaded before the cell has stored or deleted them, builtins included."""
    stores: frozenset[str] = frozenset()
    """Globals that may be bound, also by functions of the cell that may run in it."""
    definite_stores: frozenset[str] = frozenset()
    """Globals that are bound by the cell on every path to its normal end."""
    deletes: frozenset[str] = frozenset()
    """Globals that a `del` or the end of an `except` clause may unbind."""
    definite_deletes: frozenset[str] = frozenset()
    """Globals that are unbound by the cell on every path to its normal end."""
    attributes: frozenset[str] = frozenset()
    """Attribute names used anywhere, names imported from modules included."""
    calls: bool = False
    """It may run code that is not in the cell."""
    imports: frozenset[str] = frozenset()
    """Modules that may be imported when it runs, dotted; `from a import b` gives `a` and `a.b`."""
    attribute_stores: frozenset[tuple[str, str]] = frozenset()
    """Root name and attribute path of assignments to attributes and items."""
    setting_calls: frozenset[SettingCall] = frozenset()
    """Calls anywhere whose names say that they set something."""
    first_calls: tuple[str, ...] = ()
    """Calls with arguments that call nothing, which run before any other call of the cell."""
    strings: frozenset[str] = frozenset()
    """Texts in the cell, docstrings left out."""
    modes: frozenset[str] = frozenset()
    """Texts among them that calls may be given as the mode of opening a file."""
    dynamic: bool = False
    """It may read or write any global."""
    star_import: bool = False
    """It stores names that are not known: `from x import *`."""
    raw_text: bool = False
    """It can see the text of cells: comments and formatting count."""
    results: frozenset[str] = frozenset()
    """Which of `_`, `__`, `___`, `_N`, `Out`, `_oh`, `_dh` it reads; these are not in `reads`."""
    latent: Mapping[str, Latent] = field(default_factory=lambda: MappingProxyType({}))
    """Functions and classes it defines but does not run, for callers found at run time."""


UNKNOWN_NAMES = CellNames(calls=True, dynamic=True, star_import=True, raw_text=True)
"""Names of a cell that does not parse."""


def cell_names(
    tree: ast.Module,
    *,
    transform: Callable[[str], str] = str,
    compile_flags: int = 0,
) -> CellNames:
    """Analyse a cell.

    Args:
        tree: the cell after the input transformation.
        transform: the input transformation, for code inside cell magics.
        compile_flags: flags the cell is compiled with.
    """
    seen = mentions(tree)
    flow = Flow(
        transform,
        evaluate_annotations=not _postponed(tree, compile_flags),
        texts=identifiers(seen.strings),
    )
    flow.run(tree.body)
    found = flow.found
    imports = mentions(tree, functions=False).imports | found.imports
    for parsed in found.parsed:
        more = mentions(parsed)
        seen.add(more)
        imports |= more.imports
    state = flow.state if flow.state is not None else {}
    return CellNames(
        reads=frozenset(found.reads),
        stores=frozenset(found.stores),
        definite_stores=frozenset(name for name, what in state.items() if what == BOUND),
        deletes=frozenset(found.deletes),
        definite_deletes=frozenset(name for name, what in state.items() if what == GONE),
        attributes=frozenset(seen.attributes),
        calls=found.calls,
        imports=frozenset(imports),
        attribute_stores=frozenset(found.attribute_stores),
        setting_calls=setting_calls(tree),
        first_calls=first_calls(tree),
        strings=frozenset(seen.strings),
        modes=frozenset(seen.modes),
        dynamic=found.dynamic or seen.main_module,
        star_import=found.star_import,
        raw_text=found.raw_text or seen.raw_text,
        results=frozenset(found.results),
        latent=_latent(flow.latent, seen),
    )


def _postponed(tree: ast.Module, compile_flags: int) -> bool:
    """Whether annotations are kept as text instead of being evaluated."""
    if compile_flags & __future__.annotations.compiler_flag:
        return True
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(alias.name == "annotations" for alias in node.names)
        for node in tree.body
    )


def _latent(bodies: Mapping[str, list[Body]], seen: Mentions) -> Mapping[str, Latent]:
    texts = (
        identifiers(seen.strings) if any(b.evaluates for bs in bodies.values() for b in bs) else ()
    )
    return MappingProxyType(
        {
            name: Latent(
                loads=frozenset().union(
                    *(b.loads | set(texts if b.evaluates else ()) for b in own)
                ),
                stores=frozenset().union(*(b.stores for b in own)),
                attribute_stores=frozenset().union(*(b.attribute_stores for b in own)),
                imports=frozenset().union(*(b.imports for b in own)),
                dynamic=any(b.dynamic for b in own),
            )
            for name, own in bodies.items()
            if "." not in name
        }
    )
