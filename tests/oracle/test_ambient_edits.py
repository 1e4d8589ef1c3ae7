"""An edit of a setting reaches the cells that depend on it, and no others.

Each row is a notebook, the cell that is edited, and the cells that have to run. Runs are
forked, because nothing else keeps the options of libraries apart. The last cell of each
notebook depends on nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nbrewind.testing.oracle import compare

pytestmark = pytest.mark.filterwarnings("ignore")

for library in ("numpy", "pandas", "matplotlib.pyplot", "sklearn", "torch"):
    pytest.importorskip(library)

UNCONCERNED = "print('unconcerned'.upper())"

EDITS: dict[str, tuple[list[str], str]] = {
    "numpy: print options": (
        [
            "import numpy as np; a = np.array([1.23456])",
            "np.set_printoptions(precision=2)",
            "print(a)",
        ],
        "np.set_printoptions(precision=3)",
    ),
    "numpy: floating-point errors": (
        [
            "import numpy as np",
            "np.seterr(all='ignore');",
            "np.geterr()['over']",
        ],
        "np.seterr(all='raise');",
    ),
    "numpy: seed": (
        [
            "import numpy as np",
            "np.random.seed(1)",
            "np.random.rand()",
        ],
        "np.random.seed(2)",
    ),
    "random: seed": (["import random", "random.seed(1)", "random.random()"], "random.seed(2)"),
    "torch: seed": (
        [
            "import torch",
            "torch.manual_seed(1);",
            "torch.rand(1)",
        ],
        "torch.manual_seed(2);",
    ),
    "pandas: options": (
        [
            "import pandas as pd; d = pd.DataFrame({'a': [1.23456]})",
            "pd.set_option('display.precision', 2)",
            "print(d)",
        ],
        "pd.set_option('display.precision', 3)",
    ),
    "matplotlib: rcParams": (
        [
            "import matplotlib as m",
            "m.rcParams['lines.linewidth'] = 3",
            "m.rcParams['lines.linewidth']",
        ],
        "m.rcParams['lines.linewidth'] = 4",
    ),
    "matplotlib: style": (
        [
            "import matplotlib.pyplot as plt",
            "plt.style.use('ggplot')",
            "plt.rcParams['axes.facecolor']",
        ],
        "plt.style.use('classic')",
    ),
    "scikit-learn: configuration": (
        [
            "import sklearn",
            "sklearn.set_config(transform_output='pandas')",
            "sklearn.get_config()['transform_output']",
        ],
        "sklearn.set_config(transform_output='default')",
    ),
    "torch: default dtype": (
        [
            "import torch",
            "torch.set_default_dtype(torch.float64)",
            "torch.ones(1).dtype",
        ],
        "torch.set_default_dtype(torch.float32)",
    ),
    "torch: gradients": (
        [
            "import torch",
            "torch.set_grad_enabled(False);",
            "torch.ones(1, requires_grad=True).mul(2).requires_grad",
        ],
        "torch.set_grad_enabled(True);",
    ),
    "torch: determinism": (
        [
            "import torch",
            "torch.use_deterministic_algorithms(True)",
            "torch.are_deterministic_algorithms_enabled()",
        ],
        "torch.use_deterministic_algorithms(False)",
    ),
    "torch: print options": (
        [
            "import torch",
            "torch.set_printoptions(precision=2)",
            "print(torch.tensor([1.23456]))",
        ],
        "torch.set_printoptions(precision=3)",
    ),
    "torch: threads": (
        [
            "import torch",
            "torch.set_num_threads(1)",
            "torch.get_num_threads()",
        ],
        "torch.set_num_threads(2)",
    ),
    "decimal: context": (
        [
            "import decimal; x = decimal.Decimal(1)",
            "decimal.getcontext().prec = 5",
            "str(x / 3)",
        ],
        "decimal.getcontext().prec = 6",
    ),
    "locale": (
        [
            "import locale",
            "locale.setlocale(locale.LC_ALL, 'C');",
            "locale.setlocale(locale.LC_ALL)",
        ],
        "locale.setlocale(locale.LC_ALL, 'C.UTF-8');",
    ),
    "environment": (
        [
            "import os",
            "os.environ['NBR_V'] = '1'",
            "os.environ['NBR_V']",
        ],
        "os.environ['NBR_V'] = '2'",
    ),
    "working directory": (
        [
            "import os",
            "os.chdir('d')",
            "os.path.basename(os.getcwd())",
        ],
        "os.chdir('e')",
    ),
    "search path": (
        [
            "import sys",
            "sys.path.append('one')",
            "sys.path[-1]",
        ],
        "sys.path.append('two')",
    ),
    "warnings: filters": (
        [
            "import warnings",
            "warnings.simplefilter('ignore')",
            "with warnings.catch_warnings(record=True) as w: warnings.warn('x')\nprint(len(w))",
        ],
        "warnings.simplefilter('always')",
    ),
    "logging: level": (
        [
            "import logging",
            "logging.basicConfig(level=10)",
            "logging.getLogger('a').isEnabledFor(15)",
        ],
        "logging.basicConfig(level=30)",
    ),
    "csv: dialects, by the name of the function": (
        [
            "import csv",
            "csv.register_dialect('q', delimiter=';')",
            "csv.get_dialect('q').delimiter",
        ],
        "csv.register_dialect('q', delimiter='|')",
    ),
    "recursion limit, by the name of the function": (
        [
            "import sys",
            "sys.setrecursionlimit(5000)",
            "sys.getrecursionlimit()",
        ],
        "sys.setrecursionlimit(6000)",
    ),
    "a name taken out of its library": (
        [
            "from socket import setdefaulttimeout, getdefaulttimeout",
            "setdefaulttimeout(3)",
            "getdefaulttimeout()",
        ],
        "setdefaulttimeout(4)",
    ),
    "an attribute of a library": (
        [
            "import json",
            "json.JSONEncoder.default = lambda self, o: 'A'",
            "json.dumps({1: set()})",
        ],
        "json.JSONEncoder.default = lambda self, o: 'B'",
    ),
}


@pytest.mark.parametrize(
    "planned",
    [pytest.param(True, id="planned"), pytest.param(False, id="live", marks=pytest.mark.long)],
)
@pytest.mark.parametrize("name", EDITS)
def test_an_edit_reaches_those_that_depend_on_it(name: str, planned: bool, root: Path) -> None:
    cells, edited = EDITS[name]
    before = [*cells, UNCONCERNED]
    after = [cells[0], edited, *before[2:]]
    files = {"d/x": "", "e/x": ""}
    run = compare(before, after, root, planned=planned, files=files, forked=True)
    assert run.executed == [1, 2]


def test_what_a_call_sets_in_its_argument_is_no_setting(root: Path) -> None:
    cells = [
        "import xml.etree.ElementTree as et",
        "class Box: pass\nbox = Box()",
        "import types\nlib = types.SimpleNamespace(set_size=lambda b, n: setattr(b, 'n', n))",
        "lib.set_size(box, 1)",
        "box.n",
        "et.Element('a').tag",
    ]
    after = [*cells[:3], "lib.set_size(box, 2)", *cells[4:]]
    assert compare(cells, after, root).executed == [3, 4]
