"""A Python shell without IPython or ZMQ that an engine can be driven with."""

from __future__ import annotations

import ast
import contextlib
import io
import sys
import traceback
import types
from collections.abc import Iterator, Mapping, Set
from typing import Any

import msgspec

from nbrewind.model.records import OutputMessage
from nbrewind_kernels.ports import CellOutcome
from nbrewind_kernels.recording import MODULE_NAMES

_RESULTS = ("_", "__", "___")
_HIDDEN = frozenset({"_", "__", "___", "Out", "In"}) | MODULE_NAMES


class PlainShell:
    """Runs cells in a `__main__` module of its own; the last expression is shown."""

    def __init__(self) -> None:
        self.module = types.ModuleType("__main__")
        self.module.__dict__["__builtins__"] = __builtins__
        self._last: Any = None
        self.user_ns: dict[str, Any] = self.module.__dict__

    def hidden_names(self) -> frozenset[str]:
        """Names that are the shell's."""
        own = self._last is self.user_ns.get("_", self._last)
        return _HIDDEN if own else _HIDDEN - {"_"}

    @staticmethod
    def transform(source: str) -> str:
        """Plain Python needs no transformation."""
        return source

    def compile_flags(self) -> int:
        """No `__future__` outlives its cell here."""
        return 0

    def registries(self) -> Mapping[str, int | str]:
        """There is nothing to register with."""
        return {}

    def own_magics(self, names: Set[str]) -> list[object]:
        """There are no magics."""
        return []

    def own_hooks(self) -> list[types.FunctionType]:
        """Nothing can be registered."""
        return []

    def put_result(self, age: int, value: Any) -> None:
        """Only `_`, `__` and `___` are kept here."""
        if age <= len(_RESULTS):
            self.user_ns[_RESULTS[age - 1]] = value
        if age == 1:
            self._last = value

    def run_quietly(self, source: str, *, keep_figures: bool = False) -> CellOutcome:
        """Run a cell and show nothing; results stay those of the cells before."""
        return self._run(source, keep_result=False)

    def run(self, source: str) -> CellOutcome:
        """Run a cell; its outcome holds what it printed and its result's `repr`."""
        return self._run(source, keep_result=True)

    def _run(self, source: str, *, keep_result: bool) -> CellOutcome:
        stream = io.StringIO()
        outputs: list[OutputMessage] = []
        with self.as_main(), contextlib.redirect_stdout(stream):
            try:
                result, has_result = self._execute(source)
                if has_result and result is not None:
                    outputs.append(_message("execute_result", {"text/plain": repr(result)}))
                    if keep_result:
                        self._keep_result(result)
            except BaseException as problem:
                text = "".join(traceback.format_exception_only(problem)).strip()
                return CellOutcome("error", error=text, outputs=(*_printed(stream), *outputs))
        return CellOutcome(
            "ok", result, has_result=has_result, outputs=(*_printed(stream), *outputs)
        )

    @contextlib.contextmanager
    def as_main(self) -> Iterator[None]:
        """Be the `__main__` module meanwhile, as the kernel's is."""
        real = sys.modules["__main__"]
        sys.modules["__main__"] = self.module
        try:
            yield
        finally:
            sys.modules["__main__"] = real

    def _keep_result(self, result: Any) -> None:
        """As IPython does: a `_` that the notebook bound itself stays what it is."""
        taken = "_" in self.user_ns and self.user_ns["_"] is not self._last
        self._last = result
        if not taken:
            for older, newer in (("___", "__"), ("__", "_")):
                if newer in self.user_ns:
                    self.user_ns[older] = self.user_ns[newer]
            self.user_ns["_"] = result

    def _execute(self, source: str) -> tuple[Any, bool]:
        tree = ast.parse(source)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            body = ast.Module(tree.body[:-1], [])
            exec(compile(body, "<cell>", "exec", dont_inherit=True), self.user_ns)
            return eval(
                compile(ast.Expression(last.value), "<cell>", "eval", dont_inherit=True),
                self.user_ns,
            ), True
        exec(compile(tree, "<cell>", "exec", dont_inherit=True), self.user_ns)
        return None, False


def _printed(stream: io.StringIO) -> tuple[OutputMessage, ...]:
    text = stream.getvalue()
    return (_message("stream", {"name": "stdout", "text": text}),) if text else ()


def _message(kind: str, content: Any) -> OutputMessage:
    return OutputMessage(kind, msgspec.Raw(msgspec.msgpack.encode(content)))
