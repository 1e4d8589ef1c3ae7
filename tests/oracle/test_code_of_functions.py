"""Functions in every shape that notebooks give them: right after edits, nothing runs in vain."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbrewind.testing.oracle import compare

from .code_shape import Shape, shape_tests

pytestmark = pytest.mark.filterwarnings("ignore")

SHAPES = [
    Shape(
        "bound to the live namespace",
        """
rate = 2
--
def f(x): return x * rate
--
f(3)
--
k = 1
--
rate = 5; f(3), f.__globals__ is globals()
""",
        {0: ("2", "3")},
        runs=[0, 2, 4],
    ),
    Shape(
        "redefined",
        """
def f(): return 1
--
a = f()
--
def f(): return 2
--
b = f()
--
print(a, b, f())
""",
        {0: ("1", "7")},
        runs=[0, 1, 4],
    ),
    Shape(
        "alias of a function that is redefined",
        """
def f(): return 1
--
old = f
--
def f(): return old() + 1
--
f(), old()
""",
        {0: ("1", "7")},
        runs=[0, 1, 3],
    ),
    Shape(
        "stacked decorators with arguments",
        """
import functools
def times(n):
    def deco(g):
        @functools.wraps(g)
        def wrapped(*a): return g(*a) * n
        return wrapped
    return deco
def shout(g):
    @functools.wraps(g)
    def wrapped(*a): return str(g(*a)) + '!'
    return wrapped
--
@shout
@times(2)
def f(x):
    'about f'
    return x + 1
--
f(3)
--
f(4), f.__name__, f.__doc__, f.__wrapped__.__wrapped__(1)
""",
        {1: ("@times(2)", "@times(3)")},
        runs=[1, 2, 3],
    ),
    Shape(
        "a decorator that registers",
        """
registry = {}
def register(g):
    registry[g.__name__] = g
    return g
--
@register
def one(): return 1
--
@register
def two(): return 2
--
sum(g() for g in registry.values())
--
k = 1
--
sorted(registry), registry['one'] is one
""",
        {2: ("return 2", "return 3")},
        runs=[2, 3, 5],
    ),
    Shape(
        "a class as a decorator",
        """
class Counted:
    def __init__(self, g): self.g, self.calls = g, 0
    def __call__(self, *a):
        self.calls += 1
        return self.g(*a)
--
@Counted
def f(x): return x + 1
--
f(1)
--
f(2), f.calls
""",
        {1: ("x + 1", "x + 2")},
        runs=[1, 2, 3],
    ),
    Shape(
        "closures that share a cell",
        """
def make():
    n = 0
    def up(by=1):
        nonlocal n
        n += by
        return n
    def get(): return n
    return up, get
--
up, get = make()
--
up()
--
up(5)
--
get(), up(), get()
""",
        {3: ("5", "6")},
        runs=[3, 4],
    ),
    Shape(
        "a closure over a loop variable",
        """
fs = []
for i in range(3):
    def g(x, i=i): return x + i
    fs.append(g)
late = [lambda: i for i in range(3)]
--
[g(1) for g in fs]
--
[g(2) for g in fs], [g() for g in late]
""",
        {0: ("x + i", "x - i")},
        runs=[0, 1, 2],
    ),
    Shape(
        "recursion",
        """
def fact(n): return n * fact(n - 1) if n else 1
--
fact(5)
--
g = fact; fact(6)
""",
        {0: ("else 1", "else 2")},
        runs=[0, 1, 2],
    ),
    Shape(
        "mutual recursion over cells",
        """
def even(n): return n == 0 or odd(n - 1)
--
def odd(n): return n != 0 and even(n - 1)
--
even(10)
--
odd(7), even(7)
""",
        {1: ("n != 0 and", "n != 0 and n < 99 and")},
        runs=[1, 2, 3],
    ),
    Shape(
        "called before the one it calls is changed",
        """
def helper(): return 1
--
def f(): return helper() + 1
--
a = f()
--
def helper(): return 10
--
b = f()
--
a, b, f()
""",
        {3: ("10", "20")},
        runs=[3, 4, 5],
    ),
    Shape(
        "a mutable default",
        """
def f(x, seen=[]):
    seen.append(x)
    return list(seen)
--
f(1)
--
f(2)
--
f(3), f.__defaults__
""",
        {1: ("1", "7")},
        runs=[1, 2, 3],
    ),
    Shape(
        "a default that is a variable's value",
        """
opts = {'a': 1}
--
def f(o=opts): return o
--
opts['b'] = 2
--
f()
--
f() is opts, f()
""",
        {2: ("2", "3")},
        runs=[2, 3, 4],
    ),
    Shape(
        "keyword-only, positional-only and starred arguments",
        """
