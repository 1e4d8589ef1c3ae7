"""Statements, expressions and names as notebooks use them, in and out of functions."""

from __future__ import annotations

import pytest

from .code_shape import Shape, shape_tests

pytestmark = pytest.mark.filterwarnings("ignore")

SHAPES = [
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


(
    test_unchanged_code_runs_nothing,
    test_an_edit_runs_its_dependents_only,
    test_restored_code_is_as_it_was,
) = shape_tests(SHAPES)
