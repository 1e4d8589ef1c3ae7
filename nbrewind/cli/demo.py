"""`nbrewind demo`: audit, edit, replay, on a notebook that analyses real data."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from nbrewind.errors import NBRewindError, UsageError

_NEEDED = {"sklearn": "scikit-learn", "pandas": "pandas", "matplotlib": "matplotlib"}
_NOTEBOOK = "tumours.ipynb"
_CELL = "top"
_BEFORE, _AFTER = "top = 5", "top = 8"


def demo(
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            metavar="DIR",
            help="Work in DIR and leave everything there.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Audit an example notebook, edit one cell, replay, and show what that saved."""
    from nbrewind.cli.running import show_run
    from nbrewind_kernels.driver import RunRequest

    _check_packages()
    with ExitStack() as stack:
        if keep is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nbrewind-demo-")))
        else:
            folder = keep
            if folder.exists() and any(folder.iterdir()):
                raise UsageError(f"--keep {folder}: the folder is not empty; name a new one")
            folder.mkdir(parents=True, exist_ok=True)
        notebook = folder / _NOTEBOOK
        shutil.copyfile(Path(__file__).parent.parent / "demo" / _NOTEBOOK, notebook)
        store = folder / ".nbrewind"

        typer.echo("1. Audit: run every cell and record what it read, wrote and printed.\n")
        result = show_run(RunRequest(notebook, "audit", store=str(store)))
        if result.exit_code:
            raise typer.Exit(result.exit_code)

        typer.echo(f"\n2. Edit one cell: `{_BEFORE}` becomes `{_AFTER}`.\n")
        _edit(notebook)

        typer.echo("3. Replay: run only what that changed.\n")
        result = show_run(RunRequest(notebook, "replay", store=str(store)))
        if result.exit_code:
            raise typer.Exit(result.exit_code)
        if keep is not None:
            typer.echo(f"\nThe notebook is {notebook}: edit it, then `nbrewind replay {notebook}`.")


def _check_packages() -> None:
    from importlib.util import find_spec

    missing = [dist for module, dist in _NEEDED.items() if find_spec(module) is None]
    if missing:
        raise NBRewindError(
            f"the example needs {', '.join(missing)}: run `pip install 'nbrewind[demo]'`"
        )


def _edit(notebook: Path) -> None:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    for cell in content["cells"]:
        if cell["id"] == _CELL:
            cell["source"] = ["".join(cell["source"]).replace(_BEFORE, _AFTER)]
    notebook.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
