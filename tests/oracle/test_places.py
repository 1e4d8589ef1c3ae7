"""State that cells share without naming it: of local modules, of logging, of objects that end.

Each row is a notebook, an edit, and the cells that have to run, those of a live session
without a plan included.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nbrewind.testing.oracle import compare

pytestmark = pytest.mark.filterwarnings("ignore")


@dataclass
class Row:
    """A notebook with one edited cell."""

    cells: list[str]
    edit: dict[int, str]
    executed: list[int]
    files: dict[str, str] = field(default_factory=dict)


COUNTER = {
    "cnt.py": "n = 0\nlog = []\ndef bump(x=1):\n    global n\n    n += x\n    log.append(x)\n"
    "    return n\n"
}
REGISTRY = {"reg.py": "found = []\ndef register(f):\n    found.append(f)\n    return f\n"}
PACKAGE = {
    "pk/__init__.py": "from .a import go\nfrom . import b\n",
    "pk/a.py": "from . import b\ndef go(x):\n    b.seen[x] = 0\n    return sorted(b.seen)\n",
    "pk/b.py": "seen = {}\nclass K:\n    made = []\n    def __init__(self): K.made.append(self)\n",
}
CLASS = {
    "lk.py": "class C:\n    total = 0\n    def f(self): return 1\n"
    "    @classmethod\n    def go(cls): cls.total += 1\n"
}
GENERATOR = {"lk.py": "s = (i for i in range(100))\ndef go(): return next(s)\n"}
SET_LATER = {
    "lk.py": "s = None\ndef init():\n    global s\n    s = (i for i in range(100))\n"
    "def go(): return next(s)\n"
}
KEEPS = {
    "lk.py": "import functools\nn = 0\ndef f(x, seen=[]):\n    seen.append(x)\n"
    "    f.calls = getattr(f, 'calls', 0) + 1\n    return list(seen), f.calls\n"
    "def make():\n    c = 0\n    def count():\n        nonlocal c\n        c += 1\n"
    "        return c\n"
    "    return count\ncount = make()\n"
    "@functools.lru_cache\ndef cached(x):\n    global n\n    n += 1\n    return n * 100\n"
}
BUFFER = (
    "import logging, io\nbuf = io.StringIO()\nlog = logging.getLogger('x')\n"
    "log.setLevel('INFO')\nlog.addHandler(logging.StreamHandler(buf))"
)
COLLECTOR = (
    "import logging\nout = []\nclass H(logging.Handler):\n"
    "    def emit(self, r): out.append(r.getMessage())\nlogging.getLogger().addHandler(H())"
)
TO_FILE = (
    "import logging\nh = logging.FileHandler('o.log')\nlogging.getLogger('a').addHandler(h)\n"
    "logging.getLogger('a').setLevel(10)\ndel h"
)
DEL = "out = []\nclass O:\n    def __del__(self): out.append(self.x)\no = O(); o.x = 1"
FINALIZE = (
    "import weakref\nout = []\nclass O: pass\no = O(); f = weakref.finalize(o, out.append, 1)"
)

ROWS: dict[str, Row] = {
    "a counter is where the cells before left it": Row(
        ["import cnt", "cnt.bump()", "k = 1", "print(cnt.bump(), k)"], {2: "k = 2"}, [2, 3], COUNTER
    ),
    "a call that counts further changes what later calls see": Row(
        ["import cnt", "cnt.bump(2)", "cnt.bump(1)", "k = 1"], {1: "cnt.bump(3)"}, [1, 2], COUNTER
    ),
    "functions of the notebook that a module registered": Row(
        ["import reg", "@reg.register\ndef f(): return 1", "k = 1", "[g() for g in reg.found]"],
        {1: "@reg.register\ndef f(): return 2"},
        [1, 3],
        REGISTRY,
    ),
    "a global that the notebook sets": Row(
        ["import cnt", "cnt.n = 5", "cnt.bump()", "k = 1"], {1: "cnt.n = 6"}, [1, 2], COUNTER
    ),
    "a container that has a name in the notebook as well": Row(
        ["import cnt", "l = cnt.log", "cnt.bump(7)", "l", "k = 1"],
        {2: "cnt.bump(8)"},
        [2, 3],
        COUNTER,
    ),
    "names taken out of a module": Row(
        ["from cnt import bump, log", "bump(3)", "k = 1", "bump(k)", "log"],
        {2: "k = 4"},
        [2, 3, 4],
        COUNTER,
    ),
    "importing a loaded module again is no use of its state": Row(
        ["import cnt", "cnt.bump(3)", "import cnt as again", "again.n"],
        {1: "cnt.bump(4)"},
        [1, 3],
        COUNTER,
    ),
    "a module loaded anew starts anew": Row(
        ["import cnt, importlib", "cnt.bump(3)", "importlib.reload(cnt); 1", "cnt.n"],
        {1: "cnt.bump(4)"},
        [1, 2],
        COUNTER,
    ),
    "state of a module that another one changes": Row(
        [
            "import pk",
            "pk.go('a')",
            "k = 1",
            "print(pk.go('b'), k)",
            "x = pk.b.K(); x.v = k",
            "len(pk.b.K.made), pk.b.K.made[0] is x",
        ],
        {2: "k = 5"},
        [2, 3, 4, 5],
        PACKAGE,
    ),
    "attributes of a class": Row(
        ["import lk", "lk.C.go()", "lk.C.total", "k = 1"],
        {1: "lk.C.go(), lk.C.go()"},
        [1, 2],
        CLASS,
    ),
    "a method that the notebook put into a class": Row(
        ["import lk", "lk.C.f = lambda self: 7", "k = 1", "print(lk.C().f(), k)"],
        {1: "lk.C.f = lambda self: 8"},
        [1, 3],
        CLASS,
    ),
    "mutable defaults, attributes of functions, closures": Row(
        ["import lk", "lk.f(1), lk.count()", "k = 1", "lk.f(k), lk.count()"],
        {2: "k = 2"},
        [2, 3],
        KEEPS,
    ),
    "a function that remembers its results": Row(
        ["import lk", "lk.cached(1)", "k = 1", "lk.cached(k + 1), lk.n"],
        {2: "k = 2"},
        [2, 3],
        KEEPS,
    ),
    "other modules are not concerned": Row(
        ["import lk, cnt", "cnt.bump()", "lk.C().f()"], {1: "cnt.bump(5)"}, [1], CLASS | COUNTER
    ),
    "an iterator that is made of a module's state": Row(
        [
            "import cnt\nit = iter([cnt.bump(), 2])",
            "cnt.bump(3)",
            "k = 1",
            "print(next(it), cnt.bump(), k)",
        ],
        {2: "k = 2"},
        [2, 3],
        COUNTER,
    ),
    "levels of loggers": Row(
        [
            "import logging",
            "logging.getLogger('q').setLevel('INFO')",
            "k = 1",
            "logging.getLogger('q').isEnabledFor(20)",
        ],
        {1: "logging.getLogger('q').setLevel('ERROR')"},
        [1, 3],
    ),
    "a buffer that a handler writes to": Row(
        [BUFFER, "log.info('one')", "k = 1", "log.info('two')", "print(buf.getvalue(), k)"],
        {1: "log.info('ONE')"},
        [1, 3, 4],
    ),
    "a handler of the notebook's own": Row(
        [COLLECTOR, "logging.warning('a')", "k = 1", "print(out)"],
        {1: "logging.warning('b')"},
        [1, 3],
    ),
    "a log file is continued": Row(
        [
            TO_FILE,
            "logging.getLogger('a').info('one')",
            "k = 1",
            "logging.getLogger('a').info('two %s', k)",
            "print(open('o.log').read())",
        ],
        {2: "k = 2"},
        [0, 1, 2, 3, 4],  # the file is there already
    ),
    "a finaliser that tells the notebook": Row(
        [DEL, "k = 1", "del o", "print(out, k)"], {1: "k = 2"}, [1, 3]
    ),
    "rebinding the last name of an object ends it": Row(
        [DEL, "k = 1", "o = None", "out"], {0: DEL.replace("o.x = 1", "o.x = 2")}, [0, 2, 3]
    ),
}

NOT_STORED: dict[str, Row] = {
    "made again from a module as it was before a function of it was replaced": Row(
        [
            "import cnt",
            "it = (x for x in [cnt.bump(), 2])",
            "cnt.bump = lambda x=1: 7",
            "k = cnt.bump()",
            "print(list(it), cnt.bump(), k)",
        ],
        {3: "k = cnt.bump() + 1"},
        [],
        COUNTER,
    ),
    "made again from a module as it was before it was given attributes": Row(
        [
            "import lk",
            "it = (x for x in [hasattr(lk.C, 'more'), hasattr(lk.C.f, 'more'), 2])",
            "lk.C.more = 1; lk.C.f.more = 2",
            "k = lk.C.more",
            "print(list(it), lk.C.more, lk.C.f.more, k)",
        ],
        {3: "k = lk.C.more + 1"},
        [],
        CLASS,
    ),
    "made again from a module as it was before a function kept something": Row(
        [
            "import lk",
            "it = (x for x in [lk.f(1), hasattr(lk.f, 'more')])",
            "lk.f.more = 2",
            "lk.f(2)",
            "k = lk.f.more",
            "print(list(it), lk.f(3), lk.f.more, k)",
        ],
        {4: "k = lk.f.more + 1"},
        [],
        KEEPS,
    ),
    "a generator that a module holds": Row(
        ["import lk", "lk.go()", "k = 1", "print(lk.go(), k)"], {2: "k = 2"}, [], GENERATOR
    ),
    "a generator that a call puts into a module": Row(
        ["import lk", "lk.init()", "k = 1", "print(lk.go(), k)"], {2: "k = 2"}, [], SET_LATER
    ),
    "a callback at the end of an object": Row(
        [FINALIZE, "k = 1", "del o", "print(out, k)"], {1: "k = 2"}, []
    ),
}


def _edited(row: Row) -> list[str]:
    return [row.edit.get(index, cell) for index, cell in enumerate(row.cells)]


@pytest.mark.parametrize("planned", [True, False], ids=["planned", "live"])
@pytest.mark.parametrize("name", ROWS)
def test_places_are_state(name: str, planned: bool, root: Path) -> None:
    row = ROWS[name]
    run = compare(row.cells, _edited(row), root, planned=planned, files=row.files)
    assert run.executed == row.executed


@pytest.mark.parametrize("planned", [True, False], ids=["planned", "live"])
@pytest.mark.parametrize("name", NOT_STORED)
def test_what_cannot_be_stored_is_made_again(name: str, planned: bool, root: Path) -> None:
    row = NOT_STORED[name]
    run = compare(row.cells, _edited(row), root, planned=planned, files=row.files)
    assert set(run.executed) >= set(row.edit)


def test_what_libraries_set_up_when_imported_is_no_state_of_the_notebook(root: Path) -> None:
    cells = ["x = 1", "import pandas", "y = pandas.Series([x]).sum()", "y"]
    assert compare(cells, ["import matplotlib.pyplot, sklearn", *cells], root).executed == [0]
