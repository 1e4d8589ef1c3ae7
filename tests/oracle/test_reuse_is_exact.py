"""Law L2: an edit executes the edited cell and its true dependents, nothing else.

Each case is a notebook as audited, the notebook as replayed (cells by `|`), and the
positions of the cells that run. Every case is also held against a run without
NBRewind (law L1).
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from nbrewind.testing.oracle import compare

CASES: dict[str, tuple[list[str], list[str], list[int]]] = {}


def case(name: str, before: str, after: str, executed: list[int]) -> None:
    """Add a case; cells are separated by lines of `---`."""
    CASES[name] = cells(before), cells(after), executed


def cells(text: str) -> list[str]:
    parts = textwrap.dedent(text).strip("\n").split("\n---\n")
    return [part.strip("\n") for part in parts]


def line(text: str) -> str:
    """Cells of one line, separated by `|`."""
    return "\n---\n".join(part.strip() for part in text.split(" | "))


def short(name: str, before: str, after: str, executed: list[int]) -> None:
    case(name, line(before), line(after), executed)


# -- what changes nothing ---------------------------------------------------------------

short("nothing edited", "x = 1 | y = x + 1 | y", "x = 1 | y = x + 1 | y", [])
short("a comment added", "x = 1 | y = x + 1", "x = 1  # one | y = x + 1", [])
short("formatting", "x = [1,2] | y = x+x", "x = [1, 2] | y = x + x", [])
case("blank lines and a comment", "x = 1\ny = 2\n---\nx", "# set\nx = 1\n\n\ny = 2\n---\nx", [])
short("quotes of another kind", "s = 'a' | s", 's = "a" | s', [])
short("parentheses that say nothing", "x = 1 + 2 | x", "x = (1 + 2) | x", [])
case(
    "a comment in a function",
    "def f(x):\n    return x\n---\nf(1)",
    "def f(x):\n    # why\n\n    return x\n---\nf(1)",
    [],
)
short("a number written differently", "x = 1000 | x", "x = 1_000 | x", [])

# -- the edited cell and its dependents ----------------------------------------------------

short(
    "the first of four",
    "x = 1 | y = 10 | z = y * 2 | w = x + 1",
    "x = 2 | y = 10 | z = y * 2 | w = x + 1",
    [0, 3],
)
short("rebinding inserted", "x = 1 | y = x + 1", "x = 1 | x = 100 | y = x + 1", [1, 2])
short(
    "an in-place change edited, its reader sees another list",
    "ll = [[1], [2], [3]] | _r = ll.pop(1) | ll[0]",
    "ll = [[1], [2], [3]] | _r = ll.pop(2) | ll[0]",
    [1, 2],
)
short(
    "an in-place change edited, its result is the same",
    "ll = [[1], [2], [2]] | _r = ll.pop(1) | len(ll)",
    "ll = [[1], [2], [2]] | _r = ll.pop(2) | len(ll)",
    [1],
)
short("only the end", "x = 1 | y = x | z = y", "x = 1 | y = x | z = [y]", [2])
short("a cell appended", "x = 1 | y = x", "x = 1 | y = x | y + 1", [2])
short("an unrelated cell inserted first", "x = 1 | x", "k = 3 | x = 1 | x", [0])
short("an unused variable inserted", "x = 1 | y = x", "x = 1 | unused = 5 | y = x", [1])
short(
    "chain of three",
    "a = 1 | b = a | c = [b] | d = 9",
    "a = 2 | b = a | c = [b] | d = 9",
    [0, 1, 2],
)
short("two roots", "a = 1 | b = 2 | a | b", "a = 1 | b = 3 | a | b", [1, 3])
short(
    "one key of a dictionary",
    "d = {'k': 1} | d['k'] = 2 | print(d['k']) | e = 5",
    "d = {'k': 1} | d['k'] = 3 | print(d['k']) | e = 5",
    [1, 2],
)
short(
    "a name that was a builtin",
    "x = max(1, 2) | y = 3",
    "max = min | x = max(1, 2) | y = 3",
    [0, 1],
)
short("a name that did not exist", "'q' in dir() | 5", "'q' in dir() | 6", [1])

# -- early cutoff ----------------------------------------------------------------------------

short("an equal number", "x = 4 | y = x | y", "x = 2 + 2 | y = x | y", [0])
short(
    "an equal string not interned",
    "s = 'aa' | t = s + '!' | t",
    "s = 'a' * 2 | t = s + '!' | t",
    [0],
)
short(
    "equal strings in a list, shared or not",
    "l = ['ab', 'ab'] | len(l)",
    "l = [''.join('ab'), ''.join('ab')] | len(l)",
    [0],
)
short("an equal list", "l = [1, 2] | m = l[0]", "l = list(range(1, 3)) | m = l[0]", [0])
short("an equal array", "import numpy as np | a = np.zeros(3) | a.sum()",
      "import numpy as np | a = np.ones(3) - 1 | a.sum()", [1])  # fmt: skip
short(
    "an equal in-place change",
    "l = [1] | l.append(2) | sum(l)",
    "l = [1] | l.extend([2]) | sum(l)",
    [1],
)
short("another type is not equal", "x = 1 | y = [x]", "x = True | y = [x]", [0, 1])
short("another zero is not equal", "x = 0.0 | y = [x]", "x = -0.0 | y = [x]", [0, 1])
short(
    "the second of two cutoffs",
    "x = 3 | y = x > 2 | z = y",
    "x = 4 | y = x > 2 | z = y",
    [0, 1],
)

# -- moves, copies, undo -------------------------------------------------------------------

short("independent cells swapped", "x = 1 | y = 2 | x + y", "y = 2 | x = 1 | x + y", [])
short("the last moved to the front", "x = 1 | y = 2 | z = 3", "z = 3 | x = 1 | y = 2", [])
short("a cell copied", "x = 1 | y = [x]", "x = 1 | y = [x] | x = 1", [])
short(
    "a copy that reads what changed",
    "x = 1 | y = x + 1 | x = 5",
    "x = 1 | y = x + 1 | x = 5 | y = x + 1",
    [3],
)
short("a cell deleted", "x = 1 | y = 2 | y", "y = 2 | y", [])
short("a rebinding deleted", "x = 1 | x = 2 | y = x", "x = 1 | y = x", [1])
short(
    "dependent cells swapped",
    "x = 1 | x = x + 1 | x = x * 2 | x",
    "x = 1 | x = x * 2 | x = x + 1 | x",
    [1, 2, 3],
)
short(
    "swapped with an equal end",
    "x = 2 | x = x + 2 | x = x * 1 | x",
    "x = 2 | x = x * 1 | x = x + 2 | x",
    [1],
)
short(
    "two equal cells with different outputs",
    "i = 0 | i += 1; i | i += 1; i | k = 1",
    "i = 0 | i += 1; i | i += 1; i | k = 2",
    [3],
)

# -- functions and classes --------------------------------------------------------------------

short(
    "a definition does not depend on what it loads",
    "k = 1 | def f(): return k | z = 3",
    "k = 2 | def f(): return k | z = 3",
    [0],
)
short(
    "a caller depends on it",
    "k = 1 | def f(): return k | f()",
    "k = 2 | def f(): return k | f()",
    [0, 2],
)
short(
    "callers of a function's function",
    "def a(): return 1 | def b(): return a() | b() | c = 3",
    "def a(): return 2 | def b(): return a() | b() | c = 3",
    [0, 2],
)
short(
    "a default", "def f(x=1): return x | f() | y = 2", "def f(x=2): return x | f() | y = 2", [0, 1]
)
short("a lambda", "f = lambda x: x | f(1) | y = 2", "f = lambda x: [x] | f(1) | y = 2", [0, 1])
case(
    "a method",
    "class C:\n    def m(self): return 1\n---\nc = C()\n---\nc.m()\n---\ny = 2",
    "class C:\n    def m(self): return 2\n---\nc = C()\n---\nc.m()\n---\ny = 2",
    [0, 1, 2],
)
case(
    "a global that a method loads",
    "k = 1\n---\nclass C:\n    def m(self): return k\n---\nc = C()\n---\nc.m()",
    "k = 2\n---\nclass C:\n    def m(self): return k\n---\nc = C()\n---\nc.m()",
    [0, 2, 3],
)
case(
    "a base class",
    "class A:\n    n = 1\n---\nclass B(A): pass\n---\nB().n\n---\ny = 2",
    "class A:\n    n = 2\n---\nclass B(A): pass\n---\nB().n\n---\ny = 2",
    [0, 1, 2],
)
short(
    "a function nobody calls", "def f(): return 1 | x = 2 | x", "def f(): return 3 | x = 2 | x", [0]
)
case(
    "an alias of the edited function",
    "def f(x): x.append(1)\n---\ng = f\nl = []\n---\ng(l)\n---\nl",
    "def f(x): x.append(2)\n---\ng = f\nl = []\n---\ng(l)\n---\nl",
    [0, 1, 2, 3],
)
case(
    "a decorator",
    "def d(g): return lambda: [g()]\n---\n@d\ndef f(): return 1\n---\nf()\n---\ny = 2",
    "def d(g): return lambda: (g(),)\n---\n@d\ndef f(): return 1\n---\nf()\n---\ny = 2",
    [0, 1, 2],
)

# -- sharing -----------------------------------------------------------------------------------

short(
    "names that share already share more, while all values stay equal",
    "a = [[1], [1]] | b = [a[0], [1]] | b[1] = a[1] | a[1].append(2) | b",
    "a = [[1], [1]] | b = [a[0], [1]] | a[1].append(2) | b",
    [2, 3],
)
short(
    "names that share more after a restore, while all values stay equal",
    "a = [[1], [1]] | b = [a[0], [1]] | a[1].append(2) | b",
    "a = [[1], [1]] | b = [a[0], [1]] | b[1] = a[1] | a[1].append(2) | b",
    [2, 3, 4],
)
short(
    "names that share read once more",
    "a = [[1], [1]] | b = [a[0], [1]] | a[1].append(2) | b",
    "a = [[1], [1]] | b = [a[0], [1]] | (a, b) | a[1].append(2) | b",
    [2],
)
short(
    "an alias between equal values, which changes no value",
    "a=[[1]]; b=[[1]] | a[0] = b[0] | a[0].append(2) | print(b)",
    "a=[[1]]; b=[[1]] | a[0] = b[0] | a[0].append(3) | print(b)",
    [2, 3],
)
short(
    "an alias inserted before a change",
    "a = [1] | b = [1] | a.append(2) | len(b)",
    "a = [1] | b = a | a.append(2) | len(b)",
    [1, 2, 3],
)
short(
    "an alias inserted, nobody changes it",
    "a = [1] | b = [1] | len(b)",
    "a = [1] | b = a | len(b)",
    [1],
)
short(
    "a copy in place of an alias",
    "a = [1] | b = a | b.append(2) | print(a)",
    "a = [1] | b = a[:] | b.append(2) | print(a)",
    [1, 2, 3],
)
short(
    "a change of a view's base",
    "import numpy as np | a = np.zeros(4) | b = a[1:] | a[2] = 5 | print(b.sum()) | y = 1",
    "import numpy as np | a = np.zeros(4) | b = a[1:] | a[2] = 6 | print(b.sum()) | y = 1",
    [3, 4],
)
short("a deletion", "x = 1 | y = 2 | del x | y", "x = 5 | y = 2 | del x | y", [0])

# -- random numbers ----------------------------------------------------------------------------

short(
    "a draw before a seed",
    "import random | random.seed(1) | a = random.random()",
    "import random | z = random.random() | random.seed(1) | a = random.random()",
    [1],
)
short(
    "a draw between a seed and a draw",
    "import random | random.seed(1) | a = random.random() | b = 1",
    "import random | random.seed(1) | z = random.random() | a = random.random() | b = 1",
    [2, 3],
)
short(
    "another seed",
    "import random | random.seed(1) | a = random.random() | b = 1",
    "import random | random.seed(2) | a = random.random() | b = 1",
    [1, 2],
)
short(
    "an edit after reused draws",
    "import random | a = random.random() | b = random.random()",
    "import random | a = random.random() | b = [random.random()]",
    [2],
)
short("numpy's seed", "import numpy as np | np.random.seed(1) | a = np.random.rand() | b = 1",
      "import numpy as np | np.random.seed(2) | a = np.random.rand() | b = 1", [1, 2])  # fmt: skip

# -- imports -----------------------------------------------------------------------------------

short(
    "an import moved", "x = 1 | import math | y = math.pi", "import math | x = 1 | y = math.pi", []
)
short("an import added", "x = 1 | y = x", "import math | x = 1 | y = x", [0])
short("an import's alias", "import math as m | m.pi | 5", "import cmath as m | m.pi | 5", [0, 1])


@pytest.mark.parametrize("planned", [True, False], ids=["planned", "unplanned"])
@pytest.mark.parametrize("name", CASES)
def test_an_edit_executes(name: str, planned: bool, root: Path) -> None:
    before, after, executed = CASES[name]
    assert compare(before, after, root, planned=planned).executed == executed


def test_an_undone_edit_executes_nothing(root: Path) -> None:
    from nbrewind.testing.memory_store import MemoryStore
    from nbrewind.testing.oracle import checked

    folder = root / "undone"
    folder.mkdir()
    store = MemoryStore()
    first, second = ["x = 1", "y = [x]", "y"], ["x = 2", "y = [x]", "y"]
    checked(first, "audit", store, folder)
    assert checked(second, "replay", store, folder).executed == [0, 1, 2]
    assert checked(first, "replay", store, folder).executed == []
    assert checked(second, "replay", store, folder).executed == []


FILE_CASES = {
    "a file that is read": (["open('d.csv').read()", "x = 1"], {"d.csv": "2"}, [0]),
    "a file nobody reads": (["open('d.csv').read()", "x = 1"], {"e.csv": "2"}, []),
    "the same content again": (["open('d.csv').read()", "x = 1"], {"d.csv": "1"}, []),
    "a file that was not there": (
        [
            "def read():\n    with open('e.csv') as f: return f.read()",
            "try:\n    text = read()\nexcept OSError:\n    text = None",
            "x = 1",
        ],
        {"e.csv": "2"},
        [1],
    ),
    "a local module": (["import mod", "mod.f()", "x = 1"], {"mod.py": "def f(): return 2"}, [0, 1]),
    "a local module imported in a function": (
        ["def g():\n    import mod\n    return mod.f()\ng()", "x = 1"],
        {"mod.py": "def f(): return 2"},
        [0],
    ),
    "a function of a local module": (
        ["from mod import f", "y = f()", "x = 1"],
        {"mod.py": "def f(): return 2"},
        [0, 1],
    ),
    "a module that a local module imports": (
        ["import outer", "outer.g()", "x = 1"],
        {"mod.py": "def f(): return 2"},
        [0, 1],
    ),
    "a module that nobody imports": (["import mod", "mod.f()"], {"other.py": "y = 2"}, []),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("planned", [True, False], ids=["planned", "unplanned"])
@pytest.mark.parametrize("name", FILE_CASES)
def test_a_changed_file_executes_its_readers(name: str, planned: bool, root: Path) -> None:
    notebook, edited, executed = FILE_CASES[name]
    files = {
        "d.csv": "1",
        "mod.py": "def f(): return 1",
        "other.py": "y = 1",
        "outer.py": "import mod\ndef g(): return mod.f()",
    }
    run = compare(notebook, notebook, root, planned=planned, files=files, edited_files=edited)
    assert run.executed == executed
