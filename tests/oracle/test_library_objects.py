"""Objects that libraries share with the notebook: what a name reaches is the library's own.

Each run is a process of its own, since the objects are the process's.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nbrewind.testing.apart import compare_apart

pytestmark = pytest.mark.filterwarnings("ignore")

for library in ("numpy", "pandas", "matplotlib.pyplot"):
    pytest.importorskip(library)

SHARED: dict[str, tuple[str, str, str]] = {
    # what binds the name, what changes the object (twice, the second time edited), what shows it
    "method of the generator behind random": (
        "from random import random as draw, seed",
        "seed({})",
        "draw()",
    ),
    "method of numpy's own generator": (
        "from numpy.random import rand, seed",
        "seed({})",
        "rand()",
    ),
    "environment": ("from os import environ as e; import os", "e['QQ'] = '{}'", "os.environ['QQ']"),
    "search path": ("from sys import path; import sys", "path.append('{}')", "sys.path[-1]"),
    "decimal context": (
        "import decimal; c = decimal.getcontext()",
        "c.prec = {}",
        "decimal.Decimal(1) / 7",
    ),
    "pandas options": (
        "import pandas as pd; o = pd.options.display",
        "o.precision = {}",
        "pd.DataFrame([1.23456789])",
    ),
    "matplotlib parameters": (
        "from matplotlib import rcParams; import matplotlib.pyplot as plt",
        "rcParams['lines.linewidth'] = {}",
        "plt.rcParams['lines.linewidth']",
    ),
}


@pytest.mark.parametrize(
    "case",
    [name if "numpy" in name else pytest.param(name, marks=pytest.mark.long) for name in SHARED],
)
def test_a_name_for_a_shared_object_is_that_object(case: str, root: Path) -> None:
    bind, change, show = SHARED[case]
    cells = [bind, change.format(3), f"print({show})", "print('unconcerned'.upper())"]
    if case in ("environment", "search path"):  # which differ between runs
        cells[2] += f"; del {'e' if case == 'environment' else 'path'}"
    run = compare_apart(cells, [cells[0], change.format(5), *cells[2:]], root)
    assert run.executed == [1, 2]


OPEN = ["import matplotlib.pyplot as plt; plt.figure(); None", "plt.plot([1, 2]); None"]
AGG = {"MPLBACKEND": "agg"}


def test_figures_that_pyplot_keeps_open_are_there_when_a_cell_runs(root: Path) -> None:
    show = "print(len(plt.gcf().axes), k)"
    run = compare_apart([*OPEN, "k = 1", show], [*OPEN, "k = 2", show], root, environment=AGG)
    assert run.executed == [0, 1, 2, 3]


@pytest.mark.long
def test_drawing_into_an_open_figure_reaches_who_looks_at_it(root: Path) -> None:
    show = "print(len(plt.gcf().axes))"
    edited = "plt.plot([1, 2]); plt.subplot(212); None"
    run = compare_apart([*OPEN, show], [OPEN[0], edited, show], root, environment=AGG)
    assert run.executed == [0, 1, 2]


@pytest.mark.long
def test_an_open_figure_with_a_name_is_changed_through_pyplot(root: Path) -> None:
    make = "import matplotlib.pyplot as plt; fig = plt.figure()"
    show = "print(len(fig.axes), fig is plt.gcf()); del fig"
    edited = "plt.plot([1, 2]); plt.subplot(212); None"
    run = compare_apart([make, OPEN[1], show], [make, edited, show], root, environment=AGG)
    assert run.executed == [0, 1, 2]
