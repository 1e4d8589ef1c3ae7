"""Calls that a cell makes before anything in it can have drawn a random number."""

from __future__ import annotations

import ast

from nbrewind_analysis.targets import dotted_name

_QUIET_MAGICS = frozenset({"matplotlib", "load_ext", "reload_ext", "autoreload", "config"})


def first_calls(tree: ast.Module) -> tuple[str, ...]:
    """Dotted names of the leading calls with constant arguments.

    `np.random.seed(0); x = np.random.rand()` gives `("np.random.seed",)`: whatever state the
    generator had before the cell, the cell does not see it. Imports, definitions and
    assignments without calls are passed over. Calls without arguments, or with None, end the
    scan, as `seed()` takes entropy from the system.
    """
    calls: list[str] = []
    constants: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            if _is_quiet_magic(statement.value):
                continue
            name = dotted_name(statement.value.func)
            if name is None or not _is_constant_call(statement.value, constants):
                break
            calls.append(name)
        elif _runs_calls(statement):
            break
        elif isinstance(statement, ast.Assign) and _is_constant(statement.value, constants):
            constants.update(t.id for t in statement.targets if isinstance(t, ast.Name))
    return tuple(calls)


def _is_constant_call(call: ast.Call, constants: set[str]) -> bool:
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    return bool(values) and all(_is_constant(value, constants) for value in values)


def _is_constant(node: ast.expr, constants: set[str]) -> bool:
    match node:
        case ast.Constant():
            return node.value is not None
        case ast.Name():
            return node.id in constants
        case ast.UnaryOp(operand=operand):
            return _is_constant(operand, constants)
        case ast.BinOp(left=left, right=right):
            return _is_constant(left, constants) and _is_constant(right, constants)
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return all(_is_constant(item, constants) for item in items)
    return False


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
    harmless = (
        *(ast.Name, ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Attribute),
        *(ast.Assign, ast.AnnAssign, ast.Expr, ast.Pass, ast.Global, ast.expr_context),
        *(ast.arguments, ast.arg, ast.UnaryOp, ast.unaryop, ast.BinOp, ast.operator),
        *(ast.Subscript, ast.Slice, ast.Lambda, ast.Compare, ast.cmpop),
    )
    return not all(isinstance(node, harmless) for part in parts for node in ast.walk(part))
