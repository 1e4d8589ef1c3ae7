"""Code that looks names up by their text: `eval`, `df.query`, `globals()`, `get_ipython()`."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from nbrewind.state.evaluators import (
    EVALUATOR_MODULES,
    EVALUATORS,
    EXECUTORS,
    LOCAL_NAMESPACE_NAMES,
    NAMESPACE_ATTRIBUTES,
    NAMESPACE_NAMES,
)

SPECIAL_ROOTS = EVALUATOR_MODULES | NAMESPACE_NAMES | EXECUTORS | LOCAL_NAMESPACE_NAMES
"""Names that are lookups even where only an attribute of them is used."""

_HARMLESS_SHELL = frozenset(
    {
        *("display_formatter", "events", "set_next_input", "enable_gui", "enable_matplotlib"),
        *("register_magic_function", "register_magics", "register_cell_magic", "config"),
        *("register_line_magic", "extension_manager", "profile_dir", "magics_manager"),
        *("input_transformers_post", "input_transformers_cleanup", "set_custom_exc"),
        *("ast_transformers", "__class__", "has_trait", "display_pub"),
    }
)


@dataclass(frozen=True, slots=True)
class Lookup:
    """Which names may be looked up by text."""

    everything: bool = False
    """Any name at all."""
    anywhere: bool = False
    """Identifiers in any text of the cell."""
    texts: tuple[str, ...] = ()
    """Identifiers in these texts."""


EVERYTHING = Lookup(everything=True)
ANYWHERE = Lookup(anywhere=True)


def call_lookup(call: ast.Call, *, module_level: bool) -> Lookup | None:
    """What calling this callee looks up; None if the callee is to be visited like any other."""
    match call.func:
        case ast.Name(id=name) if name in EXECUTORS:
            text = executed_text(call)
            return EVERYTHING if text is None else Lookup(texts=(text,))
        case ast.Name(id=name) if name in LOCAL_NAMESPACE_NAMES:
            return EVERYTHING if module_level and not (call.args or call.keywords) else Lookup()
        case ast.Name(id=name) if name in EVALUATORS:
            return _evaluated(call)
        case ast.Attribute(value=value, attr=name) if is_shell(value):
            return Lookup() if name in _HARMLESS_SHELL else EVERYTHING
        case ast.Attribute(attr=name) if name in EVALUATORS:
            return _evaluated(call)
    return None


def name_lookup(name: str, *, module_level: bool) -> Lookup | None:
    """What loading `name`, other than to call it, may look up."""
    if name in NAMESPACE_NAMES or name in EXECUTORS or name == "get_ipython":
        return EVERYTHING
    if name in LOCAL_NAMESPACE_NAMES:
        return EVERYTHING if module_level else None
    return ANYWHERE if name in EVALUATORS or name in EVALUATOR_MODULES else None


def attribute_lookup(node: ast.Attribute) -> Lookup | None:
    """What using this attribute, other than to call it, may look up."""
    if is_shell(node.value):
        return Lookup() if node.attr in _HARMLESS_SHELL else EVERYTHING
    if node.attr in NAMESPACE_ATTRIBUTES:
        return EVERYTHING
    return ANYWHERE if node.attr in EVALUATORS else None


def executed_text(call: ast.Call) -> str | None:
    """The text that `eval` or `exec` runs, if it is a constant."""
    if call.args and isinstance(call.args[0], ast.Constant):
        value = call.args[0].value
        if isinstance(value, str):
            return value
    return None


def is_shell(node: ast.AST) -> bool:
    """Whether `node` is the call `get_ipython()`."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "get_ipython"
    )


def _evaluated(call: ast.Call) -> Lookup:
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    if not values:
        return Lookup()
    texts = tuple(
        value.value
        for value in values
        if isinstance(value, ast.Constant) and isinstance(value.value, str)
    )
    if texts and (not call.args or isinstance(call.args[0], ast.Constant)):
        return Lookup(texts=texts)
    if len(call.args) == len(values) and all(isinstance(v, ast.Constant) for v in values):
        return Lookup()
    return ANYWHERE
