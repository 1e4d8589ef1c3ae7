"""What the body of a function does to globals if it runs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from nbrewind.state.evaluators import identifiers
from nbrewind_analysis.lookups import (
    SPECIAL_ROOTS,
    Lookup,
    attribute_lookup,
    call_lookup,
    is_shell,
    name_lookup,
)
from nbrewind_analysis.magics import magic_of
from nbrewind_analysis.mentions import mentions
from nbrewind_analysis.targets import attribute_target, setattr_target

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(slots=True)
class Body:
    """Globals that a function's body, with the functions nested in it, may touch."""

    loads: set[str] = field(default_factory=set)
    stores: set[str] = field(default_factory=set)
    """Globals it stores or deletes."""
    attribute_stores: set[tuple[str, str]] = field(default_factory=set)
    dynamic: bool = False
    """It may read or write any global."""
    evaluates: bool = False
    """It looks up names in texts of unknown origin."""
    imports: set[str] = field(default_factory=set)
    """Modules it imports."""


def function_body(
    node: FunctionNode, enclosing: frozenset[str] = frozenset(), mangle: str = ""
) -> Body:
    """Scan a function or lambda.

    Args:
        node: the function; its decorators and defaults are not part of its body.
        enclosing: names local to the scopes around it.
        mangle: name of the class around it, for names like `__x`.
    """
    scan = _Scan(Body(), mangle)
    scan.function(node, enclosing)
    scan.body.imports = mentions(node).imports
    return scan.body


def statements_body(statements: list[ast.stmt]) -> Body:
    """Scan statements as if they were the body of a function without parameters."""
    scan = _Scan(Body(), "")
    scan.scope(statements, set(), frozenset())
    scan.body.imports = mentions(ast.Module(statements, [])).imports
    return scan.body


def mangled(name: str, owner: str) -> str:
    """The name that `__x` stands for in the body of the class `owner`."""
    if owner and name.startswith("__") and not name.endswith("__"):
        return f"_{owner.lstrip('_')}{name}"
    return name


def target_names(target: ast.AST) -> Iterator[str]:
    """Names that assigning to `target` binds."""
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


