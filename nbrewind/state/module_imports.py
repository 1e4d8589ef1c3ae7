"""Which modules a source file names in its import statements, also inside functions."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from nbrewind.model.versions import Version
from nbrewind.state.audit import unheard
from nbrewind.state.digests import digest_file

_IMPORTERS = frozenset({"import_module", "__import__"})


@dataclass(frozen=True, slots=True)
class Imports:
    """What a source file may import, by absolute names."""

    names: frozenset[str] = frozenset()
    late: frozenset[str] = frozenset()
    """Those among `names` that functions import when they run."""


def imports_of(module: str, path: str) -> Imports:
    """What a source file may import.

    `from a import b` gives `a.b`, which may be a module or an attribute of one. Calls of
    `import_module` with a constant count. A file that is no Python source (an
    extension module) or does not parse names nothing.

    Args:
        module: Its module's name, for relative imports.
        path: The source file.
    """
    if not path.endswith(".py"):
        return Imports()
    is_package = os.path.basename(path) == "__init__.py"
    return _parsed(module, path, is_package, digest_file(path))


@lru_cache(maxsize=1024)
def _parsed(module: str, path: str, is_package: bool, version: Version) -> Imports:
    # `version` is there for the cache only.
    try:
        with unheard(), open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return Imports()
    package = module if is_package else module.rpartition(".")[0]
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    late = frozenset(name for function in functions for name in _names(function, package))
    return Imports(frozenset(_names(tree, package)), late)


def _names(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            if base:
                yield from (f"{base}.{alias.name}".removesuffix(".*") for alias in node.names)
        elif isinstance(node, ast.Call) and _is_importer(node.func) and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                dots = len(name.value) - len(name.value.lstrip("."))
                base = _up(package, dots)
                yield f"{base}.{name.value[dots:]}" if dots and base else name.value


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    base = _up(package, node.level)
    return f"{base}.{node.module}" if base and node.module else base


def _up(package: str, dots: int) -> str:
    parts = package.split(".") if package else []
    return ".".join(parts[: len(parts) - dots + 1]) if 0 < dots <= len(parts) else ""


def _is_importer(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in _IMPORTERS
