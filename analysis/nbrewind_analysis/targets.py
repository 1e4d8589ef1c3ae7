"""Assignments to attributes and items of what a name holds."""

from __future__ import annotations

import ast


def attribute_target(node: ast.AST) -> tuple[str, str] | None:
    """Root name and attribute path of a target such as `pd.options.display.width`.

    The path ends at the first subscript or call: `plt.rcParams["x"]` gives
    `("plt", "rcParams")`, `df["a"]` gives `("df", "")`. None if the root is no name.
    """
    path: list[str] = []
    while True:
        match node:
            case ast.Attribute():
                path.append(node.attr)
                node = node.value
            case ast.Subscript():
                path.clear()
                node = node.value
            case ast.Call(func=ast.Attribute(value=value)):
                path.clear()
                node = value
            case ast.Name():
                return node.id, ".".join(reversed(path))
            case _:
                return None


def setattr_target(call: ast.Call) -> tuple[str, str] | None:
    """What `setattr(a.b, "c", v)` or `delattr(a.b, "c")` assigns to: `("a", "b.c")`."""
    if not (isinstance(call.func, ast.Name) and call.func.id in {"setattr", "delattr"}):
        return None
    if len(call.args) < 2:
        return None
    target = attribute_target(call.args[0])
    if target is None:
        return None
    root, path = target
    name = call.args[1]
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        path = f"{path}.{name.value}" if path else name.value
    return root, path


def dotted_name(node: ast.AST) -> str | None:
    """`np.random.seed` for the expression of that text; None for anything but names."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join((node.id, *reversed(parts)))
