"""Metaclasses, registries, dataclasses, enumerations, generics, abstract classes, after edits."""

from __future__ import annotations

import pytest

from .code_shape import Shape, shape_tests

pytestmark = pytest.mark.filterwarnings("ignore")

SHAPES = [
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
]


(
    test_unchanged_code_runs_nothing,
    test_an_edit_runs_its_dependents_only,
    test_restored_code_is_as_it_was,
) = shape_tests(SHAPES)
