"""Statements that generated notebooks are made of.

Fields: `{v}` a name to bind, `{w}` and `{u}` names that are bound, `{l}` a list,
`{k}` a dictionary, `{r}` an array, `{i}` an instance of a notebook class, `{t}` an
iterator, `{f}` a function to define, `{h}` one that is defined, `{K}` a class to
define, `{L}` one that is defined, `{n}` and `{m}` small numbers, `{p}` a file.
"""

from __future__ import annotations

from pathlib import Path

VALUES = (
    "{v} = {n}",
    "{v} = [{n}, [{m}]]",
    "{v} = {{'k': {n}}}",
    "{v} = {w}",
    "{v} = [{w}, {u}]",
    "{v} = ({w}, {n})",
    "{v} = [x for x in range({n})]",
    "{v} = {w} if {u} else {n}",
    "{v} = None",
    "{v} = '{n}' * 2",
    "{v} = {{1, {n}}}",
    "{v} = max({n}, {m})",
    "{v} = {w}[0]",
    "{v} = {l}[:]",
    "{v} = [{w}] * 2",
    "{v} = dict(k={w})",
    "{v}, {w} = {n}, [{m}]",
    "del {w}",
    "{l} += [{n}]",
    "{l}.append({n})",
    "{l}.append({w})",
    "{l}[0] = {n}",
    "{k}['k'] = {w}",
    "{l}.extend([{n}])",
    "{l}.clear()",
    "{l}.pop()",
    "{w} += {n}",
    "if {w}: {v} = {n}",
    "if {w}:\n    {l}.append({n})\nelse:\n    {v} = {m}",
    "for {v} in [{n}, {m}]: pass",
    "for x in range({n}):\n    {v} = x",
    "try:\n    {w}.append({n})\nexcept AttributeError:\n    {v} = {m}",
    "try:\n    {v} = {w}[{n}]\nexcept Exception as e:\n    print(type(e).__name__)",
    "print({w})",
    "{w}",
    "len({l})",
    "{l} is {w}",
    "globals()['{v}'] = {n}",
    "{v} = eval('{w}')",
    "sorted = {n}",
    "{v} = sorted([{n}, 1])",
    "_",
    "{v} = _",
    "import random; {v} = random.random()",
    "import random; random.seed({n})",
    "import random\nrandom.seed({n})\n{v} = [random.randint(0, 9) for _i in range(2)]",
    "import random; random.shuffle({l})",
    "{v} = iter([{n}, {m}, 5])",
    "{v} = next({t})",
    "{v} = (x for x in [{n}, 7])",
    "while {w} is None: {w} = {n}",
    "with __import__('contextlib').nullcontext({w}) as {v}: pass",
)
"""Assignments, aliases, mutations, branches, draws of random numbers."""

NESTED = (
    "{v} = {{'k': [{w}], 'l': {{'m': {u}}}}}",
    "{k}['k'].append({n})",
    "{k}.setdefault('z', []).append({w})",
    "{k}.update(k={w}, q={n})",
    "{k}.pop('k', None)",
    "{v} = list({k}.items())",
    "{v} = [[{n}]] * 3\n{v}[0].append({m})",
    "{v} = [*{l}, {n}]",
    "{v} = {l}[0]",
    "{l}[:1] = [{n}, {w}]",
    "{l}.reverse()",
    "{v} = {l}, {l}",
    "{v} = __import__('copy').deepcopy({w})",
    "{v} = frozenset([{n}, {m}])",
    "{v} = '{n}{m}'.join(['x', 'y'])\n{w} = ({v}, {v})",
    "{v} = __import__('collections').defaultdict(list)\n{v}[{n}].append({w})",
    "{v} = bytearray(b'ab')\n{v}[0] = {n}",
    "{v} = __import__('collections').deque([{w}, {n}], maxlen=3)",
    "{v}, *{w} = {l}",
    "{v} = type({w}) is type({u}), isinstance({w}, list)",
    "print({w}, sep='', end='')\nprint('{n}')",
    "{w};",
    "repr({w})[:9]",
    "if (y := {n}) > 1: {v} = y",
    "{v} = [z := {n}, z + 1]",
    "match {w}:\n    case [x, *_r]:\n        {v} = x\n    case {{'k': x}}:\n        {v} = [x]\n"
    "    case _:\n        {v} = {n}",
    "try:\n    {l}.append({n})\n    {l}.index('no')\nexcept ValueError:\n    {v} = {m}\n"
    "finally:\n    print(len({l}))",
    "from math import *",
    "from math import *; {v} = floor({n}.5)",
    "try:\n    {v} = pi\nexcept NameError:\n    {v} = 0",
    "for x in {l}:\n    if x == {n}:\n        break\nelse:\n    {v} = 'none'",
)
"""Containers in containers, patterns, star imports."""

