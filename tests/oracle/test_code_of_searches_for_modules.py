"""Searches for modules, and their finding none: what is found later runs those who looked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nbrewind.testing.apart import compare_apart

from .code_shape import Shape, shape_tests

pytestmark = pytest.mark.filterwarnings("ignore")

SHAPES = [
    Shape(
        "a namespace package",
        """
import space.inner as inner
--
inner.f()
--
import space.beside
--
space.beside.g()
--
inner.f(), space.beside.g()
""",
        {},
        runs=[0, 1, 4],
        files={"space/inner.py": "def f(): return 1", "space/beside.py": "def g(): return 1"},
        changed={"space/inner.py": "def f(): return 2"},
    ),
    Shape(
        "found through sys.path",
        """
import sys
sys.path.append('lib')
--
import extra
--
extra.f()
--
k = 1
--
extra.f() + k
""",
        {},
        runs=[1, 2, 4],
        files={"lib/extra.py": "def f(): return 1"},
        changed={"lib/extra.py": "def f(): return 2"},
    ),
    Shape(
        "import_module and __import__ with constants and variables",
        """
import importlib
one = importlib.import_module('one')
--
name = 'two'
--
two = importlib.import_module(name)
--
three = __import__('three')
--
one.n
--
two.n
--
three.n
--
one.n, two.n, three.n
""",
        {},
        runs=[2, 5, 7],
        files={"one.py": "n = 1", "two.py": "n = 2", "three.py": "n = 3"},
        changed={"two.py": "n = 22"},
    ),
    Shape(
        "a module that was missing",
        """
try:
    import maybe
    n = maybe.n
except ImportError:
    n = 0
--
n
--
k = 1
--
n + k
""",
        {},
        runs=[0, 1, 3],
        files={},
        changed={"maybe.py": "n = 5"},
    ),
    Shape(
        "find_spec of a module that was missing",
        """
import importlib.util
there = importlib.util.find_spec('maybe') is not None
--
there
--
k = 1
--
there, k
""",
        {},
        runs=[0, 1, 3],
        files={},
        changed={"maybe.py": "n = 5"},
    ),
    Shape(
        "a submodule that was missing",
        """
import pkg
try: from pkg import extra
except ImportError: extra = None
--
extra is None
--
k = 1
--
extra and extra.n
""",
        {},
        runs=[0, 1, 3],
        files={"pkg/__init__.py": ""},
        changed={"pkg/extra.py": "n = 5"},
    ),
    Shape(
        "a module shadowed by a nearer one",
        """
import sys; sys.path.insert(0, 'near')
--
import mod
--
mod.n
--
k = 1
--
mod.n + k
""",
        {},
        runs=[1, 2, 4],
        files={"mod.py": "n = 1", "near/keep.txt": ""},
        changed={"near/mod.py": "n = 2"},
    ),
    Shape(
        "pkgutil and plugins that are looked for",
        """
import importlib, pkgutil, plugs
found = [importlib.import_module('plugs.' + m.name) for m in pkgutil.iter_modules(plugs.__path__)]
--
[m.n for m in found]
--
k = 1
--
sum(m.n for m in found) + k
""",
        {},
        runs=[0, 1, 3],
        files={"plugs/__init__.py": "", "plugs/a.py": "n = 1"},
        changed={"plugs/b.py": "n = 2"},
    ),
    Shape(
        "data of a package by its loader",
        """
import pkgutil, importlib.resources, pkg
a = pkgutil.get_data('pkg', 'a.txt').decode()
--
b = importlib.resources.files('pkg').joinpath('b.txt').read_text()
--
a, b
--
b + a
""",
        {},
        runs=[0, 2, 3],
        files={"pkg/__init__.py": "", "pkg/a.txt": "1", "pkg/b.txt": "2"},
        changed={"pkg/a.txt": "3"},
    ),
    Shape(
        "a module that is not imported, only looked for",
        """
import importlib.util
spec = importlib.util.find_spec('mod'); there = spec is not None; del spec
--
there
--
there, 1
""",
        {},
        runs=[0],
        files={"mod.py": "n = 1"},
        changed={"mod.py": "n = 2"},
    ),
]


(
    test_unchanged_code_runs_nothing,
    test_an_edit_runs_its_dependents_only,
    test_restored_code_is_as_it_was,
) = shape_tests(SHAPES)


CELLS = ["try: import far\nexcept ImportError: far = None", "far.n if far else 'none'", "k = 1"]


def _searched() -> list[str]:
    """What this process finds its modules by."""
    return [path for path in [os.environ.get("PYTHONPATH")] if path]


def test_a_module_on_pythonpath_is_followed(root: Path) -> None:
    # The field's jobs set PYTHONPATH; its modules are of the project like others.
    run = compare_apart(
        CELLS,
        CELLS,
        root,
        files={"lib/far.py": "n = 1"},
        edited_files={"lib/far.py": "n = 2"},
        environment={"PYTHONPATH": os.pathsep.join(["lib", *_searched()])},
    )
    assert run.executed == [0, 1]


@pytest.mark.parametrize("option", ["-P", "-s"])
def test_a_safe_path_hides_the_modules_beside_the_notebook(option: str, root: Path) -> None:
    # Flinc's notes; the kernel's folder is not on `sys.path` under -P.
    run = compare_apart(CELLS, CELLS, root, files={"far.py": "n = 1"}, options=[option])
    assert run.executed == []
