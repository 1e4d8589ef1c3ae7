"""The command reference in Markdown, from the commands' own declarations.

`python -m nbrewind.cli.reference > docs/reference/cli.md` writes it; a test
compares the two.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import typer
from typer.models import ArgumentInfo, OptionInfo

from nbrewind.cli.app import app

_HEAD = """# Command reference

Written by `python -m nbrewind.cli.reference`; do not edit.

`nbrewind --debug COMMAND …` (or `NBREWIND_DEBUG=1`) shows Python tracebacks of errors,
`nbrewind --version` the version, `nbrewind --install-completion` sets up your shell.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a cell raised or ran out of time, the kernel died, or something could not be done |
| 2 | the request cannot be understood: an unknown option, a file that is not a notebook |
| 130 | interrupted; what was complete is kept |
"""

_RUNNING = """
## How a notebook is run

The kernel runs in the notebook's folder and needs no installed kernelspec. The notebook is
written in place, in one step, unless `-o` names another file; if someone else changed it
meanwhile, the result goes to `NAME.nbrewind.ipynb` beside it. Long runs are saved every half
minute.

A cell that raises ends the run: later cells are `not-run` and their old outputs are cleared, and
the notebook is saved with the traceback. Cells tagged `raises-exception` may raise; cells tagged
`skip-execution` and empty cells are passed over. Ctrl-C interrupts the cell, a second Ctrl-C
kills the kernel; SIGTERM and SIGHUP do the same. What was complete before is reused by the next
`replay`.

`-p NAME=VALUE` puts an assignment into a cell tagged `injected-parameters` after the cell tagged
`parameters` (at the top if there is none); a later run replaces that cell.

A cell whose metadata has `{"nbrewind": {"cache": "never"}}`, or whose first line is
`# nbrewind: never`, is always executed; `always` reuses it even where that may be unsafe.

## The report

`--json` writes one object:

| key | |
|---|---|
| `notebook`, `kernel` | the file, the kernel's name |
| `seconds`, `saved_seconds` | of the whole run; what reusing cells saved |
| `executed`, `reused` | numbers of cells |
| `warnings` | what a person should know about the run |
| `cells` | one object for each code cell |

and for each cell:

| key | |
|---|---|
| `index`, `id` | place among the code cells, from 0; the notebook format's cell id |
| `action` | `executed`, `reused`, `failed` or `not-run` |
| `reasons` | why it was executed: objects with `kind`, `subject`, `detail` |
| `seconds`, `recorded_seconds` | of this run; of the reused or previous execution |
| `reads`, `writes` | names of variables |
| `checkpoint_bytes` | what the cell added to the store |
| `notes`, `record` | what a person should know; the record's id |

Kinds of reasons: """


def markdown() -> str:
    """The whole reference."""
    from nbrewind.model.reasons import REASON_KINDS

    parts = [_HEAD]
    for name, function in _commands(app, "nbrewind"):
        parts.append(_command(name, function))
    parts.append(_RUNNING + ", ".join(f"`{kind}`" for kind in REASON_KINDS) + ".\n")
    return "\n".join(parts)


def _commands(group: typer.Typer, prefix: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    for command in group.registered_commands:
        if command.callback is not None:
            yield f"{prefix} {command.name}", command.callback
    for sub in group.registered_groups:
        if sub.typer_instance is not None:
            yield from _commands(sub.typer_instance, f"{prefix} {sub.name}")


def _command(name: str, function: Callable[..., Any]) -> str:
    usage, rows = [name], []
    options = False
    for parameter, info, kind in _parameters(function):
        default = parameter.default
        if isinstance(info, ArgumentInfo):
            usage.append(_metavar(info, kind))
            rows.append((f"`{_metavar(info, kind)}`", info.help or ""))
        elif isinstance(info, OptionInfo):
            options = True
            flags = ", ".join(f"`{flag}`" for flag in _flags(info))
            value = "" if kind is bool else f" `{_metavar(info, kind)}`"
            rows.append((flags + value, (info.help or "") + _default(default)))
    head = " ".join(usage) + (" [OPTIONS]" if options else "")
    text = inspect.cleandoc(function.__doc__ or "")
    table = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    body = ["| | |", "|---|---|", *table] if table else []
    return "\n".join([f"## {name}", "", f"    {head}", "", text, "", *body, ""])


def _parameters(
    function: Callable[..., Any],
) -> Iterator[tuple[inspect.Parameter, object, object]]:
    hints = typing.get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        kind, *extra = typing.get_args(hints[parameter.name])
        infos = [item for item in extra if isinstance(item, ArgumentInfo | OptionInfo)]
        yield parameter, infos[0] if infos else None, kind


def _flags(info: OptionInfo) -> tuple[str, ...]:
    # In `Annotated`, Typer takes the first flag for the default until it builds the command.
    return (str(info.default), *(info.param_decls or ()))


def _metavar(info: ArgumentInfo | OptionInfo, kind: object) -> str:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(member.value) for member in kind)
    return info.metavar or ("N" if kind is int else "TEXT")


def _default(value: object) -> str:
    if value is None or value is False or value == "":
        return ""
    shown = value.value if isinstance(value, Enum) else value
    return f" Default: `{shown}`."


if __name__ == "__main__":
    typer.echo(markdown(), nl=False)
