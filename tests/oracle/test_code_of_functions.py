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
        "a generator function",
        """
step = 2
--
def gen(n):
    for i in range(n):
        got = yield i * step
        if got: yield got
--
list(gen(3))
--
g = gen(9); next(g), g.send('x')
""",
        {0: ("2", "3")},
        runs=[0, 2, 3],
    ),
    Shape(
        "a generator that stands in the middle",
        """
def gen():
    for i in range(9): yield i
--
g = gen(); next(g)
--
next(g)
--
k = 1
--
next(g), k
""",
        {1: ("next(g)", "[next(g), next(g)]")},
        runs=[1, 2, 4],
        needs=[1, 2],
    ),
    Shape(
        "an async function",
        """
import asyncio
async def double(x):
    await asyncio.sleep(0)
    return 2 * x
async def both(x): return [await double(x), await double(x + 1)]
--
asyncio.run(both(1))
--
asyncio.run(double(4)), asyncio.iscoroutinefunction(both)
""",
        {0: ("x + 1", "x + 2")},
        runs=[0, 1, 2],
    ),
    Shape(
        "an async generator and an async context manager",
        """
import asyncio, contextlib
@contextlib.asynccontextmanager
async def opened(name):
    print('open', name)
    yield name.upper()
    print('close')
async def ticks(n):
    for i in range(n):
        yield i
async def main():
    async with opened('a') as a:
        return a, [i async for i in ticks(3)]
--
asyncio.run(main())
--
main.__name__, asyncio.run(main())
""",
        {0: ("ticks(3)", "ticks(4)")},
        runs=[0, 1, 2],
    ),
    Shape(
        "a context manager function",
        """
import contextlib
log = []
@contextlib.contextmanager
def step(name):
    log.append('in ' + name)
    try: yield name
    finally: log.append('out')
--
with step('a') as a: pass
--
log
--
with step('b'): print(a)
print(log)
""",
        {1: ("'a'", "'c'")},
        runs=[1, 2, 3],
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
        "lru_cache, empty and filled",
        """
import functools
@functools.lru_cache(maxsize=8)
def slow(x):
    print('slow', x)
    return x * 2
--
slow(1)
--
slow(1), slow(2)
--
slow(1), slow(3), slow.cache_info()
""",
        {1: ("1", "5")},
        runs=[1, 2, 3],
        needs=[1, 2],
    ),
    Shape(
        "functools.partial and partial of partial",
        """
import functools
def f(a, b, c): return a, b, c
--
p = functools.partial(f, 1)
--
q = functools.partial(p, c=3)
--
q(2)
--
p(5, 6), q(7), q.func is f
""",
        {1: ("1", "9")},
        runs=[1, 2, 3, 4],
    ),
    Shape(
        "singledispatch",
        """
import functools
@functools.singledispatch
def show(x): return 'thing'
--
@show.register
def _(x: int): return 'int'
--
@show.register(list)
def _(x): return f'list of {len(x)}'
--
show(1), show([1]), show('a')
--
show(2), show([]), show(1.0), show.dispatch(int) is show.registry[int]
""",
        {1: ("'int'", "'INT'")},
        runs=[1, 2, 3, 4],
    ),
    Shape(
        "reduce, map, filter and sorted with functions",
        """
import functools
def key(x): return -x
--
data = [3, 1, 2]
--
sorted(data, key=key), functools.reduce(lambda a, b: a + b, map(key, data))
--
max(data, key=key), list(filter(lambda x: key(x) < -1, data))
""",
        {0: ("-x", "x")},
        runs=[0, 2, 3],
    ),
    Shape(
        "compose and pipe",
        """
import functools
def compose(*fs): return functools.reduce(lambda f, g: lambda x: f(g(x)), fs)
def inc(x): return x + 1
--
h = compose(inc, inc, str.__len__)
--
h('abc')
--
h('abcd'), compose(inc)(1)
""",
        {0: ("x + 1", "x + 10")},
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
        "a match statement",
        """
def kind(v):
    match v:
        case {'type': t, **rest}: return t, rest
        case [first, *_, last]: return first, last
        case str() as s if s: return s
        case int(n) | float(n): return n
        case None: return 'none'
        case _: return default
default = '?'
--
kind({'type': 1, 'x': 2}), kind([1, 2, 3]), kind('a'), kind(1.5), kind(None), kind(b'')
--
default = '!'
--
kind(b''), kind([1, 1])
""",
        {2: ("!", "-")},
        runs=[2, 3],
    ),
    Shape(
        "match on a class with __match_args__",
        """
class P:
    __match_args__ = ('x', 'y')
    def __init__(self, x, y): self.x, self.y = x, y
--
p = P(1, 2)
--
match p:
    case P(1, y): r = y
    case _: r = None
--
r, p.x
""",
        {0: ("('x', 'y')", "('y', 'x')")},
        runs=[0, 1, 2, 3],
    ),
    Shape(
        "the walrus and comprehension scopes",
        """
data = [1, 2, 3]
x = 'outer'
--
ys = [y := x for x in data if (n := x) > 1]
--
x, y, n, ys
--
{k: (z := v) for k, v in zip('ab', data)}, z, x, n
""",
        {0: ("3]", "4]")},
        runs=[0, 1, 2, 3],
    ),
    Shape(
        "try, except and finally bind and unbind names",
        """
e = 'kept?'
--
try: int('x')
except ValueError as problem: msg = str(problem)
finally: done = True
--
msg, done, 'problem' in globals()
--
try: 1 / 0
except ZeroDivisionError as e: pass
'e' in globals(), msg
""",
        {1: ("'x'", "'y'")},
        runs=[1, 2, 3],
    ),
    Shape(
        "f-strings with expressions and formats",
        """
w, v, name = 8, 3.14159, 'pi'
def up(s): return s.upper()
--
f'{v:>{w}.2f} {name!r} {up(name)} {v=:.1f}'
--
w = 10
--
f'{v:{w}} {up(f"{name}{w}")}'
""",
        {2: ("10", "12")},
        runs=[2, 3],
    ),
    Shape(
        "chained comparison, conditional and boolean expressions",
        """
a, b, c = 1, 2, 3
--
def mid(): return a < b < c
--
'yes' if mid() and not (a or b) > c else 'no'
--
mid(), a if a > b else c
""",
        {0: ("3", "2")},
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
    Shape(
        "operator functions and attrgetter",
        """
import operator, collections
P = collections.namedtuple('P', 'x y')
--
ps = [P(2, 1), P(1, 2)]
--
sorted(ps, key=operator.attrgetter('x')), list(map(operator.itemgetter(1), ps))
--
sorted(ps, key=operator.methodcaller('index', 1)), operator.add(*ps[0])
""",
        {1: ("P(2, 1)", "P(3, 1)")},
        runs=[1, 2, 3],
    ),
    Shape(
        "itertools with functions of the notebook",
        """
import itertools
def parity(x): return x % 2
--
[(k, list(v)) for k, v in itertools.groupby(sorted(range(6), key=parity), key=parity)]
--
list(itertools.starmap(pow, [(2, 3)])), list(itertools.takewhile(parity, [1, 3, 4]))
""",
        {0: ("% 2", "% 3")},
        runs=[0, 1, 2],
    ),
    Shape(
        "exceptions raised through functions",
        """
class Bad(ValueError):
    def __init__(self, code): super().__init__(f'code {code}'); self.code = code
--
def check(x):
    if x > limit: raise Bad(x)
    return x
limit = 3
--
try: check(5)
except Bad as b: caught = b
--
caught.code, str(caught), isinstance(caught, Bad), caught.args
""",
        {1: ("limit = 3", "limit = 4")},
        runs=[1, 2, 3],
        needs=[2],
    ),
    Shape(
        "a kept exception without its traceback",
        """
class Bad(ValueError): pass
--
try: raise Bad('a') from KeyError('b')
except Bad as b: caught = b.with_traceback(None)
--
k = 1
--
str(caught), type(caught) is Bad, repr(caught.__cause__), k
""",
        {1: ("'a'", "'c'")},
        runs=[1, 3],
    ),
    Shape(
        "exceptions with fields, notes and groups",
        """
class Twice(OSError):
    def __init__(self, path): super().__init__(2, 'gone', path); self.paths = [path]
class Pair(Exception):
    def __init__(self, a, b): self.a, self.b = a, b
--
many = ExceptionGroup('two', [Twice('f'), Pair(1, b=2)])
stop, odd = StopIteration(5), NameError('x', name='y')
many.add_note('seen')
--
k = 1
--
[str(e) for e in many.exceptions], many.__notes__, stop.value, odd.name, many.exceptions[0].errno
""",
        {1: ("'two'", "'both'")},
        runs=[1, 3],
    ),
    Shape(
        "annotations of the module",
        """
rate: float = 0.5
--
name: 'str' = 'a'; unset: int
--
k = 1
--
__annotations__, k
""",
        {0: ("float = 0.5", "float = 0.7")},
        runs=[0],
    ),
    Shape(
        "annotations of the module that change",
        """
class C: pass
--
c: C = C()
--
d: int = 2
--
d
--
list(__annotations__), __annotations__['c'] is C
""",
        {1: ("c: C", "c: object")},
        runs=[1, 2, 4],
    ),
    Shape(
        "names with two underscores",
        """
__version__ = '1'
--
__all__ = ['f']
def f(): return __version__
--
f(), __all__
--
k = 1
--
f(), k
""",
        {0: ("1", "2")},
        runs=[0, 2, 4],
    ),
    Shape(
        "warnings of the compiler",
        """
import warnings; warnings.filterwarnings('ignore')
--
x = 1 is 1
--
y = '\\d' + 'a'
--
k = 1
--
x, y, k
""",
        {0: ("'ignore'", "'ignore', category=SyntaxWarning")},
        runs=[0, 1, 2],
        apart=True,
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