ARRAYS = (
    "import numpy as np; {v} = np.arange({n} + 4)",
    "import numpy as np; {v} = np.zeros((2, 3))",
    "{v} = {r}[1:]",
    "{v} = {r}[::2]",
    "{v} = {r}.T",
    "{v} = {r}.reshape(-1)",
    "{v} = {r}.copy()",
    "{r}[0] = {n}",
    "{r} += {n}",
    "{r}.sort()",
    "{r}.base is None",
    "{r}.sum()",
    "print({r}.tolist())",
    "{v} = [{r}, {r}[:1]]",
    "{v} = {r} + {n}",
    "{v} = {{'k': {r}[:2]}}",
    "import numpy as np; np.random.seed({n})",
    "import numpy as np; {v} = np.random.rand(2)",
    "import numpy as np; {v} = np.random.default_rng({n})",
    "import numpy as np; {v} = np.array([{n}, {{'k': {w}}}], dtype=object)",
)
"""Arrays and views of them."""

CODE = (
    "def {f}(x): return x",
    "def {f}(x=[]):\n    x.append({n})\n    return len(x)",
    "def {f}(x): return [x, {w}]",
    "def {f}(x):\n    global {v}\n    {v} = {n}\n    return x",
    "def {f}(x):\n    {l}.append(x)",
    "def {f}(x): return {h}(x)",
    "def {f}(x):\n    def inner(): return (x, {n})\n    return inner",
    "{f} = lambda x: x",
    "{f} = lambda x: [x, {w}]",
    "{f} = {h}",
    "{v} = {h}",
    "{v} = {h}({n})",
    "{v} = {h}({w})",
    "{h}({w})",
    "{h}({w})()",
    "print({h}({n}))",
    "{h}.note = {w}",
    "{v} = {h}.note",
    "def make():\n    n = {n}\n    def up():\n        nonlocal n\n        n += 1\n"
    "        return n\n"
    "    def get(): return n\n    return up, get",
    "{v}, {w} = make()",
    "{w}()",
    "[{w}(), {u}()]",
    "del {h}",
    "import math; {v} = math.floor({n}.5)",
    "from math import pi as {v}",
    "{v} = [{h}, {h}]",
    "{l}[0]({n})",
    "def {f}(x):\n    global {w}\n    del {w}",
    "def {f}(x, *, seen={{}}):\n    seen[repr(x)[:5]] = {n}\n    return dict(seen)",
    "{h}.__defaults__ = ({n},)",
    "def deco(g):\n    calls = []\n    def wrapped(*a):\n        calls.append({n})\n"
    "        return len(calls), g(*a)\n    return wrapped",
    "@deco\ndef {f}(x): return [x, {n}]",
    "{f} = deco({h})",
    "import functools; {f} = functools.partial({h}, {n})",
    "import functools\n@functools.lru_cache\ndef {f}(x=0):\n    print('called')\n    return {n}",
    "import functools\n@functools.wraps({h})\ndef {f}(x=0): return {n}",
    "def {f}(x=0):\n    yield {n}\n    yield {w}",
    "{v} = {h}({w}); next({v}, None)",
    "{v} = list({h}({n}))",
    "def {f}(x=0):\n    try:\n        return x[0]\n    except TypeError:\n        return {n}\n"
    "    finally:\n        print('f')",
    "def {f}(x=0): return eval('{w}')",
    "def {f}(x=0):\n    import random\n    return random.randint(0, 99)",
    "{v} = list(map({h}, [{n}, {m}]))",
    "{v} = sorted([{n}, {m}], key={h})",
    "{f} = [lambda x, i=i: (x, i, {n}) for i in range(2)][1]",
    "def {f}(x={w}): return x",
    "def {f}(x={w}):\n    'says {n}'\n    return [x]",
    "@__import__('functools').wraps({h})\ndef {f}(x=0):\n    'own'\n    return {h}.__doc__, {n}",
    "import functools\n@functools.singledispatch\ndef {f}(x=0): return {n}",
    "getattr({h}, 'register', print)(list, lambda x: [{n}, len(x)])",
    "try: raise ValueError({n}, {w})\n"
    "except ValueError as problem: {v} = problem.with_traceback(None)",
    "{v}: int = {n}",
    "print(sorted(globals().get('__annotations__', ())))",
    "exec('{v} = {w}')",
    "{v} = eval('[{w}, {n}]')",
    "{v} = globals()['{w}']",
    "__version__ = {n}",
    "def {f}(x=0): return globals().get('__version__'), x",
)
"""Functions: defaults, closures, globals, decorators, generators, attributes."""

