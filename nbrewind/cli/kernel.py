"""`nbrewind kernel`: the kernels as Jupyter sees them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from nbrewind.cli.output import table
from nbrewind.errors import UsageError

app = typer.Typer(
    help="Install, list and remove the audit and replay kernels.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Prefix = Annotated[
    str | None,
    typer.Option(
        "--prefix", metavar="DIR", help="Under DIR/share/jupyter/kernels.", show_default=False
    ),
]
SysPrefix = Annotated[bool, typer.Option("--sys-prefix", help="In the environment of this Python.")]
Name = Annotated[
    str, typer.Option("--name", help="The kernels are called NAME-audit and NAME-replay.")
]


@app.command("install")
def install(
    user: Annotated[bool, typer.Option("--user", help="In your own Jupyter folder.")] = False,
    sys_prefix: SysPrefix = False,
    prefix: Prefix = None,
    name: Name = "nbrewind",
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            metavar="NAME=VALUE",
            help="Start the kernels with this environment variable. May be repeated.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Make both kernels known to Jupyter, running this Python.

    Without a place they go into this environment if it is a virtual one, else
    into your own Jupyter folder.
    """
    from nbrewind_kernels import kernelspecs

    variables = dict(_variable(item) for item in env or [])
    where = _place(sys_prefix, prefix)
    for spec in kernelspecs.install(user=user, prefix=where, name=name, env=variables):
        typer.echo(f"installed {spec.name} in {spec.folder}")


@app.command("list")
def list_(sys_prefix: SysPrefix = False, prefix: Prefix = None) -> None:
    """List the NBRewind kernels that Jupyter finds."""
    from nbrewind_kernels import kernelspecs

    found = kernelspecs.installed(_place(sys_prefix, prefix))
    if not found:
        typer.echo("no NBRewind kernels; `nbrewind kernel install` installs them")
        return
    rows = [(spec.name, spec.display_name, spec.python, spec.folder) for spec in found]
    table([("name", "shown as", "python", "folder"), *rows])


@app.command("remove")
def remove(name: Name = "nbrewind", sys_prefix: SysPrefix = False, prefix: Prefix = None) -> None:
    """Remove both kernels of a name."""
    from nbrewind_kernels import kernelspecs

    for folder in kernelspecs.remove(name, _place(sys_prefix, prefix)):
        typer.echo(f"removed {folder}")


def _place(sys_prefix: bool, prefix: str | None) -> str | None:
    if sys_prefix and prefix is not None:
        raise UsageError("choose one of --sys-prefix and --prefix")
    return sys.prefix if sys_prefix else prefix


def _variable(item: str) -> tuple[str, str]:
    name, equals, value = item.partition("=")
    if not equals or not name:
        raise UsageError(f"--env {item}: write it as NAME=VALUE")
    return name, value
