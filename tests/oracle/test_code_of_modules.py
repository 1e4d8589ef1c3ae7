"""Local modules in every shape: an edit runs their users, and theirs, and no others."""

from __future__ import annotations

import pytest

from .code_shape import Shape, shape_tests

pytestmark = pytest.mark.filterwarnings("ignore")

SHAPES = [
    Shape(
        "one of two modules",
        """
import one, two
--
a = one.f(1)
--
b = two.f(1)
--
k = 1
--
one.f(2), b
""",
        {},
        runs=[0, 1, 4],
        files={"one.py": "def f(x): return x + 1", "two.py": "def f(x): return x * 9"},
        changed={"one.py": "def f(x): return x + 2"},
    ),
    Shape(
        "a module that another one imports",
        """
import top
--
import other
--
top.f(1)
--
other.g(1)
--
top.f(2) + other.g(1)
""",
        {},
        runs=[0, 2, 4],
        files={
            "top.py": "import deep\ndef f(x): return deep.h(x)",
            "deep.py": "from deeper import N\ndef h(x): return x * N",
            "deeper.py": "N = 2",
            "other.py": "def g(x): return x",
        },
        changed={"deeper.py": "N = 3"},
    ),
    Shape(
        "imported inside a function of the notebook",
        """
def f(x):
    import late
    return late.g(x)
def h(x): return x
--
f(1)
--
h(1)
--
f(2)
""",
        {},
        runs=[1, 3],
        files={"late.py": "def g(x): return x + 1"},
        changed={"late.py": "def g(x): return x + 2"},
    ),
    Shape(
        "imported lazily by another module",
        """
import top
--
top.slow(1)
--
top.fast(1)
--
top.slow(2)
""",
        {},
        runs=[0, 1, 2, 3],
        files={
            "top.py": "def slow(x):\n    from late import g\n    return g(x)\n"
            "def fast(x): return x",
            "late.py": "def g(x): return x + 1",
        },
        changed={"late.py": "def g(x): return x + 2"},
    ),
    Shape(
        "a package with re-exports and relative imports",
        """
import pkg
--
from pkg import helper
--
helper(1)
--
from pkg.sub import alone
--
alone.n
--
pkg.helper(2), alone.n
""",
        {},
        runs=[0, 1, 2, 3, 5],
        files={
            "pkg/__init__.py": "from .core import helper",
            "pkg/core.py": "from . import base\ndef helper(x): return x * base.K",
            "pkg/base.py": "K = 2",
            "pkg/sub/__init__.py": "",
            "pkg/sub/alone.py": "n = 1",
        },
        changed={"pkg/base.py": "K = 3"},
    ),
    Shape(
        "a data file read while importing",
        """
import conf
--
conf.level()
--
k = 1
--
conf.level() + k
""",
        {},
        runs=[0, 1, 3],
        files={
            "conf.py": "import pathlib\n"
            "N = int((pathlib.Path(__file__).parent / 'n.txt').read_text())\n"
            "def level(): return N",
            "n.txt": "1",
        },
        changed={"n.txt": "2"},
    ),
    Shape(
        "star imports",
        """
from names import *
--
y = double(4)
--
LIMIT
--
double(LIMIT), y
""",
        {},
        runs=[0, 1, 3],
        files={"names.py": "LIMIT = 5\n_hidden = 1\ndef double(x): return 2 * x"},
        changed={"names.py": "LIMIT = 5\n_hidden = 1\ndef double(x): return 3 * x"},
    ),
    Shape(
        "__all__",
        """
from names import *
--
sorted(n for n in ('a', 'b', 'c') if n in globals())
--
k = 1
--
[n in globals() for n in 'abc'], k
""",
        {},
        runs=[0, 1, 3],
        files={"names.py": "__all__ = ['a']\na, b = 1, 2"},
        changed={"names.py": "__all__ = ['a', 'b']\na, b = 1, 2"},
    ),
    Shape(
        "aliases and attributes",
        """
import pkg.part as p; from pkg.part import f as g, C
--
c = C(2)
--
g(1), p.f(2)
--
c.double(), isinstance(c, p.C)
--
c.double() + g(1)
""",
        {},
        runs=[0, 1, 2, 3, 4],
        files={
            "pkg/__init__.py": "",
            "pkg/part.py": "def f(x): return x\n"
            "class C:\n    def __init__(self, n): self.n = n\n"
            "    def double(self): return self.n * 2",
        },
        changed={
            "pkg/part.py": "def f(x): return x\n"
            "class C:\n    def __init__(self, n): self.n = n\n"
            "    def double(self): return self.n * 3",
        },
    ),
    Shape(
        "only for type checking",
        """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import heavy
--
def f(x: 'heavy.T') -> int: return 1
--
f(1)
--
f(2)
""",
        {},
        runs=[0],
        files={"heavy.py": "class T: pass"},
        changed={"heavy.py": "class T: n = 1"},
    ),
    Shape(
        "objects of a module in the notebook's containers",
        """
from shapes import Box, area
--
boxes = [Box(1), Box(2)]; fs = {'area': area}
--
boxes.append(Box(3))
--
[fs['area'](b) for b in boxes]
--
k = 1
--
sum(map(fs['area'], boxes)), type(boxes[0]) is Box
""",
        {},
        runs=[0, 1, 2, 3, 5],
        files={
            "shapes.py": "class Box:\n    def __init__(self, s): self.s = s\n"
            "def area(b): return b.s ** 2"
        },
        changed={
            "shapes.py": "class Box:\n    def __init__(self, s): self.s = s\n"
            "def area(b): return b.s ** 3"
        },
    ),
    Shape(
        "a subclass of a local class",
        """
from base import Base
class Sub(Base):
    def f(self): return super().f() + 1
--
s = Sub()
--
s.f()
--
k = 1
--
s.f() + k
""",
        {},
        runs=[0, 1, 2, 4],
        files={"base.py": "class Base:\n    def f(self): return 1"},
        changed={"base.py": "class Base:\n    def f(self): return 2"},
    ),
    Shape(
        "reloaded",
        """
import importlib, mod
--
a = mod.n
--
open('mod.py', 'w').write('n = 100'); mod = importlib.reload(mod)
--
mod.n, a
--
mod.n + 1
""",
        {2: ("100", "2000")},
        runs=[0, 1, 2, 3, 4],
        files={"mod.py": "n = 1"},
        always=[0, 1, 2, 3],
    ),
    Shape(
        "written by a cell and imported",
        """
with open('made.py', 'w') as f: f.write('def g(): return 1')
--
import made
--
made.g()
--
k = 1
--
made.g() + k
""",
        {0: ("return 1", "return 2")},
        runs=[0, 1, 2, 4],
    ),
    Shape(
        "decorators and registries of a module",
        """
from reg import register, known
--
@register
def f(): return 1
--
@register
def g(): return 2
--
sorted(known)
--
[known[n]() for n in sorted(known)], known['f'] is f
""",
        {2: ("return 2", "return 3")},
        runs=[2, 3, 4],
        files={"reg.py": "known = {}\ndef register(f):\n    known[f.__name__] = f\n    return f"},
    ),
    Shape(
        "a module's attribute set by the notebook",
        """
import conf
--
conf.level = 2
--
conf.show()
--
k = 1
--
conf.show(), k
""",
        {1: ("= 2", "= 3")},
        runs=[1, 2, 4],
        files={"conf.py": "level = 1\ndef show(): return level"},
    ),
    Shape(
        "dataclasses and enumerations of a module",
        """
from kinds import Color, P
--
p = P(Color.RED, 2)
--
p.c is Color.RED, p
--
k = 1
--
p.c.name, p.n + k
""",
        {},
        runs=[0, 1, 2, 4],
        files={
            "kinds.py": "import enum, dataclasses\nclass Color(enum.Enum):\n    RED = 1\n"
            "@dataclasses.dataclass\nclass P:\n    c: Color\n    n: int"
        },
        changed={
            "kinds.py": "import enum, dataclasses\nclass Color(enum.Enum):\n    RED = 7\n"
            "@dataclasses.dataclass\nclass P:\n    c: Color\n    n: int"
        },
    ),
    Shape(
        "a circular import",
        """
import a
--
a.f(1)
--
k = 1
--
a.f(2) + k
""",
        {},
        runs=[0, 1, 3],
        files={
            "a.py": "import b\ndef f(x): return b.g(x)\nN = 1",
            "b.py": "import a\ndef g(x): return x + a.N",
        },
        changed={"b.py": "import a\ndef g(x): return x - a.N"},
    ),
]
"""Modules, packages, and how notebooks get at them."""

(
    test_unchanged_code_runs_nothing,
    test_an_edit_runs_its_dependents_only,
    test_restored_code_is_as_it_was,
) = shape_tests(SHAPES)