def f(a, /, b=2, *rest, c=3, **more): return a, b, rest, c, more
--
f(1), f(1, 4, 5, c=6, d=7)
--
args, kw = (1, 2, 3), {'c': 9}
--
f(*args, **kw), [*args, *kw], f.__kwdefaults__
""",
        {0: ("c=3", "c=4")},
        runs=[0, 1, 3],
    ),
    Shape(
        "function attributes",
        """
def f():
    f.calls += 1
    return f.calls
f.calls = 0
--
f()
--
f.tag = 'x'
--
f(), f.tag, vars(f)
""",
        {2: ("'x'", "'y'")},
        runs=[2, 3],
    ),
    Shape(
        "global and nonlocal",
        """
n = 0
def f():
    global n, made
    n += 1
    made = [n]
def g():
    x = 1
    def h():
        nonlocal x
        x += n
        return x
    return h
--
f()
--
h = g(); h()
--
n, made, h()
""",
        {0: ("n += 1", "n += 2")},
        runs=[0, 1, 2, 3],
    ),
    Shape(
        "lambdas in containers",
        """
k = 3
ops = {'add': lambda a, b: a + b, 'mul': lambda a, b: a * b * k}
--
ops['add'](1, 2)
--
ops['mul'](2, 3)
--
[op(1, 1) for op in ops.values()]
""",
        {0: ("a * b", "a * b * 2")},
        runs=[0, 1, 2, 3],
    ),
    Shape(
        "a function that another cell patches",
        """
def f(x=1): return x
--
f.__defaults__ = (5,)
--
f()
--
f.__doc__ = 'text'; f(), f.__doc__
""",
        {1: ("5", "6")},
        runs=[1, 2, 3],
    ),
    Shape(
        "a function whose code is replaced",
        """
def f(): return 1
def g(): return 2
--
f.__code__ = g.__code__
--
f()
--
f(), g(), f is g
""",
        {0: ("return 2", "return 3")},
        runs=[0, 1, 2, 3],
    ),
    Shape(
        "nested definitions",
        """
def outer(n):
    class Box:
        def __init__(self, v): self.v = v
        def get(self):
            def deep(): return self.v + n
            return deep()
    def make(v): return Box(v)
    return make
--
make = outer(10)
--
b = make(1)
--
b.get()
--
b.get(), make(2).get(), type(b) is type(make(3))
""",
        {1: ("10", "20")},
        runs=[1, 2, 3, 4],
    ),
    Shape(
        "deleted after use",
        """
def helper(x): return x + 1
y = helper(1)
def f(x): return helper(x)
--
del helper
--
y
--
try: f(1)
except NameError as e: print(e, y)
""",
        {0: ("x + 1", "x + 2")},
        runs=[0, 2, 3],
    ),
    Shape(
        "__name__, __doc__, __qualname__ and __module__",
        """
def f():
    'one'
class C:
    'two'
    def m(self): 'three'
--
f.__name__ = 'renamed'; f.__qualname__ = 'deep.renamed'; f.__module__ = 'elsewhere'
--
f.__name__, f.__doc__, C.__doc__, C.m.__doc__, __name__
--
f.__module__, f.__qualname__, C.m.__qualname__, C.__module__, repr(f)[:12]
""",
        {0: ("'three'", "'four'")},
        runs=[0, 2, 3],
    ),
    Shape(
        "a function that two names hold",
        """
def f(): return 1
--
g = f
--
f.x = 5
--
g.x
--
g is f, g.x, g()
""",
        {2: ("5", "6")},
        runs=[2, 3, 4],
    ),
    Shape(
        "a bound method kept apart from its object",
        """
class C:
    def __init__(self): self.items = []
    def add(self, x):
        self.items.append(x)
        return self.items
--
c = C(); add = c.add
--
add(1)
--
c.items
--
add(2), c.items is add(3), add.__self__ is c
""",
        {2: ("1", "5")},
        runs=[2, 3, 4],
    ),
    Shape(
        "a function that a function returns by name",
        """
def a(): return 'a'
def b(): return 'b'
def pick(n): return (a, b)[n]
--
pick(0)()
--
pick(1)() + k if (k := 'x') else None
--
pick(1) is b, pick(0)()
""",
        {0: ("'b'", "'B'")},
        runs=[0, 1, 2, 3],
    ),
]
"""Functions and what may stand in them."""

(
    test_unchanged_code_runs_nothing,
    test_an_edit_runs_its_dependents_only,
    test_restored_code_is_as_it_was,
) = shape_tests(SHAPES)


def test_making_a_value_again_does_not_part_a_function_from_what_shares_its_default(
    root: Path,
) -> None:
    fails = "try: raise KeyError(0)\nexcept KeyError as e: b = e\nd = type(c).__name__"
    cells = ["d = zip([1, 0], 'ab'); next(d)\ndef f(x=d): return x\nc = [d]; c.append(c)", fails]
    compare(cells, [*cells, "b, f() is c[0]"], root, planned=False)
