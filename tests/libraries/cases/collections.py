"""Containers and data types of the standard library."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "Standard library: containers and records",
    prelude="import array, collections, dataclasses, enum, queue, string, types, typing",
    fast=True,
    cases=(
        Case("list", "x = [3, 1, [2]]", "print(x, len(x))", "x[2].append(4)"),
        Case("tuple", "x = (1, [2], 'a')", "print(x)", "x[1].append(3)"),
        Case("dict", "x = {'b': 1, 'a': [2]}", "print(x, list(x))", "x['a'].append(3)"),
        Case("set", "x = {1, 5, 3}", "print(x, 5 in x)", "x.add(9)"),
        Case(
            "set of texts",
            "x = {'the', 'mat', 'sat', 'on', 'a', 'cat'}",
            "print(sorted(x), len(x))",
            "x.discard('on')",
            varies="sets of texts are ordered by hashes, which differ from process to process",
        ),
        Case("frozenset", "x = frozenset([1, (2, 3), 8])", "print(x)"),
        Case("bytearray", "x = bytearray(b'abc')", "print(x)", "x[0] = 90"),
        Case("slice", "x = slice(1, None, 2)", "print(x)"),
        Case("range", "x = range(1, 9, 2)", "print(x, 3 in x)"),
        Case("dict_keys", "d = {1: 2}; x = d.keys()", "print(list(x))", "d[3] = 4"),
        Case("dict_items", "d = {1: 2}; x = d.items()", "print(list(x))", "d[3] = 4"),
        Case("mappingproxy", "d = {1: 2}; x = types.MappingProxyType(d)", "print(x)", "d[3] = 4"),
        Case(
            "memoryview",
            "b = bytearray(b'abc'); x = memoryview(b)",
            "print(bytes(x))",
            "x[0] = 90",
            recomputed="it is a window into the memory of another object",
        ),
        Case("array.array", "x = array.array('d', [1, 2])", "print(x)", "x.append(3)"),
        Case("collections.Counter", "x = collections.Counter('aab')", "print(x)", "x['a'] += 1"),
        Case(
            "collections.OrderedDict",
            "x = collections.OrderedDict(b=1, a=2)",
            "print(x)",
            "x.move_to_end('b')",
        ),
        Case(
            "collections.defaultdict",
            "x = collections.defaultdict(list, {1: [2]})",
            "print(dict(x), x.get(3))",
            "x[3]; x[4]; None",
        ),
        Case("collections.deque", "x = collections.deque([1, 2], 3)", "print(x)", "x.rotate()"),
        Case(
            "collections.ChainMap",
            "x = collections.ChainMap({1: 2}, {3: 4})",
            "print(x)",
            "x[5] = 6",
        ),
        Case("collections.UserDict", "x = collections.UserDict(a=1)", "print(x)", "x['b'] = 2"),
        Case("collections.UserList", "x = collections.UserList([1])", "print(x)", "x.append(2)"),
        Case(
            "collections.UserString", "x = collections.UserString('a')", "print(x)", "x.data = 'b'"
        ),
        Case(
            "collections.namedtuple",
            "P = collections.namedtuple('P', 'a b'); x = P(1, [2])",
            "print(x, x._asdict())",
            "x.b.append(3)",
        ),
        Case(
            "subclass of Counter with attributes",
            "class C(collections.Counter): pass\nx = C('aab'); x.more = [1]",
            "print(x, x.more)",
            "x.more.append(2)",
            recomputed="its pickle leaves attributes out",
        ),
        Case(
            "subclass of list",
            "class L(list): pass\nx = L([1]); x.more = [1]",
            "print(x, x.more)",
            "x.more.append(2)",
        ),
        Case("types.SimpleNamespace", "x = types.SimpleNamespace(a=1)", "print(x)", "x.b = 2"),
        Case(
            "dataclass",
            "@dataclasses.dataclass\nclass D:\n    a: int = 1\n"
            "    b: list = dataclasses.field(default_factory=list)\nx = D()",
            "print(x, dataclasses.asdict(x))",
            "x.b.append(1)",
        ),
        Case(
            "dataclass, frozen, with slots",
            "@dataclasses.dataclass(frozen=True, slots=True)\nclass D:\n    a: list\nx = D([1])",
            "print(x)",
            "x.a.append(2)",
        ),
        Case(
            "dataclasses.Field",
            "@dataclasses.dataclass\nclass D:\n    a: int = 1\nx = dataclasses.fields(D)[0]",
            "print(x.name, x.default, x.type)",
        ),
        Case(
            "enum.Enum",
            "class E(enum.Enum):\n    A = 1\n    B = 2\nx = E.A",
            "print(x, x is E.A, list(E))",
        ),
        Case(
            "enum.Flag",
            "class F(enum.Flag):\n    A = enum.auto()\n    B = enum.auto()\nx = F.A | F.B",
            "print(x, F.A in x)",
        ),
        Case(
            "enum of a library",
            "import http; x = http.HTTPStatus.OK",
            "print(x, x is http.HTTPStatus(200))",
        ),
        Case(
            "typing.NamedTuple",
            "class P(typing.NamedTuple):\n    a: int\n    b: list\nx = P(1, [2])",
            "print(x)",
            "x.b.append(3)",
        ),
        Case(
            "typing.TypedDict",
            "class T(typing.TypedDict):\n    a: int\nx = T(a=1)",
            "print(x)",
            "x['a'] = 2",
        ),
        Case("typing.Optional[…]", "x = typing.Optional[list[int]]", "print(x, x.__args__)"),
        Case("types.UnionType", "x = int | str", "print(x)"),
        Case("types.GenericAlias", "x = dict[str, int]", "print(x)"),
        Case("typing.TypeVar", "x = typing.TypeVar('x', bound=int)", "print(x, x.__bound__)"),
        Case("typing.NewType", "x = typing.NewType('x', int)", "print(x.__name__, x(3))"),
        Case(
            "queue.Queue",
            "x = queue.Queue(); x.put(1)",
            "print(x.qsize(), list(x.queue))",
            "x.put(2)",
        ),
        Case(
            "queue.LifoQueue",
            "x = queue.LifoQueue(); x.put(1)",
            "print(x.qsize())",
            "taken = x.get()",
        ),
        Case(
            "queue.PriorityQueue",
            "x = queue.PriorityQueue(); x.put(3)",
            "print(x.queue)",
            "x.put(1)",
        ),
        Case(
            "queue.SimpleQueue",
            "x = queue.SimpleQueue(); x.put(1)",
            "print(x.qsize())",
            "x.put(2)",
            recomputed="what is in it cannot be seen without taking it out",
        ),
        Case(
            "string.Template", "x = string.Template('$a')", "print(x.template)", "x.template = '$b'"
        ),
        Case(
            "object() that a module keeps as a sentinel",
            "import logging.config, inspect, queue, functools; x = [functools._initial_missing]",
            "print(x[0] is functools._initial_missing, len(x))",
            "x.append(1)",
        ),
        Case("object() as a sentinel", "x = object(); held = [x]", "print(x in held)"),
        Case(
            "Ellipsis and NotImplemented",
            "x = [..., NotImplemented]",
            "print(x[0] is ..., x)",
            "del x[1]",
        ),
        Case(
            "class with __slots__",
            "class A:\n    __slots__ = ('a', 'b')\nx = A(); x.a = [1]",
            "print(x.a, hasattr(x, 'b'))",
            "x.b = 2",
        ),
        Case(
            "class that pickles in its own way",
            "class A:\n    def __init__(self): self.a = 1; self.cache = {}\n"
            "    def __getstate__(self): return {'a': self.a, 'cache': {}}\nx = A()",
            "print(vars(x))",
            "x.cache[1] = 2",
            recomputed="its pickle may leave out what counts",
        ),
        Case(
            "class with a finaliser",
            "class A:\n    def __del__(self): pass\nx = A(); x.a = 1",
            "print(x.a)",
            "x.a = 2",
            recomputed="the end of a copy would run the finaliser",
        ),
        Case(
            "class that answers to every attribute",
            "class A:\n    def __getattr__(self, name):\n        if name.startswith('__'): raise AttributeError(name)\n"
            "        return name\nx = A()",
            "print(x.anything, vars(x))",
            "x.a = 2",
        ),
        Case(
            "list in itself",
            "x = []; x.append((x, 1))",
            "print(x[0][0] is x, len(x))",
            "x.append(2)",
        ),
        Case(
            "list nested a hundred thousand deep",
            "x = []\nfor n in range(100_000): x = [x]",
            "print(len(x))",
            "x.append(1)",
            recomputed="it is too deep for pickle",
        ),
    ),
)
