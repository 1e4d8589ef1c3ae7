"""Classes in every shape that notebooks give them: one identity per version, right after edits."""

from __future__ import annotations

import pytest

from .code_shape import Shape, shape_tests

pytestmark = pytest.mark.filterwarnings("ignore")

SHAPES = [
    Shape(
        "one identity",
        """
class C:
    n = 1
--
c = C(); cs = [C(), C]
--
type(c) is C, isinstance(cs[0], C)
--
type(c) is C, cs[1] is C, isinstance(cs[0], type(c)), c.__class__.n
""",
        {0: ("n = 1", "n = 2")},
        runs=[0, 1, 2, 3],
    ),
    Shape(
        "redefined while instances live",
        """
class C:
    def hi(self): return 'old'
--
a = C()
--
class C:
    def hi(self): return 'new'
--
b = C()
--
a.hi(), b.hi(), isinstance(a, C), type(a).__name__ == type(b).__name__
""",
        {2: ("'new'", "'newer'")},
        runs=[2, 3, 4],
    ),
    Shape(
        "inheritance with super over cells",
        """
class Base:
    def __init__(self, n): self.n = n
    def area(self): return self.n
--
class Sub(Base):
    def __init__(self, n, m):
        super().__init__(n)
        self.m = m
    def area(self): return super().area() * self.m
--
s = Sub(2, 3)
--
s.area()
--
s.area(), Sub.__mro__[1] is Base, isinstance(s, Base)
""",
        {0: ("return self.n", "return self.n + 1")},
        runs=[0, 1, 2, 3, 4],
    ),
    Shape(
        "multiple inheritance and mixins",
        """
class Loud:
    def say(self): return super().say().upper()
class Twice:
    def say(self): return super().say() * 2
class Base:
    def say(self): return 'hi'
--
class C(Loud, Twice, Base): pass
--
c = C()
--
c.say()
--
c.say(), [k.__name__ for k in C.__mro__]
""",
        {0: ("'hi'", "'ho'")},
        runs=[0, 1, 2, 3, 4],
    ),
    Shape(
        "class attributes set later",
        """
class C:
    items = []
    n = 0
--
C.n = 5
--
C.items.append(1)
--
c = C(); c.n
--
C.n, C.items, c.items is C.items
""",
        {1: ("5", "6")},
        runs=[1, 2, 3, 4],
    ),
    Shape(
        "a method added later",
        """
class C:
    def __init__(self): self.v = 1
--
c = C()
--
def double(self): return self.v * 2
C.double = double
--
c.double()
--
c.double(), C.double is double
""",
        {2: ("* 2", "* 3")},
        runs=[2, 3, 4],
    ),
    Shape(
        "an instance that is patched",
        """
import types
class C:
    def hi(self): return 'hi'
c = C()
--
c.hi = types.MethodType(lambda self: 'patched', c)
--
c.hi()
--
c.extra = [1]; c.hi(), vars(c).keys(), C().hi()
""",
        {1: ("'patched'", "'other'")},
        runs=[1, 2, 3],
    ),
    Shape(
        "a metaclass that changes what is defined",
        """
class Meta(type):
    def __new__(m, name, bases, body):
        body['tag'] = name.lower()
        return super().__new__(m, name, bases, body)
    def __len__(cls): return len(cls.tag)
--
class A(metaclass=Meta): pass
--
a = A()
--
A.tag, len(A)
--
a.tag, len(A), type(A) is Meta, isinstance(a, A)
""",
        {0: ("lower", "upper")},
        runs=[0, 1, 2, 3, 4],
    ),
    Shape(
        "a metaclass that keeps a registry",
        """
class Meta(type):
    reg = {}
    def __new__(m, name, bases, body):
        cls = super().__new__(m, name, bases, body)
        m.reg[name] = cls
        return cls
--
class A(metaclass=Meta): pass
--
class B(A): x = 1
--
sorted(Meta.reg)
--
Meta.reg['A'] is A, Meta.reg['B'] is B, Meta.reg['B'].x
""",
        {2: ("x = 1", "x = 2")},
        runs=[2, 3, 4],
    ),
    Shape(
        "__init_subclass__ as a registry",
        """
class Plugin:
    known = {}
    def __init_subclass__(cls, name='', **kw):
        super().__init_subclass__(**kw)
        Plugin.known[name or cls.__name__] = cls
--
class A(Plugin, name='a'): pass
--
class B(Plugin): v = 1
--
sorted(Plugin.known)
--
Plugin.known['a'] is A, Plugin.known['B'].v, Plugin.__subclasses__() == [A, B]
""",
        {2: ("v = 1", "v = 2")},
        runs=[1, 2, 3, 4],
        needs=[1, 2],
    ),
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
        "dataclasses with every option",
        """
from dataclasses import dataclass, field, replace, asdict, astuple, fields, KW_ONLY, InitVar
from typing import ClassVar
@dataclass(order=True)
class P:
    x: int
    tags: list = field(default_factory=list, compare=False)
    total: ClassVar[int] = 0
    scale: InitVar[int] = 1
    def __post_init__(self, scale): self.x *= scale
@dataclass(frozen=True, slots=True)
class Q:
    a: int
    _: KW_ONLY
    b: str = 'b'
--
p = P(2, scale=3); q = Q(1, b='z')
--
p.tags.append('t')
--
p, q, asdict(p), replace(q, a=5)
--
p < P(9), hash(q) == hash(Q(1, b='z')), [f.name for f in fields(P)], astuple(p), p.tags
""",
        {2: ("'t'", "'u'")},
        runs=[2, 3, 4],
    ),
    Shape(
        "a dataclass that inherits one of another cell",
        """
from dataclasses import dataclass
@dataclass
class A:
    x: int = 1
--
@dataclass
class B(A):
    y: int = 2
    def both(self): return self.x + self.y
--
b = B(y=5)
--
b.both()
--
b, b == B(1, 5), isinstance(b, A), B.__dataclass_fields__.keys()
""",
        {0: ("x: int = 1", "x: int = 3")},
        runs=[0, 1, 2, 3, 4],
    ),
    Shape(
        "enumerations",
        """
from enum import Enum, IntEnum, Flag, IntFlag, StrEnum, auto, unique
@unique
class Color(Enum):
    RED = auto()
    BLUE = auto()
    ALIAS_OK = 7
    def shout(self): return self.name + '!'
    @property
    def low(self): return self.name.lower()
    @classmethod
    def first(cls): return next(iter(cls))
class Level(IntEnum):
    LOW = 1
    HIGH = 2
class Perm(Flag):
    R = auto()
    W = auto()
    RW = R | W
class Word(StrEnum):
    A = auto()
--
c = Color.RED; perms = Perm.R | Perm.W; d = {Color.BLUE: [1]}
--
d[Color.BLUE].append(2)
--
c is Color.RED, Color['RED'] is c, c.shout(), perms is Perm.RW, Level.HIGH > 1, Word.A == 'a'
--
d[Color(2)], c.low, Color.first() is c, Perm.R in perms, list(Color), Level(2) is Level.HIGH
""",
        {2: ("2)", "3)")},
        runs=[2, 4],
    ),
    Shape(
        "an enumeration with values built by code",
        """
import enum
class Planet(enum.Enum):
    EARTH = (5.9, 6.3)
    MARS = (0.6, 3.3)
    def __init__(self, mass, radius):
        self.mass, self.radius = mass, radius
    @property
    def g(self): return self.mass / self.radius ** 2
    @classmethod
    def _missing_(cls, value): return cls.EARTH
--
home = Planet.EARTH
--
home.g
--
home is Planet((5.9, 6.3)), Planet('x') is home, round(Planet.MARS.g, 3)
""",
        {0: ("0.6", "0.7")},
        runs=[0, 1, 2, 3],
        needs=[0],
    ),
    Shape(
        "generics, protocols, typed dictionaries and named tuples",
        """
from typing import Generic, TypeVar, Protocol, TypedDict, NamedTuple, runtime_checkable
T = TypeVar('T')
class Stack(Generic[T]):
    def __init__(self): self.items: list[T] = []
    def push(self, x: T) -> 'Stack[T]':
        self.items.append(x)
        return self
@runtime_checkable
class Sized2(Protocol):
    def size(self) -> int: ...
class Movie(TypedDict, total=False):
    title: str
    year: int
class Pt(NamedTuple):
    x: int
    y: int = 5
    def norm(self): return self.x + self.y
--
class Box(Stack[int]):
    def size(self): return len(self.items)
s = Stack[int]().push(1); b = Box().push(2); m = Movie(title='t'); p = Pt(1)
--
s.push(3)
--
s.items, isinstance(b, Sized2), b.size(), m, p, p.norm(), p._replace(x=9)
--
Stack[int].__args__, Box.__orig_bases__, Movie.__total__, Pt._field_defaults, isinstance(s, Sized2)
""",
        {2: ("3", "4")},
        runs=[2, 3, 4],
    ),
    Shape(
        "abstract base classes",
        """
from abc import ABC, abstractmethod, ABCMeta
class Shape(ABC):
    @abstractmethod
    def area(self): ...
    @property
    @abstractmethod
    def name(self): ...
class Square(Shape):
    def __init__(self, s): self.s = s
    def area(self): return self.s ** 2
    name = 'square'
--
try: Shape()
except TypeError as e: print(e)
--
sq = Square(3)
--
sq.area(), isinstance(sq, Shape), Shape.__abstractmethods__ == {'area', 'name'}
""",
        {0: ("** 2", "** 3")},
        runs=[0, 2, 3],
    ),
    Shape(
        "registered with an abstract class of a library",
        """
import collections.abc
class Seq:
    def __init__(self, *a): self.a = a
    def __getitem__(self, i): return self.a[i]
    def __len__(self): return len(self.a)
collections.abc.Sequence.register(Seq)
--
s = Seq(1, 2)
--
isinstance(s, collections.abc.Sequence)
--
isinstance(s, collections.abc.Sequence), len(s), s[0]
""",
        {1: ("(1, 2)", "(3, 4)")},
        runs=[0, 1, 2, 3],
        needs=[0],
    ),
    Shape(
        "subclasses of built-in types",
        """
import collections
class L(list):
    def total(self): return sum(self)
class D(dict):
    def __missing__(self, k): return self.setdefault(k, [])
class S(str):
    def __new__(cls, s): return super().__new__(cls, s.upper())
class I(int):
    note = 'n'
class Q(collections.deque): pass
class U(collections.UserDict): pass
--
l = L([1, 2]); l.tag = 'x'; d = D(); s = S('abc'); i = I(5); i.extra = 1; q = Q([1], 3); u = U(a=1)
--
d['k'].append(1); l.append(3); q.append(2)
--
l.total(), l.tag, d, s, i + 1, i.extra, q, q.maxlen, u
--
type(s) is S, type(i).__mro__[1], l == [1, 2, 3], d['z'], q[0], u['a'], isinstance(u, U)
""",
        {2: ("append(3)", "append(4)")},
        runs=[2, 3, 4],
    ),
    Shape(
        "a class decorator",
        """
made = []
def traced(cls):
    made.append(cls.__name__)
    old = cls.__init__
    def init(self, *a):
        self.trace = a
        old(self, *a)
    cls.__init__ = init
    return cls
--
@traced
class A:
    def __init__(self, x): self.x = x
--
a = A(3)
--
a.trace, a.x
--
made, a.trace, A(4).trace
""",
        {2: ("A(3)", "A(5)")},
        runs=[2, 3, 4],
    ),
    Shape(
        "nested classes",
        """
class Tree:
    class Node:
        def __init__(self, v): self.v, self.kids = v, []
        def add(self, v):
            self.kids.append(Tree.Node(v))
            return self.kids[-1]
    def __init__(self): self.root = Tree.Node(0)
--
t = Tree(); n = t.root.add(1)
--
n.add(2)
--
t.root.kids[0] is n, type(n) is Tree.Node, n.kids[0].v
--
t.root.kids[0].kids[0].v, type(n).__qualname__, isinstance(n, Tree.Node)
""",
        {2: ("2", "3")},
        runs=[2, 3, 4],
    ),
    Shape(
        "copied and pickled instances",
        """
import copy, pickle
class C:
    def __init__(self): self.v = [1]; self.me = self
--
c = C()
--
a, b, p = copy.copy(c), copy.deepcopy(c), pickle.loads(pickle.dumps(c))
--
c.v.append(2)
--
a.v is c.v, b.v, p.v, type(p) is C, b.me is b, a.me is c
--
copy.deepcopy(C) is C, copy.copy(c).v is a.v, pickle.loads(pickle.dumps(C)) is C
""",
        {3: ("2", "3")},
        runs=[3, 4, 5],
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
        "type() and types.new_class",
        """
import types
A = type('A', (), {'n': 1, 'm': lambda self: self.n})
B = types.new_class('B', (A,), {}, lambda ns: ns.update(k=2))
--
a, b = A(), B()
--
a.m(), b.k
--
type(b) is B, B.__mro__[1] is A, a.m() + b.m(), A.__name__
""",
        {0: ("'n': 1", "'n': 3")},
        runs=[0, 1, 2, 3],
    ),
    Shape(
        "get_type_hints and annotations",
        """
import typing
class Cfg:
    x: int
    y: 'list[Cfg]' = []
def f(a: Cfg, b: 'int' = 1) -> 'Cfg': return a
--
typing.get_type_hints(f)['return'] is Cfg, Cfg.__annotations__
--
typing.get_type_hints(Cfg), f.__annotations__['a'] is Cfg
""",
        {0: ("x: int", "x: str")},
        runs=[0, 1, 2],
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
        "a class that counts its instances",
        """
class C:
    made = 0
    def __init__(self):
        type(self).made += 1
        self.id = C.made
--
a = C()
--
b = C()
--
a.id, b.id, C.made
--
C().id
""",
        {2: ("b = C()", "b = C(); b = C()")},
        runs=[2, 3, 4],
    ),
    Shape(
        "private names and name mangling",
        """
class Acc:
    __rate = 2
    def __init__(self): self.__v = 1
    def grow(self):
        self.__v *= self.__rate
        return self.__v
--
a = Acc()
--
a.grow()
--
a._Acc__v
--
a.grow(), Acc._Acc__rate, vars(a)
""",
        {0: ("= 2", "= 3")},
        runs=[0, 1, 2, 3, 4],
    ),
    Shape(
        "a singleton by __new__",
        """
class One:
    it = None
    def __new__(cls):
        if cls.it is None:
            cls.it = super().__new__(cls)
            cls.it.n = 0
        return cls.it
--
a = One()
--
b = One(); b.n += 1
--
a is b, a.n
--
One() is a, One.it.n
""",
        {2: ("+= 1", "+= 2")},
        runs=[2, 3, 4],
    ),
    Shape(
        "a __new__ that converts",
        """
class Celsius(float):
    def __new__(cls, f): return super().__new__(cls, (f - 32) / 2)
class Pair(tuple):
    def __new__(cls, *xs): return super().__new__(cls, xs)
class Few(frozenset):
    def __new__(cls, *xs): return super().__new__(cls, xs)
class Counted:
    made = []
    def __new__(cls, v):
        cls.made.append(v)
        return super().__new__(cls)
    def __init__(self, v): self.v = v
--
c, p, few, n = Celsius(50), Pair(1, [2]), Few(1, 2), Counted(3)
--
p[1].append(4)
--
c, p, few, n.v, Counted.made
--
float(c), len(p), sorted(few), Counted.made, [type(x).__name__ for x in (c, p, few, n)]
""",
        {2: ("4", "5")},
        runs=[2, 3, 4],
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
        "classes registered with an abstract class of the notebook",
        """
import abc
class Shape(abc.ABC): pass
class A: pass
class B: pass
--
Shape.register(A)
--
isinstance(A(), Shape), isinstance(B(), Shape)
--
Shape.register(B)
--
isinstance(A(), Shape), isinstance(B(), Shape)
--
issubclass(B, Shape), issubclass(A, Shape)
""",
        {3: ("Shape.register(B)", "Shape.register(int)")},
        runs=[1, 3, 4, 5],
        needs=[1, 3],
    ),
    Shape(
        "a class that holds an iterator",
        """
class C:
    ids = iter(range(9))
    def __init__(self): self.id = next(self.ids)
--
a = C()
--
b = C()
--
a.id, b.id
--
C().id
""",
        {1: ("a = C()", "a = C(); a = C()")},
        runs=[1, 2, 3, 4],
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
        "a class that inherits from its former definition",
        """
class A:
    n = 1
--
a = A()
--
class A(A):
    m = 2
--
b = A()
--
a.n, b.n, b.m, isinstance(b, type(a)), type(b).__mro__[1] is type(a)
""",
        {2: ("m = 2", "m = 3")},
        runs=[2, 3, 4],
    ),
    Shape(
        "a function and a class that share a variable",
        """
def outer():
    x = []
    def add(v):
        x.append(v)
        return x
    class K:
        def get(self): return x
    return add, K()
--
add, k = outer()
--
add(1)
--
k.get()
--
add(2) is k.get(), k.get()
""",
        {2: ("1", "7")},
        runs=[2, 3, 4],
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
"""Classes, their instances, and what may stand in them."""

(
    test_unchanged_code_runs_nothing,
    test_an_edit_runs_its_dependents_only,
    test_restored_code_is_as_it_was,
) = shape_tests(SHAPES)