CLASSES = (
    "class {K}:\n    n = {n}",
    "class {K}:\n    items = []\n    def add(self, x): self.items.append(x)",
    "class {K}:\n    def __init__(self): self.v = {w}\n    def m(self): return self.v",
    "class {K}({L}): pass",
    "class {K}({L}):\n    def m(self): return [super().m(), {n}]",
    "{v} = {L}()",
    "{v} = [{L}(), {L}]",
    "{i}.n = {n}",
    "{L}.n = {n}",
    "{i}.v = {w}",
    "{v} = {i}.m()",
    "print({i}.n)",
    "{i}.add({w})",
    "{v} = {i}.v",
    "isinstance({w}, {L})",
    "{v} = type({w}) if type({w}).__module__ == '__main__' else None",
    "type({i}) is {L}",
    "del {L}",
    "{v} = {i}.m",
    "{L}.m = lambda self: {n}",
    "import dataclasses\n@dataclasses.dataclass\nclass {K}:\n    n: int = {n}\n"
    "    v: list = dataclasses.field(default_factory=list)\n    def m(self): return self.n",
    "{v} = {L}({n})",
    "import dataclasses; {v} = dataclasses.replace({i}, n={n})",
    "{i} == {L}()",
    "import enum\nclass {K}(enum.Enum):\n    RED = {n}\n    BLUE = 9",
    "{v} = {L}.RED",
    "{w} is {L}.RED, {L}.BLUE",
    "import collections; {K} = collections.namedtuple('{K}', 'n v')",
    "{v} = {L}({n}, {w})",
    "class {K}:\n    made = 0\n    def __init__(self, n={n}):\n        type(self).made += 1\n"
    "        self.n = n\n    @property\n    def v(self): return [self.n, {w}]\n"
    "    @classmethod\n    def m(cls): return cls.made\n    @staticmethod\n    def s(x): return x",
    "{v} = {L}.m()",
    "{v} = {i}.s({n})",
    "class {K}:\n    def __enter__(self):\n        print('in')\n        return self\n"
    "    def __exit__(self, *why):\n        {l}.append({n})",
    "with {L}() as {v}: pass",
    "class {K}:\n    def __repr__(self): return '{K}{n}'\n    def __eq__(self, o): return True\n"
    "    def __hash__(self): return {n}",
    "class {K}:\n    def __iter__(self): return iter([{n}, {w}])",
    "{v} = list({i})",
    "class {K}:\n    __slots__ = ('n', 'v')\n    def __init__(self): self.n = {n}",
    "class {K}:\n    class Inner:\n        n = {n}\n    def m(self): return self.Inner()",
    "class {K}:\n    def __init_subclass__(cls): {l}.append(cls.__name__)",
    "setattr({i}, 'n', [{w}])",
    "class {K}(list):\n    def append(self, x): super().append([x, {n}])",
    "class {K}(dict):\n    def __setitem__(self, k, v): super().__setitem__(k, [v, {n}])",
    "{i}['k'] = {n}",
    "{i}.append({n})",
    "class {K}(Exception):\n    def __init__(self, n={n}):\n"
    "        super().__init__(f'code {{n}}')\n        self.n = n",
    "class {K}:\n    def __new__(cls, *a):\n        made = super().__new__(cls)\n"
    "        made.n = [{n}, *a]\n        return made",
    "class {K}(float):\n    def __new__(cls, n={n}): return super().__new__(cls, n * 2)",
    "class {K}:\n    def __getattr__(self, name):\n"
    "        if name[:1] == '_': raise AttributeError(name)\n        return {n}",
    "import abc\nclass {K}(abc.ABC):\n    n = {n}",
    "getattr({L}, 'register', id)(list)",
    "class {K}:\n    ids = iter(range(9))\n    def __init__(self): self.n = next(self.ids)",
    "import functools\nclass {K}:\n    n = {n}\n    @functools.lru_cache\n"
    "    def m(self):\n        print('m')\n        return {n}",
    "import functools\nclass {K}:\n    @functools.cached_property\n    def n(self): return [{n}]",
    "{v} = [x for x in ({L}(), {L}) if isinstance(x, {L})]",
    "vars({i}).get('n')",
)
"""Classes: inheritance, dataclasses, enumerations, named tuples, descriptors."""

