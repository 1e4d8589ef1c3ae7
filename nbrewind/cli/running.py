"""`nbrewind audit` and `nbrewind replay`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nbrewind.cli.options import Environment, EnvPolicy, Json, Notebook, Store
from nbrewind.cli.output import check_json, write_json
from nbrewind.cli.progress import progress_on, summary

if TYPE_CHECKING:
    from nbrewind_kernels.driver import RunRequest, RunResult

_ANSI = re.compile(r"\x1b\[[0-9;]*m")

Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="OUT",
        help="Write the notebook to OUT and leave the original as it is.",
        show_default=False,
    ),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        "--parameter",
        metavar="NAME=VALUE",
        help="Set a parameter, as papermill does: the value is read as a number, None, True, "
        "False or a Python literal, else as text. May be repeated.",
        show_default=False,
    ),
]
RawParameters = Annotated[
    list[str] | None,
    typer.Option(
        "-r",
        "--raw-parameter",
        metavar="NAME=TEXT",
        help="Set a parameter to exactly this text. May be repeated.",
        show_default=False,
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=0.001,
        metavar="SECONDS",
        help="Interrupt a cell that runs longer. [default: no limit]",
        show_default=False,
    ),
]
KernelTimeout = Annotated[
    float,
    typer.Option(
        "--kernel-timeout", min=1, metavar="SECONDS", help="How long the kernel may take to start."
    ),
]
Trace = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        help="Write where the time went to FILE, for chrome://tracing or ui.perfetto.dev.",
        show_default=False,
    ),
]
Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", help="Print nothing but warnings and errors.")
]


def audit(
    notebook: Notebook,
    output: Output = None,
    parameter: Parameters = None,
    raw_parameter: RawParameters = None,
    store: Store = None,
    json: Json = None,
    timeout: Timeout = None,
    kernel_timeout: KernelTimeout = 60.0,
    trace: Trace = None,
    quiet: Quiet = False,
) -> None:
    """Run every cell of a notebook and record what each read, wrote and printed."""
    request = _request(
        "audit", notebook, output, parameter, raw_parameter, store, timeout, kernel_timeout, trace
    )
    _run(request, json, quiet)


def replay(
    notebook: Notebook,
    output: Output = None,
    parameter: Parameters = None,
    raw_parameter: RawParameters = None,
    store: Store = None,
    json: Json = None,
    env: Environment = EnvPolicy.RERUN,
    timeout: Timeout = None,
    kernel_timeout: KernelTimeout = 60.0,
    trace: Trace = None,
    quiet: Quiet = False,
) -> None:
    """Bring a notebook up to date: run the cells whose inputs changed, reuse the others."""
    request = _request(
        "replay",
        notebook,
        output,
        parameter,
        raw_parameter,
        store,
        timeout,
        kernel_timeout,
        trace,
        env,
    )
    _run(request, json, quiet)


def _request(
    mode: Literal["audit", "replay"],
    notebook: Path,
    output: Path | None,
    given: list[str] | None,
    raw: list[str] | None,
    store: str | None,
    timeout: float | None,
    kernel_timeout: float,
    trace: Path | None,
    env: EnvPolicy = EnvPolicy.RERUN,
) -> RunRequest:
    from nbrewind_kernels.driver import RunRequest
    from nbrewind_kernels.parameters import parse_parameters

    return RunRequest(
        notebook=notebook,
        mode=mode,
        output=output,
        store=store,
        parameters=parse_parameters(given or [], raw or []),
        env_policy="accept" if env is EnvPolicy.ACCEPT else "rerun",
        cell_timeout=timeout,
        start_timeout=kernel_timeout,
        trace=trace,
    )


def _run(request: RunRequest, json: str | None, quiet: bool) -> None:
    check_json(json)
    result = show_run(request, quiet=quiet, on_stderr=json == "-")
    if json is not None:
        write_json(result.report, json)
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def show_run(request: RunRequest, *, quiet: bool = False, on_stderr: bool = False) -> RunResult:
    """Run a notebook with a row per cell, a summary, and what went wrong on stderr."""
    from nbrewind_kernels.driver import run_notebook

    stream = sys.stderr if on_stderr else sys.stdout
    hidden = ("forced",) if request.mode == "audit" else ()
    with progress_on(stream, quiet, hidden) as progress:
        result = run_notebook(request, progress)
    if not quiet:
        verb = "audited" if request.mode == "audit" else "replayed"
        typer.echo(summary(result.report, f"{verb} {request.notebook}"), file=stream)
    if result.failure:
        text = result.failure if sys.stderr.isatty() else _ANSI.sub("", result.failure)
        typer.echo(f"nbrewind: {text}", err=True)
    elif result.exit_code:
        typer.echo("nbrewind: interrupted; what was complete is kept", err=True)
    return result
