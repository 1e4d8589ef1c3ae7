"""Calls that a cell makes before anything in it can have drawn a random number."""

from __future__ import annotations

import ast

from nbrewind_analysis.targets import dotted_name

_QUIET_MAGICS = frozenset({"matplotlib", "load_ext", "reload_ext", "autoreload", "config"})


def first_calls(tree: ast.Module) -> tuple[str, ...]:
    """Dotted names of the leading calls whose arguments call nothing.

    `np.random.seed(SEED); x = np.random.rand()` gives `("np.random.seed",)`: whatever state the
    generator had before the cell, the cell does not see it. Imports, definitions and
    assignments without calls are passed over. Calls without arguments, or with None, end the
    scan, as `seed()` takes entropy from the system.
    """
    calls: list[str] = []
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            if _is_quiet_magic(statement.value):
                continue
            name = dotted_name(statement.value.func)
            if name is None or not _is_given_quietly(statement.value):
                break
            calls.append(name)
        elif _runs_calls(statement):
            break
    return tuple(calls)


def _is_given_quietly(call: ast.Call) -> bool:
    """Whether a call has arguments, none of them None, and evaluating them calls nothing."""
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    return bool(values) and all(
        _is_harmless(value) and not (isinstance(value, ast.Constant) and value.value is None)
        for value in values
    )


def _is_quiet_magic(call: ast.Call) -> bool:
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "run_line_magic"
        and bool(call.args)
        and isinstance(call.args[0], ast.Constant)
        and call.args[0].value in _QUIET_MAGICS
    )


def _runs_calls(statement: ast.stmt) -> bool:
    """Whether it may run code: a call, a loop, an operator on objects does."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        parts: list[ast.AST] = [*statement.decorator_list, statement.args]
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr | ast.Pass | ast.Global):
        parts = [statement]
    else:
        return True
    return not all(map(_is_harmless, parts))


def _is_harmless(part: ast.AST) -> bool:
    harmless = (
        *(ast.Name, ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Attribute),
        *(ast.Assign, ast.AnnAssign, ast.Expr, ast.Pass, ast.Global, ast.expr_context),
        *(ast.arguments, ast.arg, ast.UnaryOp, ast.unaryop, ast.BinOp, ast.operator),
        *(ast.Subscript, ast.Slice, ast.Lambda, ast.Compare, ast.cmpop),
    )
    return all(isinstance(node, harmless) for node in ast.walk(part))
