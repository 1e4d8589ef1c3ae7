"""Generators, context managers, `functools` and `itertools` with functions of the notebook."""

from __future__ import annotations

import pytest

from .code_shape import Shape, shape_tests

pytestmark = pytest.mark.filterwarnings("ignore")

SHAPES = [
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
]


(
    test_unchanged_code_runs_nothing,
    test_an_edit_runs_its_dependents_only,
    test_restored_code_is_as_it_was,
) = shape_tests(SHAPES)