FILES = (
    "with open('{p}', 'w') as file: file.write(str({w})[:9])",
    "with open('{p}', 'a') as file: file.write('{n}')\ndel file",
    "with open('{p}') as file: {v} = file.read()\ndel file",
    "import pathlib; pathlib.Path('{p}').write_text('{n}')",
    "import pathlib; {v} = pathlib.Path('{p}').read_text()",
    "import os; os.remove('{p}')",
    "import os; {v} = sorted(os.listdir())",
    "import os; os.makedirs('d', exist_ok=True)",
)
"""Small files in the notebook's folder."""

MODULES = {
    "mod.py": "import helper\nn = 0\nitems = []\nrate = {'k': 1}\n"
    "class Box:\n    made = []\n    def __init__(self, v=0):\n        self.v = v\n"
    "        Box.made.append(v)\n"
    "def bump(x=1):\n    global n\n    n += x\n    return n\n"
    "def keep(x, seen=[]):\n    seen.append(x)\n    return len(seen)\n"
    "def register(f):\n    items.append(f)\n    return f\n"
    "def call(x): return [f(x) if callable(f) else f for f in items]\n"
    "def through(x): return helper.put(x)\n",
    "helper.py": "store = {}\nstream = (i * i for i in range(100))\n"
    "def put(x):\n    store[len(store)] = x\n    return len(store)\n"
    "def draw(): return next(stream)\n",
}
"""Local modules with state, for notebooks that use `PLACES`."""


def write_modules(folder: Path) -> None:
    """Put `MODULES` into a notebook's folder."""
    for name, text in MODULES.items():
        (folder / name).write_text(text)


