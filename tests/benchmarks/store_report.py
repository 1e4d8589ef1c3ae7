"""What the store is judged by, in ratios of one run: `python tests/benchmarks/store_report.py`.

It calls the other benchmarks and puts what they find beside what was aimed at:

- the pause of a cell over one copy of what it changed, and a commit that waits over that pause;
- notebooks under audit over plain ipykernel, and what others do after each cell instead: the
  whole namespace through dill, results through joblib's memory;
- commits over one write and `fsync` of the same bytes; stored bytes over changed bytes;
- the last of 200 versions over the only one; a store of 10,000 executions.

`--quick` uses small sizes, `--only` a part of it: pause, audit, others, commits, sizes, versions
or scale.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import bench_store
import pauses
from kernels_side_by_side import Notebook, Run, compare, run
from overhead import arrays, frame
from tables import keep, options, show

Rows = Iterator[dict[str, Any]]

_OTHERS_CELLS = 3
"""Cells that are compared with others: each of theirs writes the whole namespace."""

_DILL = """
import dill, types
def dump_all(result):
    hidden = get_ipython().user_ns_hidden
    names = {
        name: value for name, value in get_ipython().user_ns.items()
        if name not in hidden and not name.startswith('_')
        and not isinstance(value, (types.ModuleType, types.FunctionType))
    }
    with open('namespace.dill', 'wb') as file:
        dill.dump(names, file, protocol=5)
get_ipython().events.register('post_run_cell', dump_all)
"""


def figure(what: str, found: float | str, aim: str) -> dict[str, Any]:
    """One line."""
    return {"what": what, "found": found, "aim": aim}


def pause(*, quick: bool, rounds: int) -> Rows:
    """What a cell waits for."""
    size = 4_194_304 if quick else 64 * 1024 * 1024
    found = pauses.row("all of it", size, 1.0, max(3, rounds))
    yield figure("pause / one copy of the changed bytes", found["pause / copy"], "<= 1.5")
    yield figure("of it hashing", found["of it hash"], "")
    yield figure("waiting for the disk / pause", found["waiting / pause"], ">= 5")


def notebooks(*, quick: bool) -> list[tuple[Notebook, str]]:
    """What is audited, and the aim."""
    return [(arrays("a{i} += 1", quick=quick), "<= 1.12"), (frame(quick=quick), "<= 1.05")]


def audit(*, quick: bool, rounds: int) -> Rows:
    """Notebooks under audit, over plain ipykernel."""
    for notebook, aim in notebooks(quick=quick):
        found = compare(notebook, rounds).row()
        yield figure(f"audit / plain, {notebook.name}", found["ratio, whole notebook"], aim)
        yield figure(f"audit / plain, {notebook.name}, cells", found["ratio, cells"], "")


def others(*, quick: bool, rounds: int) -> Rows:
    """What others add to the first cells, beside what we add."""
    for notebook, _ in notebooks(quick=quick):
        few = replace(notebook, cells=notebook.cells[:_OTHERS_CELLS])
        compared = compare(few, rounds)
        plain = statistics.median(_cells(found) for found in compared.plain)
        audited = statistics.median(_cells(found) for found in compared.audited)
        name = f"{notebook.name}, first {len(few.cells)} cells"
        yield figure(f"audit / plain, {name}", round(audited / plain, 2), "")
        if find_spec("dill"):
            # Registered last: what sets the scene is not dumped again and again.
            dumped = replace(few, setup=[*few.setup, _DILL])
            times = [_cells(run(dumped, "plain")) for _ in range(rounds)]
            spent = statistics.median(times) / plain
            yield figure(f"whole namespace through dill / plain, {name}", round(spent, 2), "")
    if find_spec("joblib"):
        yield from _joblib(quick=quick, rounds=rounds)


def _joblib(*, quick: bool, rounds: int) -> Rows:
    notebook = arrays("a{i} += 1", quick=quick)
    few = replace(notebook, cells=notebook.cells[:_OTHERS_CELLS])
    start = (
        "import joblib\nmemory = joblib.Memory('joblib', verbose=0)\n"
        "open('steps.py', 'w').write('def one_more(a):\\n    return a + 1\\n')\n"
        "import steps\none_more = memory.cache(steps.one_more)"
    )
    cells = [f"a{i} = one_more(a{i})" for i in range(_OTHERS_CELLS)]
    remembered = Notebook("joblib", [*few.setup, start], cells)
    ratios = [_cells(run(remembered, "plain")) / _cells(run(few, "plain")) for _ in range(rounds)]
    name = f"joblib's memory / plain, {notebook.name}, first {_OTHERS_CELLS} cells"
    yield figure(name, round(statistics.median(ratios), 2), "")


def _cells(found: Run) -> float:
    return sum(found.cells) + found.end


def commits(*, quick: bool, rounds: int) -> Rows:
    """Commits over plain writes."""
    size = (4 if quick else 256) * 1_000_000
    data = random.randbytes(size)
    for stream in (False, True):
        with _folder() as folder:
            found = bench_store.throughput_row(folder, "random bytes", data, rounds, stream=stream)
        yield figure(
            f"commits / plain writes, {found['commits']}", found["store / plain"], ">= 0.8"
        )


def sizes(*, quick: bool, rounds: int) -> Rows:
    """Stored over changed bytes."""
    aims = {"1 %": "<= 1.2 %", "10 %": "<= 10.5 %"}
    with _folder() as folder:
        for found in bench_store.stored_rows(folder, 20 if quick else 400):
            aim = next(
                (aim for start, aim in aims.items() if found["change"].startswith(start)), ""
            )
            yield figure(f"stored again, {found['change']}", found["added / whole"], aim)


def versions(*, quick: bool, rounds: int) -> Rows:
    """The last of many versions."""
    with _folder() as folder:
        for found in bench_store.restore_rows(folder, 16 if quick else 256, rounds):
            yield figure(f"{found['restored']} / the only one", found["with opening"], "<= 1.3")


def scale(*, quick: bool, rounds: int) -> Rows:
    """A large store."""
    with _folder() as folder:
        for found in bench_store.scale_rows(folder, 300 if quick else 10_000, 10, rounds):
            store = found["store"]
            yield figure(f"ms to open {store}", found["ms, opening"], "<= 1000")
            yield figure(f"ms to look up in {store}", found["ms, lookup"], "<= 1")
        yield figure("inodes / execution", found["inodes / execution"], "<= 2")


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", ".")) as folder:
        yield Path(folder)


def main() -> None:
    """Print one table."""
    given = options("Every figure the store is judged by.")
    rounds = given.rounds or (1 if given.quick else 3)
    parts: list[Callable[..., Rows]] = [pause, audit, others, commits, sizes, versions, scale]
    load = os.getloadavg()[0]
    rows = [
        row
        for part in parts
        if given.only in part.__name__
        for row in part(quick=given.quick, rounds=rounds)
    ]
    show(f"The store, in ratios (load {load:.1f} before, {os.getloadavg()[0]:.1f} after)", rows)
    keep(rows, given.json)


if __name__ == "__main__":
    main()
