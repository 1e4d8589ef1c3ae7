"""Definite assignment: which globals a cell reads before it stores them, path by path.

The walk follows the order of execution and keeps, for the current point, the names that every
path to it has stored or deleted. A load of any other name may see the value from before
the cell. Where paths meet, only what all of them did counts. Functions that the cell defines
contribute when they may run: at each load of their name, or at once if something else could
keep them (a decorator, a container).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from nbrewind.state.evaluators import identifiers
from nbrewind_analysis.bodies import (
    Body,
    comprehension_results,
    function_body,
    function_header,
    mangled,
    statements_body,
    target_names,
    type_parameters,
)
from nbrewind_analysis.harmless import (
    is_plain_base,
    is_plain_decorator,
    lets_exceptions_through,
    runs_at_least_once,
)
from nbrewind_analysis.interactive import HIDDEN, is_history, is_result
from nbrewind_analysis.lookups import (
    SPECIAL_ROOTS,
    Lookup,
    attribute_lookup,
    call_lookup,
    executed_text,
    is_shell,
    name_lookup,
)
from nbrewind_analysis.magics import Run, magic_of
from nbrewind_analysis.targets import attribute_target, setattr_target

BOUND, GONE, EITHER = "bound", "gone", "either"
"""What a name stored or deleted on every path is at the end of them."""

State = dict[str, str]
"""Names stored or deleted on every path to a point, and what they are there."""


@dataclass(slots=True)
class Findings:
    """What the walk of one cell found; see `CellNames` for the meaning of each field."""

    reads: set[str] = field(default_factory=set)
    stores: set[str] = field(default_factory=set)
    deletes: set[str] = field(default_factory=set)
    attribute_stores: set[tuple[str, str]] = field(default_factory=set)
    results: set[str] = field(default_factory=set)
    parsed: list[ast.Module] = field(default_factory=list)
    """Code found in texts: of magics, of `exec`."""
    calls: bool = False
    dynamic: bool = False
    raw_text: bool = False
    star_import: bool = False


@dataclass(slots=True)
class _Loop:
    """States at the `break` and `continue` statements of the loop being walked."""

    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)


def join(states: Iterable[State | None]) -> State | None:
    """The state where paths meet; None stands for a path that does not get there."""
    reached = [state for state in states if state is not None]
    if not reached:
        return None
    first, *others = reached
    if not others:
        return dict(first)
    return {
        name: what if all(other[name] == what for other in others) else EITHER
        for name, what in first.items()
        if all(name in other for other in others)
    }


class Flow:
    """Walks the statements of a cell in the order of execution."""

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
        self.found = Findings()
        self.state: State | None = {}
        self.latent: dict[str, list[Body]] = {}
        """Functions defined so far, by each name that reaches them."""
        self._transform = transform
        self._annotations = evaluate_annotations
        self._texts = texts
        self._loaded: set[str] = set()
        self._counting: set[int] = set()
        self._touched: list[tuple[str, str]] = []
        self._loops: list[_Loop] = []
        self._scope = ""
        """`A.` in the body of class A: prefix of its names in the state."""
        self._owner = ""
        self._class_globals: frozenset[str] = frozenset()
        self._class_bodies: list[Body] = []
        self._inside: frozenset[str] = frozenset()
        """Names local to the comprehensions and type parameter lists around."""

    # Names

    def load(self, name: str) -> None:
        """Account for loading a global, and for the functions that this may run."""
        if name in HIDDEN:
            return
        if self.state is None or name not in self.state:
            if is_result(name):
                self.found.results.add(name)
            elif is_history(name):
                self.found.raw_text = True
            else:
                self.found.reads.add(name)
        self._loaded.add(name)
        for body in self.latent.get(name, ()):
            self._count(body)

    def store(self, name: str) -> None:
        """Account for binding a name of the current scope."""
        name = mangled(name, self._owner)
        if self._scope and name not in self._class_globals:
            self._set(self._scope + name, BOUND)
            return
        self.found.stores.add(name)
        self._set(name, BOUND)

    def _delete(self, name: str) -> None:
        name = mangled(name, self._owner)
        if self._scope and name not in self._class_globals:
            if self.state is not None:
                self.state.pop(self._scope + name, None)
            return
        self.found.deletes.add(name)
        self._set(name, GONE)

    def _set(self, name: str, what: str) -> None:
        if self.state is not None:
            self.state[name] = what
        self._touched.append((name, what))

    def _maybe_store(self, name: str) -> None:
        self.found.stores.add(name)
        self._touched.append((name, EITHER))
        if self.state is not None and name in self.state:
            self.state[name] = EITHER

    def _define(self, name: str, bodies: list[Body]) -> None:
        """Bind `name` to functions; they run only if something loads it."""
        key = mangled(name, self._owner)
        if self._scope and key not in self._class_globals:
            key = self._scope + key
            self._class_bodies += bodies
        self.latent.setdefault(key, []).extend(bodies)
        if key in self._loaded:
            for body in bodies:
                self._count(body)
        self.store(name)

    def _count(self, body: Body) -> None:
        """Account for a function that may run from here on."""
        if id(body) in self._counting:
            return
        self._counting.add(id(body))
        found = self.found
        found.dynamic |= body.dynamic
        found.attribute_stores |= body.attribute_stores
        for name in body.loads:
            self.load(name)
        if body.evaluates:
            self._look_up(Lookup(anywhere=True))
        for name in body.stores:
            self._maybe_store(name)
        self._counting.discard(id(body))

    def _look_up(self, lookup: Lookup | None) -> None:
        if lookup is None:
            return
        self.found.dynamic |= lookup.everything
        for name in self._texts if lookup.anywhere else identifiers(lookup.texts):
            self.load(name)

    # Paths

    def _after_exception(self, start: State | None, since: int) -> State | None:
        """The state at a handler: whatever part of the statements ran since."""
        if start is None:
            return None
        state = dict(start)
        self._blur(state, since)
        return state

    def _blur(self, state: State, since: int) -> None:
        """Forget what names are in `state` if statements since may have changed it."""
        for name, what in self._touched[since:]:
            if name in state and state[name] != what:
                state[name] = EITHER

    def _fork(self) -> State | None:
        return None if self.state is None else dict(self.state)

    def run(self, statements: Iterable[ast.stmt]) -> None:
        """Walk statements that run one after the other."""
        for statement in statements:
            self.visit(statement)

    def _branches(self, *alternatives: Iterable[ast.AST]) -> None:
        """Walk alternatives that all start from here; go on where they meet."""
        start = self.state
        ends: list[State | None] = []
        for nodes in alternatives:
            self.state = None if start is None else dict(start)
            for node in nodes:
                self.visit(node)
            ends.append(self.state)
        self.state = join(ends)

    # Nodes

    def visit(self, node: ast.AST) -> None:
        """Walk one statement or expression."""
        method = _VISITORS.get(type(node))
        if method is not None:
            method(self, node)
        else:
            for child in ast.iter_child_nodes(node):
                self.visit(child)

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

    def _load_here(self, name: str) -> None:
        """Load a name as the current scope sees it."""
        name = mangled(name, self._owner)
        if self._scope and self.state is not None and self._scope + name in self.state:
            for body in self.latent.get(self._scope + name, ()):
                self._count(body)
        else:
            self.load(name)
            for body in self.latent.get(self._scope + name, ()) if self._scope else ():
                self._count(body)

    def _visit_Attribute(self, node: ast.Attribute) -> None:
        self._look_up(attribute_lookup(node))
        self._attribute_target(node)
        root = node.value
        if isinstance(root, ast.Name) and root.id not in self._inside | SPECIAL_ROOTS:
            self._load_here(root.id)
        else:
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
        self.visit(node.left)
        if isinstance(node.left, ast.Name) and node.left.id == "__name__":
            return
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
            skipped = self._fork()
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
        start, scope, inside = self._fork(), self._scope, self._inside
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
        skipped = None if runs_at_least_once(node.iter) else self._fork()
        loop = self._loop(node.target, *node.body)
        self.state = join((skipped, self.state, *loop.continues))
        self.run(node.orelse)
        self.state = join((self.state, *loop.breaks))

    def _visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        forever = isinstance(node.test, ast.Constant) and bool(node.test.value)
        skipped = None if forever else self._fork()
        loop = self._loop(*node.body)
        self.state = join((skipped, self.state, *loop.continues))
        if forever:
            self.state = None
        else:
            self.visit(node.test)
            self.run(node.orelse)
        self.state = join((self.state, *loop.breaks))

    def _loop(self, *nodes: ast.AST) -> _Loop:
        """Walk one round of a loop."""
        loop = _Loop()
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
        start, since = self._fork(), len(self._touched)
        self.run(node.body)
        if not all(lets_exceptions_through(item.context_expr) for item in node.items):
            self.state = join((self.state, self._after_exception(start, since)))

    def _visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        start, since = self._fork(), len(self._touched)
        jumps = [(len(loop.breaks), len(loop.continues)) for loop in self._loops]
        self.run(node.body)
        failed = self._after_exception(start, since)
        self.run(node.orelse)
        ends = [self.state]
        for handler in node.handlers:
            self.state = None if failed is None else dict(failed)
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
        normal, since = self.state, len(self._touched)
        self.state = failed
        self.run(body)
        for loop, (breaks, continues) in zip(self._loops, jumps, strict=True):
            for state in (*loop.breaks[breaks:], *loop.continues[continues:]):
                self._blur(state, since)
        self.state = normal
        self.run(body)

    def _visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        ends: list[State | None] = []
        for case in node.cases:
            start, since = self._fork(), len(self._touched)
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
        parameters = type_parameters(node)
        self._inside = inside | set(parameters)
        for part in function_header(node, annotations=self._annotations):
            if part not in node.decorator_list:
                self.visit(part)
        for parameter in getattr(node, "type_params", ()):
            self.visit(parameter)
        body = function_body(node, self._inside, self._owner)
        self._inside = inside
        if not all(is_plain_decorator(d) for d in node.decorator_list):
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
        if not plain or node.keywords or not all(map(is_plain_decorator, node.decorator_list)):
            for body in bodies:
                self._count(body)
        self._define(node.name, bodies)

    def _visit_TypeAlias(self, node: ast.AST) -> None:
        inside = self._inside
        self._inside |= set(type_parameters(node))
        for child in (*node.type_params, node.value):  # type: ignore[attr-defined]
            self.visit(child)
        self._inside = inside
        self.visit(node.name)  # type: ignore[attr-defined]


def parse_text(text: str, transform: Callable[[str], str]) -> ast.Module | None:
    """Parse code found in a text, transformed only if it is no Python as it stands."""
    for change in (None, transform):
        try:
            return ast.parse(text.strip("\n") if change is None else change(text))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def _matches_all(pattern: ast.pattern) -> bool:
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None


_SHARED = {
    "_visit_comprehension": (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    "_visit_For": (ast.AsyncFor,),
    "_visit_With": (ast.AsyncWith,),
    "_visit_Try": (ast.TryStar,),
    "_visit_capture": (ast.MatchAs, ast.MatchStar),
    "_visit_function": (ast.FunctionDef, ast.AsyncFunctionDef),
}

_VISITORS: dict[type, Callable[[Flow, ast.AST], None]] = {
    cls: getattr(Flow, f"_visit_{name}")
    for name, cls in vars(ast).items()
    if isinstance(cls, type) and issubclass(cls, ast.AST) and hasattr(Flow, f"_visit_{name}")
}
_VISITORS |= {cls: getattr(Flow, name) for name, classes in _SHARED.items() for cls in classes}
