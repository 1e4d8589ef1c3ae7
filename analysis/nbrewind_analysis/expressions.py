"""The walk of a cell's expressions: loads, calls, code in texts, short circuits."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from nbrewind_analysis.bodies import (
    Body,
    comprehension_results,
    function_body,
    function_header,
    statements_body,
    target_names,
)
from nbrewind_analysis.lookups import (
    SPECIAL_ROOTS,
    Lookup,
    attribute_lookup,
    call_lookup,
    executed_text,
    is_shell,
    name_lookup,
)
from nbrewind_analysis.magics import Run, magic_of, parse_text
from nbrewind_analysis.namespace import Namespace
from nbrewind_analysis.paths import State, fork, join
from nbrewind_analysis.targets import attribute_target, setattr_target

_SHARED = {
    "comprehension": (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    "For": (ast.AsyncFor,),
    "With": (ast.AsyncWith,),
    "Try": (ast.TryStar,),
    "capture": (ast.MatchAs, ast.MatchStar),
    "function": (ast.FunctionDef, ast.AsyncFunctionDef),
}

_METHODS: dict[type, str] = {
    cls: f"_visit_{name}"
    for name, cls in vars(ast).items()
    if isinstance(cls, type) and issubclass(cls, ast.AST)
} | {cls: f"_visit_{name}" for name, classes in _SHARED.items() for cls in classes}
"""The method that walks each kind of node; kinds without one have their parts walked."""


class Expressions(Namespace):
    """Walks expressions in the order of evaluation."""

    def __init__(
        self,
        transform: Callable[[str], str],
        *,
        evaluate_annotations: bool,
        texts: frozenset[str],
    ) -> None:
        """Prepare a walk.

        Args:
            transform: input transformation for code inside magics.
            evaluate_annotations: whether annotations run where they stand.
            texts: identifiers in all texts of the cell, for evaluators given any of them.
        """
        super().__init__(texts)
        self._transform = transform
        self._annotations = evaluate_annotations
        self._inside: frozenset[str] = frozenset()
        """Names local to the comprehensions and type parameter lists around."""

    def run(self, statements: Iterable[ast.stmt]) -> None:
        """Walk statements that run one after the other."""
        for statement in statements:
            self.visit(statement)

    def visit(self, node: ast.AST) -> None:
        """Walk one statement or expression."""
        method = getattr(self, _METHODS[type(node)], None)
        if method is not None:
            method(node)
        else:
            for child in ast.iter_child_nodes(node):
                self.visit(child)

    def _branches(self, *alternatives: Iterable[ast.AST]) -> None:
        """Walk alternatives that all start from here; go on where they meet."""
        start = self.state
        ends: list[State | None] = []
        for nodes in alternatives:
            self.state = fork(start)
            for node in nodes:
                self.visit(node)
            ends.append(self.state)
        self.state = join(ends)

    def _visit_Name(self, node: ast.Name) -> None:
        name = node.id
        if isinstance(node.ctx, ast.Store):
            if name not in self._inside:
                self.store(name)
        elif isinstance(node.ctx, ast.Del):
            self._delete(name)
        elif name not in self._inside:
            self._load_here(name)
            self._look_up(name_lookup(name, module_level=True))

    def _visit_Attribute(self, node: ast.Attribute) -> None:
        self._look_up(attribute_lookup(node))
        self._attribute_target(node)
        root = node.value
        if isinstance(root, ast.Name) and root.id not in self._inside | SPECIAL_ROOTS:
            self._load_here(root.id)
        elif not is_shell(root):
            self.visit(root)

    def _visit_Subscript(self, node: ast.Subscript) -> None:
        self._attribute_target(node)
        self.visit(node.value)
        self.visit(node.slice)

    def _attribute_target(self, node: ast.Attribute | ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.found.calls = True
            target = attribute_target(node)
            if target is not None and target[0] not in self._inside:
                self.found.attribute_stores.add(target)

    def _visit_Constant(self, node: ast.Constant) -> None:
        if node.value == "__main__":
            self.found.dynamic = True

    def _visit_Compare(self, node: ast.Compare) -> None:
        operands = (node.left, *node.comparators)
        if any(isinstance(part, ast.Name) and part.id == "__name__" for part in operands):
            # `__name__ == "__main__"` is the one harmless use of that text.
            self._load_here("__name__")
            return
        self.visit(node.left)
        self.visit(node.comparators[0])
        if len(node.comparators) > 1:
            self._branches((), node.comparators[1:])

    def _visit_Call(self, node: ast.Call) -> None:
        self.found.calls = True
        if self._magic(node):
            return
        target = setattr_target(node)
        if target is not None:
            self.found.attribute_stores.add(target)
        lookup = call_lookup(node, module_level=True)
        if lookup is None:
            self.visit(node.func)
        elif isinstance(node.func, ast.Name):
            self._load_here(node.func.id)
        elif isinstance(node.func, ast.Attribute) and not is_shell(node.func.value):
            self.visit(node.func.value)
        for child in (*node.args, *node.keywords):
            self.visit(child)
        text = executed_text(node) if isinstance(node.func, ast.Name) else None
        if text is not None and node.func.id in {"eval", "exec"}:  # type: ignore[attr-defined]
            self._run_text(text, Run.MAYBE)
        else:
            self._look_up(lookup)

    def _magic(self, node: ast.Call) -> bool:
        magic = magic_of(node)
        if magic is None:
            return False
        self.found.dynamic |= magic.everything
        self.found.raw_text |= magic.raw_text
        self._look_up(Lookup(texts=magic.texts + magic.expressions))
        for text, run in magic.code:
            self._run_text(text, run)
        for name in magic.stores:
            self.store(name)
        return True

    def _run_text(self, text: str, run: Run) -> None:
        """Walk code that is given as a text."""
        tree = parse_text(text, self._transform)
        if tree is None:
            self._look_up(Lookup(texts=(text,)))
            return
        self.found.parsed.append(tree)
        if run is Run.INNER:
            self._count(statements_body(tree.body))
            self.found.calls = True
        elif run is Run.ONCE:
            self.run(tree.body)
        else:
            self._branches((), tree.body)

    def _visit_Await(self, node: ast.Await) -> None:
        self.found.calls = True
        self.visit(node.value)

    def _visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.store(node.target.id)

    def _visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.visit(node.values[0])
        self._chain(node.values[1:])

    def _chain(self, values: list[ast.expr]) -> None:
        """Values of which each is reached only through the one before."""
        if values:
            skipped = fork(self.state)
            self.visit(values[0])
            self._chain(values[1:])
            self.state = join((skipped, self.state))

    def _visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        self._branches((node.body,), (node.orelse,))

    def _visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None:
                self.visit(key)
            self.visit(value)

    def _visit_Lambda(self, node: ast.Lambda) -> None:
        self._count(self._lambda(node))

    def _lambda(self, node: ast.Lambda) -> Body:
        for part in function_header(node, annotations=False):
            self.visit(part)
        return function_body(node, self._inside, self._owner)

    def _visit_comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ) -> None:
        self.found.calls = True
        self.visit(node.generators[0].iter)
        start, scope, inside = fork(self.state), self._scope, self._inside
        # Its own scope: it does not see the names of a class around it.
        self._scope = ""
        self._inside = inside.union(*(target_names(g.target) for g in node.generators))
        for index, generator in enumerate(node.generators):
            if index:
                self.visit(generator.iter)
            self.visit(generator.target)
            for test in generator.ifs:
                self.visit(test)
        for part in comprehension_results(node):
            self.visit(part)
        self._scope, self._inside = scope, inside
        self.state = join((start, self.state))