PLACES = (
    "import mod; {v} = mod.bump({n})",
    "import mod; mod.n = {n}",
    "import mod; {v} = mod.items",
    "import mod; mod.items.append({w})",
    "import mod; mod.rate['k'] = {n}; {v} = mod.rate",
    "import mod; print(mod.n, mod.rate)",
    "from mod import bump, keep; {v} = keep({n})",
    "import mod; {v} = mod.Box({w})",
    "import mod; print(len(mod.Box.made))",
    "import mod; mod.Box.made = [{n}]",
    "import mod\n@mod.register\ndef {f}(x): return [x, {n}]",
    "import mod; mod.register({h})",
    "import mod; print(str(mod.call({n}))[:30])",
    "import mod; {v} = mod.through({n})",
    "import helper; print(sorted(helper.store))",
    "import helper; {v} = helper.draw()",
    "import mod, importlib; importlib.reload(mod); print(mod.n)",
    "import mod; mod.extra = {w}",
    "import mod; {v} = getattr(mod, 'extra', {n})",
    "import mod; mod.bump = lambda x=1: {n}",
    "import logging\nclass {K}(logging.Handler):\n"
    "    def emit(self, r): {l}.append(r.getMessage())\nlogging.getLogger('t').addHandler({K}())",
    "import logging; logging.getLogger('t').warning('w%s', {n})",
    "import logging; logging.getLogger('t').setLevel({n}0)",
    "import logging; logging.getLogger('t').info('i')",
    "import logging; print(logging.getLogger('t').isEnabledFor(20))",
    "class {K}:\n    def __del__(self): print('end', {n})",
)
"""State outside the namespace: of modules, of logging, of objects that end."""

ODD = (
    "{v} = {{'one', 'two', str({n})}}",
    "{v} = ''.join({w}) if isinstance({w}, set) else list({w})",
    "{v} = set(map(str, range({n} + 3))); {v}.discard('1')",
    "print(list({w})) if isinstance({w}, (set, frozenset, dict)) else print('no')",
    "import itertools; {v} = itertools.islice(itertools.count({n}), 5)",
    "import itertools; {v} = itertools.chain([{n}], [{m}, 4])",
    "{v} = zip([1, {n}], 'ab'); next({v})",
    "{v} = enumerate({l})",
    "{v} = reversed([{n}, {m}, 1])",
    "{v} = {t}",
    "print(list({t})[:5])",
    "import collections; {v} = collections.Counter([{n}, {m}, 1])",
    "import collections; {v} = collections.OrderedDict(k={w})",
    "import heapq; {v} = [3, {n}, 1]; heapq.heapify({v})",
    "import functools; {v} = functools.partial(max, {n})",
    "import re; {v} = re.compile('{n}+'); print({v}.pattern)",
    "import io; {v} = io.StringIO('a{n}b'); {v}.read(1)",
    "print({w}.getvalue(), {w}.tell())",
    "import datetime; {v} = datetime.date(2024, 1, {n} + 1)",
    "import decimal; {v} = decimal.Decimal({n}) / 3",
    "import fractions; {v} = fractions.Fraction({n}, 3)",
    "import random; {v} = random.Random({n})",
    "{v} = {w}.random()",
    "{v} = memoryview(bytearray(b'abc')); {v}[0] = {n}",
    "import array; {v} = array.array('i', [{n}, 2])",
    "import weakref; {v} = weakref.ref({i})",
    "print({w}() is None)",
    "import types; {v} = types.SimpleNamespace(n={n}, v={w})",
    "import types; {v} = types.MappingProxyType({k})",
    "{v} = object()",
    "{v} = [float('nan')]; {v}.append({v}[0]); print({v}[0] in {v})",
    "{v} = 2 ** (60 + {n})",
    "import threading; {v} = threading.Lock()",
    "import contextlib\n@contextlib.contextmanager\ndef {f}(x=0):\n    print('in')\n    yield x\n"
    "    print('out')",
    "with {h}({n}) as {v}: pass",
    "{v} = ValueError({n}, {w})",
    "try:\n    raise KeyError({n})\nexcept KeyError as e:\n    {v} = e",
    "import operator; {v} = operator.itemgetter({n})",
    "import functools\n@functools.singledispatch\ndef {f}(x): return 'any'\n"
    "@{f}.register\ndef _f(x: int): return x + {n}",
    "{v} = [{w}]; {v}.append({v})",
    "x: int = {n}; print(sorted(globals().get('__annotations__', ())))",
    "{v} = property(lambda self: {n})",
    "{v} = slice({n}, None), range({m}), ..., NotImplemented",
)
"""Types of the standard library, iterators, sets of texts, sentinels."""
