"""What a cell mentions anywhere, whether or not that part of it runs."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from nbrewind.state.evaluators import MAIN_MODULE
from nbrewind.state.file_modes import modes_of
from nbrewind_analysis.interactive import RAW_TEXT_ATTRIBUTES, RAW_TEXT_NAMES

_IMPORTERS = frozenset({"import_module", "__import__", "reload", "importorskip"})
_ATTRIBUTE_CALLS = frozenset({"getattr", "setattr", "hasattr", "delattr", "attrgetter"})
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(slots=True)
class Mentions:
    """Attributes, modules and texts of a tree."""

    attributes: set[str] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)
    strings: set[str] = field(default_factory=set)
    modes: set[str] = field(default_factory=set)
    """Texts that calls may be given as the mode of opening a file."""
    raw_text: bool = False
    """It uses functions that show source text."""
    main_module: bool = False
    """It imports the notebook's own module."""

    def add(self, other: Mentions) -> None:
        """Add what another tree mentions."""
        self.attributes |= other.attributes
        self.imports |= other.imports
        self.strings |= other.strings
        self.modes |= other.modes
        self.raw_text |= other.raw_text
        self.main_module |= other.main_module


def mentions(tree: ast.AST, *, functions: bool = True) -> Mentions:
    """Collect what any part of `tree` mentions.

    Args:
        tree: where to look.
        functions: whether to look into the bodies of functions.
    """
    seen = Mentions()
    names: set[str] = set()
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        cls = type(node)
        if cls is ast.Name:
            names.add(node.id)  # type: ignore[attr-defined]
            continue
        if cls is ast.Constant:
            value = node.value  # type: ignore[attr-defined]
            if isinstance(value, str):
                seen.strings.add(value)
            continue
        if isinstance(node, ast.Attribute):
            seen.attributes.add(node.attr)
        elif isinstance(node, ast.Call):
            _call(node, seen)
        elif isinstance(node, ast.Import):
            seen.imports.update(alias.name for alias in node.names)
            continue
        elif isinstance(node, ast.ImportFrom):
            _import_from(node, seen)
            continue
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        elif not functions and isinstance(node, _FUNCTIONS):
            pending += (node.args, *getattr(node, "decorator_list", ()))
            continue
        pending.extend(ast.iter_child_nodes(node))
    roots = {module.partition(".")[0] for module in seen.imports}
    seen.main_module = MAIN_MODULE in roots
    seen.raw_text = bool((names | roots) & RAW_TEXT_NAMES or seen.attributes & RAW_TEXT_ATTRIBUTES)
    return seen


def _import_from(node: ast.ImportFrom, seen: Mentions) -> None:
    module = "." * node.level + (node.module or "")
    dot = "." if node.module else ""
    seen.imports.add(module)
    for alias in node.names:
        if alias.name != "*":
            seen.imports.add(f"{module}{dot}{alias.name}")
            seen.attributes.add(alias.name)


def _call(node: ast.Call, seen: Mentions) -> None:
    """Modules and attributes that a call names by text."""
    func = node.func
    name = func.id if isinstance(func, ast.Name) else getattr(func, "attr", "")
    texts = [
        arg.value
        for arg in node.args
        if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
    ]
    seen.modes.update(modes_of(node))
    if name in _IMPORTERS:
        seen.imports.update(texts[:1])
    elif name in _ATTRIBUTE_CALLS:
        seen.attributes.update(part for text in texts for part in text.split("."))
