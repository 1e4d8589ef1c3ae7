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
]
"""Classes, their instances, and what may stand in them."""

(
    test_unchanged_code_runs_nothing,
    test_an_edit_runs_its_dependents_only,
    test_restored_code_is_as_it_was,
) = shape_tests(SHAPES)
