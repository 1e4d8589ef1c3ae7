"""Definite assignment: which globals a cell reads before it stores them, path by path.

The walk follows the order of execution and keeps, for the current point, the names that every
path to it has stored or deleted. A load of any other name may see the value from before
the cell. Where paths meet, only what all of them did counts.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from nbrewind_analysis.bodies import function_body, function_header, type_parameters
from nbrewind_analysis.expressions import Expressions
from nbrewind_analysis.harmless import (
    is_plain_base,
    is_plain_decorator,
    lets_exceptions_through,
    runs_at_least_once,
)
from nbrewind_analysis.paths import Loop, State, blur, fork, join

ANNOTATIONS = "__annotations__"
"""Where a module keeps the annotations of its variables."""


class Flow(Expressions):
    """Walks the statements of a cell in the order of execution."""

    def __init__(
        self,
        transform: Callable[[str], str],
        *,
        evaluate_annotations: bool,
        texts: frozenset[str],
    ) -> None:
        """Prepare a walk; see `Expressions` for the arguments."""
        super().__init__(transform, evaluate_annotations=evaluate_annotations, texts=texts)
        self._loops: list[Loop] = []

    def _after_exception(self, start: State | None, since: int) -> State | None:
        """The state at a handler: whatever part of the statements ran since."""
        state = fork(start)
        if state is not None:
            blur(state, self._changes[since:])
        return state

    def _visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.value, ast.Lambda) and all(
            isinstance(target, ast.Name) for target in node.targets
        ):
            body = self._lambda(node.value)
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self._define(target.id, [body])
            return
        self.visit(node.value)
        for target in node.targets:
            self.visit(target)

    def _visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._load_here(node.target.id)
        self.visit(node.value)
        self.visit(node.target)

    def _visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
        if self._annotations:
            self.visit(node.annotation)
        if node.value is not None or not isinstance(node.target, ast.Name):
            self.visit(node.target)
        if isinstance(node.target, ast.Name) and node.simple and not self._scope:
            self.load(ANNOTATIONS)  # it is added to those before
            self.store(ANNOTATIONS)

    def _visit_Global(self, node: ast.Global) -> None:
        self._class_globals |= set(node.names)

    def _visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._branches(node.body, node.orelse)

    def _visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)
        if node.msg is not None:
            self._branches((), (node.msg,))

    def _visit_Raise(self, node: ast.Raise) -> None:
        for child in ast.iter_child_nodes(node):
            self.visit(child)
        self.state = None

    def _visit_Break(self, node: ast.Break) -> None:
        if self._loops and self.state is not None:
            self._loops[-1].breaks.append(self.state)
        self.state = None

    def _visit_Continue(self, node: ast.Continue) -> None:
        if self._loops and self.state is not None:
            self._loops[-1].continues.append(self.state)
        self.state = None

    def _visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.found.calls = True
        self.visit(node.iter)
        skipped = None if runs_at_least_once(node.iter) else fork(self.state)
        loop = self._loop(node.target, *node.body)
        self.state = join((skipped, self.state, *loop.continues))
        self.run(node.orelse)
        self.state = join((self.state, *loop.breaks))

    def _visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        forever = isinstance(node.test, ast.Constant) and bool(node.test.value)
        skipped = None if forever else fork(self.state)
        loop = self._loop(*node.body)
        self.state = join((skipped, self.state, *loop.continues))
        if forever:
            self.state = None
        else:
            self.visit(node.test)
            self.run(node.orelse)
        self.state = join((self.state, *loop.breaks))

    def _loop(self, *nodes: ast.AST) -> Loop:
        """Walk one round of a loop."""
        loop = Loop()
        self._loops.append(loop)
        for node in nodes:
            self.visit(node)
        self._loops.pop()
        return loop

    def _visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        self.found.calls = True
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                self.visit(item.optional_vars)
        start, since = fork(self.state), len(self._changes)
        self.run(node.body)
        if not all(lets_exceptions_through(item.context_expr) for item in node.items):
            self.state = join((self.state, self._after_exception(start, since)))

    def _visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        start, since = fork(self.state), len(self._changes)
        jumps = [(len(loop.breaks), len(loop.continues)) for loop in self._loops]
        self.run(node.body)
        failed = self._after_exception(start, since)
        self.run(node.orelse)
        ends = [self.state]
        for handler in node.handlers:
            self.state = fork(failed)
            self._handler(handler)
            ends.append(self.state)
        self.state = join(ends)
        if node.finalbody:
            self._finally(node.finalbody, self._after_exception(start, since), jumps)

    def _handler(self, handler: ast.ExceptHandler) -> None:
        if handler.type is not None:
            self.visit(handler.type)
        if handler.name:
            self.store(handler.name)
        self.run(handler.body)
        if handler.name:
            self._delete(handler.name)

    def _finally(
        self, body: list[ast.stmt], failed: State | None, jumps: list[tuple[int, int]]
    ) -> None:
        """Walk a `finally` twice: as reached by an exception or a jump, then normally."""
        normal, since = self.state, len(self._changes)
        self.state = failed
        self.run(body)
        for loop, (breaks, continues) in zip(self._loops, jumps, strict=True):
            for state in (*loop.breaks[breaks:], *loop.continues[continues:]):
                blur(state, self._changes[since:])
        self.state = normal
        self.run(body)

    def _visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        ends: list[State | None] = []
        for case in node.cases:
            start, since = fork(self.state), len(self._changes)
            self.visit(case.pattern)
            if case.guard is not None:
                self.visit(case.guard)
            # A pattern that fails half-way may have bound some of its names.
            failed = self._after_exception(start, since)
            self.run(case.body)
            ends.append(self.state)
            self.state = failed
            if case.guard is None and _matches_all(case.pattern):
                self.state = None
        self.state = join((*ends, self.state))

    def _visit_capture(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if isinstance(node, ast.MatchAs) and node.pattern is not None:
            self.visit(node.pattern)
        if node.name is not None:
            self.store(node.name)

    def _visit_MatchOr(self, node: ast.MatchOr) -> None:
        self._branches(*((pattern,) for pattern in node.patterns))

    def _visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        for child in ast.iter_child_nodes(node):
            self.visit(child)
        if node.rest is not None:
            self.store(node.rest)

    def _visit_Import(self, node: ast.Import) -> None:
        self.found.calls = True
        for alias in node.names:
            self.found.dynamic |= alias.name == "__main__"
            self.store(alias.asname or alias.name.partition(".")[0])

    def _visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.found.calls = True
        self.found.dynamic |= node.module == "__main__"
        for alias in node.names:
            if alias.name == "*":
                self.found.star_import = True
            else:
                self.store(alias.asname or alias.name)

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        inside = self._inside
        for decorator in node.decorator_list:
            self.visit(decorator)
        self.found.calls |= bool(node.decorator_list)
        self._inside = inside | set(type_parameters(node))
        for part in function_header(node, annotations=self._annotations):
            self.visit(part)
        for parameter in getattr(node, "type_params", ()):
            self.visit(parameter)
        body = function_body(node, self._inside, self._owner)
        self._inside = inside
        if not self._all_plain(node.decorator_list):
            self._count(body)
        self._define(node.name, [body])

    def _visit_ClassDef(self, node: ast.ClassDef) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        self.found.calls |= bool(node.decorator_list)
        outer = (self._scope, self._owner, self._class_globals, self._class_bodies, self._inside)
        self._inside |= set(type_parameters(node))
        for child in (*getattr(node, "type_params", ()), *node.bases, *node.keywords):
            self.visit(child)
        self._scope, self._owner = f"{self._scope}{node.name}.", node.name
        self._class_globals, self._class_bodies = frozenset(), []
        self.run(node.body)
        bodies, prefix = self._class_bodies, self._scope
        self._scope, self._owner, self._class_globals, self._class_bodies, self._inside = outer
        if self.state is not None:
            self.state = {k: v for k, v in self.state.items() if not k.startswith(prefix)}
        plain = all(is_plain_base(base, self.state or {}) for base in node.bases)
        if not plain or node.keywords or not self._all_plain(node.decorator_list):
            for body in bodies:
                self._count(body)
        self._define(node.name, bodies)

    def _all_plain(self, decorators: list[ast.expr]) -> bool:
        return all(is_plain_decorator(decorator, self.state or {}) for decorator in decorators)

    def _visit_TypeAlias(self, node: ast.AST) -> None:
        inside = self._inside
        self._inside |= set(type_parameters(node))
        for child in (*node.type_params, node.value):  # type: ignore[attr-defined]
            self.visit(child)
        self._inside = inside
        self.visit(node.name)  # type: ignore[attr-defined]


def _matches_all(pattern: ast.pattern) -> bool:
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None
