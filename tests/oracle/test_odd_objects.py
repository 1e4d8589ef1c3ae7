"""Objects that misbehave, nest deeply or go in circles: whatever looks at them gets over it.

The last cell of each notebook takes the objects away, because the oracle's own account
of a namespace is not made for them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nbrewind.testing.oracle import compare

pytestmark = pytest.mark.filterwarnings("ignore")

MEMBERS = {
    "compares": "def __eq__(s, o): raise ValueError\n    __hash__ = None",
    "equals everything": "def __eq__(s, o): return True\n    def __hash__(s): return 1",
    "truth": "def __bool__(s): raise ValueError",
    "length": "def __len__(s): raise ValueError",
    "iterates": "def __iter__(s): raise ValueError",
    "shows": "def __repr__(s): raise ValueError",
    "hashes": "def __hash__(s): raise ValueError",
    "answers": "def __getattr__(s, n): raise ValueError(n)",
    "answers in circles": "def __getattr__(s, n): return getattr(s, n + 'x')",
    "hides everything": "def __getattribute__(s, n): raise ValueError(n)",
    "lies about its class": "@property\n    def __class__(s): return int",
    "has no class": "@property\n    def __class__(s): raise ValueError",
    "has no dictionary": "@property\n    def __dict__(s): raise ValueError",
    "has no module": "__module__ = None",
    "reduces": "def __reduce__(s): raise ValueError",
    "reduces with an exit": "def __reduce__(s): raise SystemExit(5)",
    "reduces with an interrupt": "def __reduce_ex__(s, p): raise KeyboardInterrupt",
    "forgets its state": "def __getstate__(s): return {}",
    "takes no state": "def __setstate__(s, d): raise ValueError",
    "takes no attribute": "def __setattr__(s, n, v): raise AttributeError",
    "has an index for everything": "def __getitem__(s, i): return i",
    "calls": "def __call__(s, *a): raise ValueError",
}


@pytest.mark.parametrize("member", MEMBERS)
def test_an_instance_that_misbehaves_is_passed_on_as_itself(member: str, root: Path) -> None:
    cells = [
        f"class M:\n    {MEMBERS[member]}\n    z = 3",
        "m = M()",
        "L = [m]; D = {'a': m}",
        "k = 1",
        "print(k, L[0] is m, D['a'] is m, type(m).__name__)",
        "del m, L, D",
    ]
    run = compare(cells, [*cells[:3], "k = 2", *cells[4:]], root)
    assert set(run.executed) >= {3, 4}
    assert not run.warnings


METACLASSES = {
    "compares": "def __eq__(s, o): raise ValueError\n    def __hash__(s): return 1",
    "hashes": "def __hash__(s): raise ValueError\n    def __eq__(s, o): return s is o",
    "tests instances": "def __instancecheck__(s, o): raise ValueError",
    "tests subclasses": "def __subclasscheck__(s, o): raise ValueError",
    "has no truth": "def __bool__(s): raise ValueError",
}


@pytest.mark.parametrize("member", METACLASSES)
def test_a_class_that_misbehaves_harms_nobody(member: str, root: Path) -> None:
    cells = [
        f"class Meta(type):\n    {METACLASSES[member]}\nclass A(metaclass=Meta): pass",
        "a = A(); b = [a]",
        "k = 1",
        "print(k, b[0] is a, type(a) is A)",
        "del a, b, A, Meta",
    ]
    run = compare(cells, [*cells[:2], "k = 2", *cells[3:]], root)
    assert not run.warnings


def test_an_attribute_of_a_class_that_misbehaves_harms_nobody(root: Path) -> None:
    cells = [
        "class Evil:\n    def __getattr__(s, n): raise ValueError(n)",
        "class A:\n    e = Evil()\n    def f(s): return 1",
        "a = A()",
        "k = 1",
        "print(a.f() + k, A.e is a.e)",
        "del a, A, Evil",
    ]
    assert not compare(cells, [*cells[:3], "k = 2", *cells[4:]], root).warnings


CHAINS = {
    "lists": ("h = []\nfor i in range(20_000): h = [h]", "p[0]"),
    "tuples": ("h = ()\nfor i in range(20_000): h = (h,)", "p[0]"),
    "dictionaries": ("h = {}\nfor i in range(20_000): h = {'n': h}", "p['n']"),
    "instances": (
        "class N:\n    def __init__(s, n): s.n = n\nh = None\nfor i in range(20_000): h = N(h)",
        "p.n",
    ),
}


@pytest.mark.parametrize("kind", CHAINS)
def test_a_chain_too_long_to_pickle_is_made_again(kind: str, root: Path) -> None:
    make, step = CHAINS[kind]
    count = f"c = 0; p = h\nwhile p:\n    c += 1; p = {step}\nprint(c, k)"
    cells = [make, "g = h", "k = 1", count, "del h, g, p"]
    run = compare(cells, [*cells[:2], "k = 2", *cells[3:]], root)
    assert set(run.executed) >= {2, 3}


RAISED_LIMIT = """
import sys, tempfile
from pathlib import Path
from nbrewind.testing.memory_store import MemoryStore
from nbrewind.testing.oracle import Session
session = Session(Path(tempfile.mkdtemp()), "audit", MemoryStore())
assert session.execute("import sys; sys.setrecursionlimit(10**6)")
assert session.execute("h = None\\nfor i in range(10**5): h = [h]")
assert session.execute("assert sys.getrecursionlimit() == 10**6")
"""


def test_a_raised_recursion_limit_does_not_let_capture_overflow_the_stack() -> None:
    ran = subprocess.run([sys.executable, "-c", RAISED_LIMIT], capture_output=True, text=True)
    assert ran.returncode == 0, ran


CIRCLES = [
    (
        ["l = []; l.append(l); d = {'l': l}; l.append(d); d['s'] = d", "l[0] is l, d['s'] is d"],
        "l.append(3)",
    ),
    (["class C: pass\nc = C(); c.me = c; c.l = [c]", "c.me is c, c.l[0] is c"], "c.l.append(c)"),
    (["l = []; t = (l,); l.append(t)", "t[0][0] is t"], "l.append(5)"),
    (["s = {1}; f = frozenset([2]); d = {f: s}; s.add(f)", "d[f] is s"], "s.add(3)"),
]


@pytest.mark.parametrize(("cells", "change"), CIRCLES)
def test_circles_come_back_as_circles(cells: list[str], change: str, root: Path) -> None:
    run = compare([*cells, "k = 1", cells[1]], [*cells, "k = 2", change, cells[1]], root)
    assert 0 not in run.executed


TRICKS = {
    "a huge number": ["x = 7 ** 100_000; y = -2 ** 70", "print(k, x % 1000, y)", "del x"],
    "letters that are one": ["\u00b5 = 1; \ufb01 = 2", "print(k, \u03bc, fi)"],
    "odd names": [
        "\u03c0 = [3]; _p = [1]; __q = 2",
        "\u03c0.append(1)",
        "print(\u03c0, _p, __q, k)",
    ],
    "a name by its text": ["globals()['x'] = [1]", "x.append(k); print(x)", "del globals()['x']"],
    "locals": ["locals().update(z=[5]); vars()['w'] = 6", "exec('q = z + [w]'); print(q, k)"],
    "names made in a loop": ["for i in range(3): globals()[f'v{i}'] = i", "print(v0, v1, v2, k)"],
    "popped": ["a = 1; b = 2", "globals().pop('a')", "print('a' in globals(), b, k)"],
    "code in a text": ["c = 'y = 1\\ndef g(): return y'", "exec(c)", "print(g(), y, k)"],
    "a builtin of one's own": ["len = lambda x: 5", "print(len([]), k)", "del len", "len([])"],
    "the module itself": ["import __main__", "x = [1]", "__main__.x.append(k); print(x)"],
    "nothing at all": ["pass", "'text'", "...", "print(k)"],
    "a star": ["from math import *", "print(sqrt(4), k)"],
    "a subclass that hides its items": [
        "class L(list):\n    def __iter__(s): raise ValueError\n"
        "    def __len__(s): raise ValueError\nl = L([1, 2])",
        "list.append(l, k); print(list.__len__(l))",
        "del l, L",
    ],
    "a dictionary that answers otherwise": [
        "class D(dict):\n    def __getitem__(s, k): return '?'\n"
        "    def items(s): raise ValueError\nd = D(a=1)",
        "print(d['a'], dict.get(d, 'a'), k)",
        "del d, D",
    ],
    "a stand-in for a list": [
        "class P:\n    def __init__(s, o): object.__setattr__(s, '_o', o)\n"
        "    def __getattr__(s, n): return getattr(s._o, n)\n"
        "    @property\n    def __class__(s): return type(s._o)\np = P([1])",
        "p.append(k); print(p._o, isinstance(p, list))",
        "del p, P",
    ],
    "a mock": [
        "from unittest.mock import Mock\nm = Mock(return_value=3); m(1);",
        "m(2), m.call_count, k",
    ],
    "frames": ["import inspect\ndef f(): return inspect.stack()[1].function", "f(), k"],
}


@pytest.mark.parametrize("trick", TRICKS)
def test_tricks_with_names_and_values(trick: str, root: Path) -> None:
    first, *rest = TRICKS[trick]
    compare([first, "k = 1", *rest], [first, "k = 2", *rest], root)
    compare([first, "k = 1", *rest], [first, "k = 2", *rest], root, planned=False)
