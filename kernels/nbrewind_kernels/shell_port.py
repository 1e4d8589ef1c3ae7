"""IPython as the engine sees it: the `Shell` port on an `InteractiveShell`."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager, nullcontext
from types import FunctionType
from typing import Any, cast

from IPython.utils.capture import capture_output

from nbrewind_kernels.interrupts import allowed
from nbrewind_kernels.outputs import muted
from nbrewind_kernels.pending_results import put_result
from nbrewind_kernels.ports import CellOutcome
from nbrewind_kernels.registries import own_hooks, own_magics, registry_digests

_MODULE_NAMES = frozenset(
    {
        "__name__",
        "__doc__",
        "__package__",
        "__loader__",
        "__spec__",
        "__builtin__",
        "__builtins__",
        # put there by ipykernel and by VS Code
        "__session__",
        "__vsc_ipynb_file__",
    }
)
_NUMBERED = re.compile(r"_(i?)(\d+)")
_INPUTS = ("_i", "_ii", "_iii")


class IPythonShellPort:
    """`nbrewind_kernels.ports.Shell` on an IPython shell.

    Args:
        shell: an `InteractiveShell`, of a kernel or of a terminal.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    @property
    def user_ns(self) -> dict[str, Any]:
        """The notebook's namespace."""
        return cast("dict[str, Any]", self._shell.user_ns)

    @user_ns.setter
    def user_ns(self, namespace: dict[str, Any]) -> None:
        self._shell.user_ns = namespace

    def hidden_names(self) -> frozenset[str]:
        """Names whose present value IPython put there, and those it is about to put there.

        A user's own `_ = gettext` or `open = my_open` is an ordinary variable.
        """
        shell, namespace = self._shell, self._shell.user_ns
        hidden = {
            name
            for name, value in shell.user_ns_hidden.items()
            if namespace.get(name, _NOTHING) is value
        }
        hidden.update(_MODULE_NAMES & namespace.keys())
        hook, history = shell.displayhook, shell.history_manager
        for name in ("_", "__", "___"):
            if name not in namespace or namespace[name] is getattr(hook, name, None):
                hidden.add(name)
        for name in _INPUTS:
            if name not in namespace or namespace[name] == getattr(history, name, None):
                hidden.add(name)
        hidden.update((f"_{shell.execution_count}", f"_i{shell.execution_count}"))
        results = namespace.get("_oh", {})
        for name in namespace:
            if name[:1] == "_" and (match := _NUMBERED.fullmatch(name)):
                number = int(match[2])
                if match[1] or results.get(number, _NOTHING) is namespace[name]:
                    hidden.add(name)
        return frozenset(hidden)

    def transform(self, source: str) -> str:
        """Cell text to Python text; raises `SyntaxError` where IPython refuses it."""
        return cast(str, self._shell.transform_cell(source))

    def compile_flags(self) -> int:
        """`from __future__` flags in force."""
        return cast(int, self._shell.compile.flags)

    def registries(self) -> Mapping[str, int | str]:
        """Digests of IPython's registries."""
        return registry_digests(self._shell)

    def own_magics(self, names: Set[str]) -> list[object]:
        """What stands behind magics of these names that the notebook registered itself."""
        return own_magics(self._shell, names)

    def own_hooks(self) -> list[FunctionType]:
        """Functions of the notebook that IPython calls with every cell."""
        return own_hooks(self._shell)

    def put_result(self, age: int, value: Any) -> None:
        """Put a reused cell's result where IPython keeps it; `age` 1 is `_`, 2 is `__`."""
        put_result(self._shell, age, value)

    def run_quietly(self, source: str, *, keep_figures: bool = False) -> CellOutcome:
        """Run a cell only for what it does to the namespace, and for its result.

        Nothing is shown, counted or kept in the history, and no `pre_execute` or
        `post_execute` callback runs: the user's session must not notice.
        """
        shell = self._shell
        try:
            transformed = shell.transform_cell(source)
            if shell.should_run_async(source, transformed_cell=transformed):
                return CellOutcome(status="error", error="needs an event loop")
            with (
                muted(),
                capture_output(),
                nullcontext() if keep_figures else _figures_aside(),
                shell.builtin_trap,
                _tracebacks_unshown(shell),
                allowed(),
            ):
                shown = _run(shell, source, transformed)
        except KeyboardInterrupt:
            return CellOutcome(status="interrupted", error="KeyboardInterrupt: ")
        except BaseException as error:  # SystemExit too is only how the user's code ended
            return CellOutcome(status="error", error=f"{type(error).__name__}: {error}")
        return CellOutcome(status="ok", result=shown, has_result=shown is not None)


_NOTHING = object()


def _run(shell: Any, source: str, transformed: str) -> Any:
    """Execute a cell's statements as IPython does; the value it would show, or None."""
    filename = shell.compile.cache(transformed, shell.execution_count, raw_code=source)
    tree = shell.transform_ast(shell.compile.ast_parse(transformed, filename=filename))
    statements, last = tree.body, None
    if statements and shell.ast_node_interactivity != "none":
        final = statements[-1]
        if isinstance(final, ast.Expr):
            statements, last = statements[:-1], final
        elif shell.ast_node_interactivity == "last_expr_or_assign" and isinstance(
            final, ast.Assign | ast.AnnAssign | ast.AugAssign
        ):
            target = final.targets[0] if isinstance(final, ast.Assign) else final.target
            if isinstance(target, ast.Name):
                name = ast.Name(target.id, ast.Load())
                last = ast.fix_missing_locations(ast.Expr(ast.copy_location(name, target)))
    for statement in statements:
        module = ast.Module([statement], [])
        exec(shell.compile(module, filename, "exec"), shell.user_global_ns, shell.user_ns)
    if last is None:
        return None
    code = shell.compile(ast.Expression(last.value), filename, "eval")
    value = eval(code, shell.user_global_ns, shell.user_ns)
    return None if _ends_with_semicolon(shell, transformed) else value


def _ends_with_semicolon(shell: Any, transformed: str) -> bool:
    hook = shell.displayhook
    return bool(hook.semicolon_at_end_of_expression(transformed))


@contextmanager
def _tracebacks_unshown(shell: Any) -> Iterator[None]:
    """Magics such as `%run` show the traceback of what they run."""
    before = shell._showtraceback
    shell._showtraceback = lambda *_args: None
    try:
        yield
    finally:
        shell._showtraceback = before


@contextmanager
def _figures_aside() -> Iterator[None]:
    """Figures drawn meanwhile are closed; those the user is drawing stay open."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    inline = sys.modules.get("matplotlib_inline.backend_inline")
    if helpers is None:
        yield
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        if helpers is not None:
            helpers.Gcf.destroy_all()
        return
    figures = helpers.Gcf.figs.copy()
    drawn = (inline.show._to_draw, inline.show._draw_called) if inline is not None else None
    helpers.Gcf.figs.clear()
    try:
        yield
    finally:
        helpers.Gcf.destroy_all()
        helpers.Gcf.figs.update(figures)
        if inline is not None and drawn is not None:
            inline.show._to_draw, inline.show._draw_called = drawn
