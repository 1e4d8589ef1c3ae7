"""The oracle with a process of its own for every run.

For notebooks that change the process they run in for good (they patch libraries, register
with them, import things), and for other Pythons: `compare_apart` starts an interpreter for
each run, as kernels are processes. Slower than `oracle.compare` by the time that takes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from nbrewind.store.local import open_store
from nbrewind.testing.oracle import Run, Session, check

_PACKAGES = Path(__file__).resolve().parents[2]
_ROOTS = ("", "kernels", "analysis", "packaging")


def compare_apart(
    before: Sequence[str],
    after: Sequence[str],
    root: Path,
    *,
    files: Mapping[str, str] | None = None,
    edited_files: Mapping[str, str] | None = None,
    python: str = sys.executable,
    later: str = "",
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Run:
    """Audit `before` and replay `after`, each against a plain run, all in new processes.

    Args:
        before: cells to audit.
        after: cells to replay.
        root: a folder to make the notebook's folder in.
        files: what the folder contains before the audit.
        edited_files: files written anew between audit and replay.
        python: the interpreter.
        later: the interpreter of the replay, if it is another one.
        options: its options.
        environment: environment variables beside the present ones.

    Returns:
        The replay; its reports tell what ran and why.

    Raises:
        AssertionError: outputs, errors, state or files differ.
    """
    start = [python, *options, "-m", __name__]
    restart = [later or python, *start[1:]]
    variables = {**os.environ, **_paths(), "PYTHONHASHSEED": "0", **(environment or {})}
    with tempfile.TemporaryDirectory(dir=root) as place:
        ours, plain, store = (Path(place) / name for name in ("ours", "plain", "store"))
        ours.mkdir()
        _write(ours, files)
        _checked(start, variables, before, "audit", ours, plain, store)
        _write(ours, edited_files)
        return _checked(restart, variables, after, "replay", ours, plain, store)


def _paths() -> dict[str, str]:
    """Where a bare checkout has its packages, for interpreters that do not have them installed."""
    places = [str(_PACKAGES / name) for name in _ROOTS]
    return {"PYTHONPATH": os.pathsep.join([*places, *filter(None, [os.environ.get("PYTHONPATH")])])}


def _write(folder: Path, files: Mapping[str, str] | None) -> None:
    for name, text in (files or {}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _checked(
    start: list[str],
    variables: dict[str, str],
    cells: Sequence[str],
    mode: str,
    ours: Path,
    plain: Path,
    store: Path,
) -> Run:
    shutil.rmtree(plain, ignore_errors=True)
    shutil.copytree(ours, plain)
    expected = _run(start, variables, cells, None, plain, store)
    run = _run(start, variables, cells, mode, ours, store)
    check(run, expected, mode)
    return run


def _run(
    start: list[str],
    variables: dict[str, str],
    cells: Sequence[str],
    mode: str | None,
    folder: Path,
    store: Path,
) -> Run:
    result = store.with_name("result")
    task = json.dumps([list(cells), mode, str(folder), str(store), str(result)])
    done = subprocess.run(
        start, input=task, cwd=folder, env=variables, capture_output=True, text=True, timeout=300
    )
    if done.returncode:
        raise AssertionError(f"{mode or 'plain'} run: {done.stderr}")
    return msgspec.msgpack.decode(result.read_bytes(), type=Run)


def main() -> None:
    """Run the notebook that standard input describes; its result goes to a file."""
    cells, mode, folder, store, result = json.load(sys.stdin)
    kept = None if mode is None else open_store(store)
    session = Session(Path(folder), mode, kept)
    session.plan(cells)
    for source in cells:
        if not session.execute(source):
            break
    run = session.end()
    if kept is not None:
        kept.close()
    run.state = {name: repr(value) for name, value in run.state.items()}
    Path(result).write_bytes(msgspec.msgpack.encode(run))


if __name__ == "__main__":
    main()
