"""Descriptors, operators and the other special methods of classes, right after edits."""

from __future__ import annotations

import pytest

from .code_shape import Shape, shape_tests

pytestmark = pytest.mark.filterwarnings("ignore")

SHAPES = [
    Shape(
        "__set_name__ and descriptors",
        """
class Positive:
    def __set_name__(self, owner, name): self.name = '_' + name
    def __get__(self, obj, kind=None): return self if obj is None else getattr(obj, self.name, 0)
    def __set__(self, obj, value):
        if value < low: raise ValueError(self.name)
        setattr(obj, self.name, value)
low = 0
--
class P:
    x = Positive()
    y = Positive()
--
p = P(); p.x = 3
--
p.y = 4; p.x + p.y
--
try: p.x = -1
except ValueError as e: print(e, p.x, P.x.name, vars(p))
""",
        {0: ("low = 0", "low = 1")},
        runs=[0, 1, 2, 3, 4],
    ),
    Shape(
        "properties, classmethods and staticmethods",
        """
class T:
    scale = 2
    def __init__(self, c): self._c = c
    @property
    def f(self): return self._c * self.scale
    @f.setter
    def f(self, v): self._c = v / self.scale
    @classmethod
    def of(cls, f): return cls(f / cls.scale)
    @staticmethod
    def half(x): return x / 2
--
t = T(4)
--
t.f = 10
--
t.f, T.of(8).f
--
t.f, t._c, T.half(3), T.f.fget.__name__
""",
        {2: ("10", "20")},
        runs=[2, 3, 4],
    ),
    Shape(
        "cached_property, empty and filled",
        """
import functools
class D:
    def __init__(self, n): self.n = n
    @functools.cached_property
    def slow(self):
        print('computed')
        return [self.n]
--
d = D(3); e = D(4)
--
d.slow
--
d.slow.append(9)
--
d.slow, e.slow, d.slow is d.slow
""",
        {1: ("D(3)", "D(5)")},
        runs=[1, 2, 3, 4],
    ),
    Shape(
        "__slots__",
        """
class P:
    __slots__ = ('x', 'y')
    def __init__(self, x): self.x = x
class Q(P):
    __slots__ = ('z',)
--
p = P([1]); q = Q(2); q.z = 5
--
p.x.append(2)
--
p.x, q.z, hasattr(p, 'y'), hasattr(q, '__dict__')
--
q.y = 1; (p.x, q.x, q.y, q.z, Q.__slots__)
""",
        {1: ("[1]", "[7]")},
        runs=[1, 2, 3, 4],
    ),
    Shape(
        "__getattr__ and __call__",
        """
class Lazy:
    def __init__(self, d): self.d = d
    def __getattr__(self, name):
        try: return self.d[name]
        except KeyError: raise AttributeError(name)
    def __call__(self, *a, **k): return a, k, self.d
    def __getitem__(self, k): return self.d[k]
    def __contains__(self, k): return k in self.d
    def __len__(self): return len(self.d)
    def __bool__(self): return False
    def __iter__(self): return iter(self.d)
--
z = Lazy({'a': 1})
--
z.d['b'] = 2
--
z.a, z.b, z(1, k=2), 'a' in z, len(z), bool(z), list(z)
--
hasattr(z, 'nothing'), z.b, z['a'], [*z]
""",
        {2: ("2", "3")},
        runs=[2, 3, 4],
    ),
    Shape(
        "__setattr__ and __delattr__",
        """
class Strict:
    def __init__(self):
        object.__setattr__(self, 'log', [])
    def __setattr__(self, k, v):
        self.log.append(k)
        object.__setattr__(self, k, v)
    def __delattr__(self, k):
        self.log.append('-' + k)
        object.__delattr__(self, k)
--
s = Strict(); s.a = 1
--
s.b = 2; del s.a
--
s.log
--
s.c = 3; s.log, vars(s)
""",
        {2: ("s.b", "s.d")},
        runs=[2, 3, 4],
    ),
    Shape(
        "operators",
        """
class V:
    def __init__(self, *xs): self.xs = xs
    def __add__(self, o): return V(*[a + b for a, b in zip(self.xs, o.xs)])
    def __mul__(self, k): return V(*[a * k for a in self.xs])
    __rmul__ = __mul__
    def __iadd__(self, o):
        self.xs = (self + o).xs
        return self
    def __eq__(self, o): return self.xs == o.xs
    def __hash__(self): return hash(self.xs)
    def __lt__(self, o): return self.xs < o.xs
    def __repr__(self): return f'V{self.xs}'
    def __matmul__(self, o): return sum(a * b for a, b in zip(self.xs, o.xs))
--
v = V(1, 2); w = v
--
v += V(1, 1)
--
v @ w, 2 * v, v == w, sorted([v, V(0, 0)])
--
w is v, {v: 1}[w], v + w, v != V(9, 9)
""",
        {2: ("V(1, 1)", "V(2, 2)")},
        runs=[2, 3, 4],
    ),
    Shape(
        "total_ordering",
        """
import functools
@functools.total_ordering
class Card:
    def __init__(self, n): self.n = n
    def __eq__(self, o): return self.n == o.n
    def __lt__(self, o): return self.n < o.n
--
cards = [Card(3), Card(1)]
--
max(cards).n
--
cards[0] >= cards[1], sorted(cards)[0].n, Card(3) == cards[0]
""",
        {1: ("Card(1)", "Card(5)")},
        runs=[1, 2, 3],
    ),
    Shape(
        "singledispatchmethod and partialmethod",
        """
import functools
class F:
    @functools.singledispatchmethod
    def fmt(self, x): return f'any {x}'
    @fmt.register
    def _(self, x: int): return f'int {x}'
    @fmt.register(list)
    def _(self, x): return [self.fmt(i) for i in x]
    def scale(self, k, x): return k * x
    double = functools.partialmethod(scale, 2)
--
f = F()
--
f.fmt(1), f.fmt('a'), f.double(4)
--
f.fmt([1, 'b']), f.double(5), F().fmt(2)
""",
        {0: ("'int {x}'", "'INT {x}'")},
        runs=[0, 1, 2, 3],
    ),
    Shape(
        "context manager classes",
        """
class Timer:
    runs = 0
    def __enter__(self):
        Timer.runs += 1
        return self
    def __exit__(self, *exc):
        self.exc = exc[0]
        return exc[0] is KeyError
--
with Timer() as t: x = 1
--
with t: {}['k']
--
t.exc, Timer.runs
--
t.exc is KeyError, Timer.runs, x
""",
        {1: ("x = 1", "x = 2")},
        runs=[1, 4],
    ),
    Shape(
        "iterator classes",
        """
class Count:
    def __init__(self, n): self.i, self.n = 0, n
    def __iter__(self): return self
    def __next__(self):
        if self.i >= self.n: raise StopIteration
        self.i += 1
        return self.i
--
it = Count(5)
--
next(it), next(it)
--
sum(it)
--
it.i, list(it)
""",
        {2: ("next(it), next(it)", "next(it),")},
        runs=[2, 3],
    ),
    Shape(
        "mutually referring instances and weak references",
        """
import weakref
class Node:
    def __init__(self, n, parent=None):
        self.n, self.kids = n, []
        self.parent = parent and weakref.ref(parent)
        if parent: parent.kids.append(self)
--
root = Node(1); kid = Node(2, root)
--
root.n = 10
--
kid.parent().n, root.kids[0] is kid
--
kid.parent() is root, kid.parent().n
""",
        {2: ("10", "20")},
        runs=[1, 2, 3, 4],
        needs=[1, 2, 3],
    ),
    Shape(
        "Self, __class_getitem__ and __class__",
        """
class Grid:
    def __class_getitem__(cls, k): return (cls.__name__, k)
    def clone(self): return __class__()
    def become(self): self.__class__ = Other
class Other:
    def who(self): return 'other'
--
g = Grid()
--
g.become()
--
g.who(), Grid[3]
--
type(g) is Other, Grid['a'], isinstance(g, Grid)
""",
        {0: ("'other'", "'another'")},
        runs=[0, 1, 2, 3, 4],
    ),
    Shape(
        "containers with methods of their own",
        """
import collections
class D(dict):
    def __setitem__(self, k, v): super().__setitem__(k, v * 2)
class L(list):
    def append(self, x): super().append([x])
    def extend(self, xs): super().extend([[x] for x in xs])
class S(set):
    def __init__(self, *xs):
        print('made')
        super().__init__(xs)
class Q(collections.deque):
    def __init__(self, n): super().__init__([n], 3)
class O(collections.OrderedDict):
    def __setitem__(self, k, v): super().__setitem__(str(k), v)
class N(dict):
    def __getattr__(self, k): return self[k]
    __setattr__ = dict.__setitem__
--
d, l, s, q, o, n = D(), L(), S(1, 2), Q(5), O(), N(a=1)
d['a'] = 1; l.append(2); o[3] = 4; n.b = 2; s.tag = 't'; s.me = s
--
q.append(6)
--
d, l, sorted(s), q, q.maxlen, o, n.b, s.tag
--
d['a'], l[0], s.me is s, q, list(o), n, [type(x).__name__ for x in (d, l, s, q, o, n)]
""",
        {2: ("6", "7")},
        runs=[2, 3, 4],
    ),
    Shape(
        "a class with a cached method and a lock",
        """
import functools, threading
class C:
    lock = threading.Lock()
    def __init__(self, n): self.n = n
    @functools.lru_cache
    def slow(self):
        print('slow', self.n)
        return self.n
--
c = C(1); d = C(2)
--
c.slow()
--
d.n
--
c.slow(), d.slow()
""",
        {3: ("d.n", "d.n + 1")},
        runs=[2, 3],
        needs=[2],
    ),
    Shape(
        "a property that is completed later",
        """
class P:
    def __init__(self): self._x = 1
    x = property(lambda self: self._x)
--
p = P()
--
P.x = P.x.setter(lambda self, v: setattr(self, '_x', v))
--
p.x = 5
--
p.x, P().x
""",
        {2: ("'_x', v", "'_x', v + 1")},
        runs=[2, 3, 4],
    ),
]


(
    test_unchanged_code_runs_nothing,
    test_an_edit_runs_its_dependents_only,
    test_restored_code_is_as_it_was,
) = shape_tests(SHAPES)