class _Scan:
    """Walks one function, resolving each name to local or global."""

    def __init__(self, body: Body, mangle: str) -> None:
        self.body = body
        self.mangle = mangle

    def function(self, node: FunctionNode, enclosing: frozenset[str]) -> None:
        args = node.args
        local = {a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
        local.update(a.arg for a in (args.vararg, args.kwarg) if a is not None)
        local.update(type_parameters(node))
        if isinstance(node, ast.Lambda):
            local.update(_bound([node.body])[0])
            self.visit(node.body, enclosing | local)
        else:
            self.scope(node.body, local, enclosing)

    def scope(self, statements: list[ast.stmt], local: set[str], enclosing: frozenset[str]) -> None:
        bound, declared = _bound(statements)
        local |= bound
        stored = {mangled(name, self.mangle) for name in declared & bound}
        self.body.stores |= stored
        names = (enclosing | local) - declared
        for statement in statements:
            self.visit(statement, names)

    def visit(self, node: ast.AST, local: frozenset[str]) -> None:
        match node:
            case ast.Name():
                self.name(node, local)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                header = function_header(node, annotations=True)
                for part in (*getattr(node, "decorator_list", ()), *header):
                    self.visit(part, local)
                self.function(node, local)
            case ast.ClassDef():
                outer, self.mangle = self.mangle, node.name
                inner = local | set(type_parameters(node))
                for child in ast.iter_child_nodes(node):
                    self.visit(child, inner)
                self.mangle = outer
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self.comprehension(node, local)
            case ast.Call():
                self.call(node, local)
            case ast.Attribute():
                self.lookup(attribute_lookup(node))
                self.target(node, local)
                if isinstance(node.value, ast.Name) and node.value.id not in SPECIAL_ROOTS:
                    self.load(node.value.id, local)
                elif not is_shell(node.value):
                    self.visit(node.value, local)
            case ast.AugAssign(target=ast.Name(id=name)):
                self.load(name, local)
                self.visit(node.value, local)
            case ast.AnnAssign(target=ast.Name()):
                # Annotations of local variables are not evaluated.
                if node.value is not None:
                    self.visit(node.value, local)
            case ast.Subscript():
                self.target(node, local)
                self.visit(node.value, local)
                self.visit(node.slice, local)
            case ast.Import():
                self.body.dynamic |= any(alias.name == "__main__" for alias in node.names)
            case ast.ImportFrom():
                self.body.dynamic |= node.module == "__main__"
            case _:
                for child in ast.iter_child_nodes(node):
                    self.visit(child, local)

    def name(self, node: ast.Name, local: frozenset[str]) -> None:
        if node.id not in local and isinstance(node.ctx, ast.Load):
            self.load(node.id, local)
            self.lookup(name_lookup(node.id, module_level=False))

    def load(self, name: str, local: frozenset[str]) -> None:
        if name not in local and name != "__class__":
            self.body.loads.add(mangled(name, self.mangle))

    def comprehension(self, node: _Comprehension, local: frozenset[str]) -> None:
        self.visit(node.generators[0].iter, local)
        inner = local.union(*(target_names(g.target) for g in node.generators))
        for index, generator in enumerate(node.generators):
            if index:
                self.visit(generator.iter, inner)
            self.visit(generator.target, inner)
            for test in generator.ifs:
                self.visit(test, inner)
        for part in comprehension_results(node):
            self.visit(part, inner)

    def call(self, node: ast.Call, local: frozenset[str]) -> None:
        if (magic := magic_of(node)) is not None:
            texts = [*magic.texts, *magic.expressions, *(text for text, _ in magic.code)]
            self.body.loads |= identifiers(texts) - local
            self.body.stores.update(magic.stores)
            self.body.dynamic |= magic.everything
            return
        target = setattr_target(node)
        if target is not None and target[0] not in local:
            self.body.attribute_stores.add(target)
        found = call_lookup(node, module_level=False)
        if isinstance(node.func, ast.Name) and node.func.id in local:
            found = None
        self.lookup(found)
        if found is None:
            self.visit(node.func, local)
        elif isinstance(node.func, ast.Name):
            self.body.loads.add(node.func.id)
        elif isinstance(node.func, ast.Attribute) and not is_shell(node.func.value):
            self.visit(node.func.value, local)
        for child in (*node.args, *node.keywords):
            self.visit(child, local)

    def target(self, node: ast.Attribute | ast.Subscript, local: frozenset[str]) -> None:
        if not isinstance(node.ctx, ast.Load):
            stored = attribute_target(node)
            if stored is not None and stored[0] not in local:
                self.body.attribute_stores.add(stored)

    def lookup(self, found: Lookup | None) -> None:
        if found is not None:
            self.body.dynamic |= found.everything
            self.body.evaluates |= found.anywhere
            self.body.loads |= identifiers(found.texts)


def function_header(node: FunctionNode, *, annotations: bool) -> Iterator[ast.AST]:
    """What runs where a function is defined, after its decorators: defaults, annotations."""
    args = node.args
    yield from args.defaults
    yield from (default for default in args.kw_defaults if default is not None)
    if annotations and not isinstance(node, ast.Lambda):
        for arg in (*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg):
            if arg is not None and arg.annotation is not None:
                yield arg.annotation
        if node.returns is not None:
            yield node.returns


def comprehension_results(node: _Comprehension) -> tuple[ast.expr, ...]:
    """The expressions a comprehension evaluates for each item."""
    return (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)


def type_parameters(node: ast.AST) -> list[str]:
    """Names of the type parameters of a definition (`def f[T]()`, Python 3.12)."""
    return [parameter.name for parameter in getattr(node, "type_params", ())]


def _bound(nodes: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """Names a function's own statements bind, and those it declares global."""
    bound: set[str] = set()
    declared: set[str] = set()
    pending: list[ast.AST] = list(nodes)
    while pending:
        node = pending.pop()
        match node:
            case ast.Name(ctx=ast.Store() | ast.Del()):
                bound.add(node.id)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                bound.add(node.name)
                pending += node.decorator_list
                if isinstance(node, ast.ClassDef):
                    declared_inside = _class_globals(node)
                    bound |= declared_inside
                    declared |= declared_inside
                continue
            case ast.Lambda():
                continue
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                bound.update(
                    inner.target.id for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr)
                )
                continue
            case ast.Import() | ast.ImportFrom():
                bound.update((a.asname or a.name).partition(".")[0] for a in node.names)
                continue
            case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
                if node.name:
                    bound.add(node.name)
            case ast.MatchMapping():
                if node.rest:
                    bound.add(node.rest)
            case ast.Global():
                declared.update(node.names)
        pending.extend(ast.iter_child_nodes(node))
    return bound, declared


def _class_globals(node: ast.ClassDef) -> set[str]:
    return {name for part in node.body if isinstance(part, ast.Global) for name in part.names}
