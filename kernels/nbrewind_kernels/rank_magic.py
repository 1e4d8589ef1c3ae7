"""The `%%torchrun` magic: a cell on several ranks."""

# mypy: allow-untyped-calls
# (IPython and ipykernel are annotated only in part)

from __future__ import annotations

import argparse
import ast
import shlex
import sys
from collections.abc import Mapping, Set
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class

from nbrewind.state.code import code_uses
from nbrewind.training.launching.launch import GRACE, TIMEOUT, run_body
from nbrewind.training.launching.work import Body
from nbrewind_analysis.names import cell_names


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%%torchrun: {message}. {self.format_usage().strip()}")


_options = _Options(prog="%%torchrun", add_help=False)
_options.add_argument("-n", "--nproc", type=int, required=True)
_options.add_argument("--timeout", type=float, default=TIMEOUT)
_options.add_argument("--grace", type=float, default=GRACE)


@magics_class
class RankMagics(Magics):
    """Cells that run on several ranks."""

    @cell_magic
    def torchrun(self, line: str, cell: str) -> None:
        """Run the cell on N ranks, as `nbrewind.training.launch` runs a function.

        %%torchrun -n N [--timeout SECONDS] [--grace SECONDS]

        The variables that the cell reads go to every rank; those that it assigns on rank 0 come
        back into the notebook.
        """
        __tracebackhide__ = True  # IPython leaves this frame out
        options = _options.parse_args(shlex.split(line))
        shell: Any = self.shell
        code = shell.transform_cell(cell)
        filename = shell.compile.cache(code, shell.execution_count, raw_code=cell)
        flags = shell.compile.flags
        compiled = compile(code, filename, "exec", flags=flags, dont_inherit=True)
        known = cell_names(ast.parse(code), transform=shell.transform_cell, compile_flags=flags)
        own = known.definite_stores - known.reads
        names = _names_read(compiled, shell.user_ns, {*shell.user_ns_hidden, *own})
        assigned = run_body(
            Body(code, filename, flags, names),
            options.nproc,
            timeout=options.timeout,
            grace=options.grace,
        )
        shell.user_ns.update(assigned.names)
        for name in assigned.deleted:
            shell.user_ns.pop(name, None)
        for name, why in assigned.left.items():
            sys.stderr.write(f"[rank 0] {name} stays on the rank: {why}\n")


def _names_read(code: Any, space: Mapping[str, Any], hidden: Set[str]) -> dict[str, Any]:
    """Variables that code reads, without those that are not for the ranks."""
    uses = code_uses(code)
    wanted = space.keys() if uses.dynamic else uses.loads
    return {name: space[name] for name in wanted if name in space and name not in hidden}
