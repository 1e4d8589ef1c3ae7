"""Code that is looked up, made or run by text: exec, eval, compile, getattr, globals, imports."""

from __future__ import annotations

import pytest

from .code_shape import Shape, shape_tests

pytestmark = pytest.mark.filterwarnings("ignore")

SHAPES = [
    Shape(
        "exec of a known text",
        """
n = 1
--
exec('m = n + 1')
--
m
--
k = 1
--
m + k
""",
        {0: ("1", "2")},
        runs=[0, 1, 2, 4],
    ),
    Shape(
        "exec of a text in a variable",
        """
code = 'def f(x): return x + 1'
--
exec(code)
--
f(1)
--
f(2), f.__globals__ is globals()
""",
        {0: ("x + 1", "x + 2")},
        runs=[0, 1, 2, 3],
    ),
    Shape(
        "exec in a namespace of its own",
        """
space = {}
exec('def f(x): return x * K\\nK = 3', space)
--
space['K'] = 4
--
space['f'](2)
--
space['f'](3), sorted(k for k in space if k != '__builtins__')
""",
        {1: ("4", "5")},
        runs=[0, 1, 2, 3],
        needs=[0, 1, 2],
    ),
    Shape(
        "eval with names of the notebook",
        """
a = 2
--
expr = 'a * b'
--
b = 3
--
eval(expr)
--
eval('a + 1'), eval(expr, {'a': 1, 'b': 1})
""",
        {2: ("3", "4")},
        runs=[2, 3, 4],
    ),
    Shape(
        "compile and run",
        """
code = compile('x ** p', '<formula>', 'eval')
p = 2
--
[eval(code, {'x': x, 'p': p}) for x in range(3)]
--
code.co_names, eval(code, {'x': 3, 'p': p})
""",
        {0: ("p = 2", "p = 3")},
        runs=[0, 1, 2],
    ),
    Shape(
        "functions found by name",
        """
def op_add(a, b): return a + b
def op_mul(a, b): return a * b
--
def call(name, *args): return globals()['op_' + name](*args)
--
call('add', 2, 3)
--
call('mul', 2, 3)
""",
        {0: ("a * b", "a * b * 2")},
        runs=[0, 2, 3],
    ),
    Shape(
        "attributes by name",
        """
class C:
    def on_start(self): return 'start'
    def on_stop(self): return 'stop'
c = C()
--
event = 'start'
--
getattr(c, 'on_' + event)()
--
setattr(c, 'note', [event]); getattr(c, 'note'), hasattr(c, 'on_end')
""",
        {1: ("start", "stop")},
        runs=[1, 2, 3],
    ),
    Shape(
        "globals() as a dictionary",
        """
for i in range(3): globals()[f'v{i}'] = i * scale if 'scale' in globals() else i
--
v2
--
scale = 10
--
sorted(n for n in globals() if n.startswith('v') and n[1:].isdigit())
--
v0 + v1 + v2
""",
        {0: ("else i", "else i + 1")},
        runs=[0, 1, 3, 4],
    ),
    Shape(
        "vars() and dir()",
        """
x = 1
--
def f():
    y = x
    return vars(), sorted(locals())
--
f()
--
'x' in dir(), f()[1]
""",
        {0: ("1", "2")},
        runs=[0, 2, 3],
    ),
    Shape(
        "string.Template, format_map and percent",
        """
import string
name, n = 'a', 3
--
string.Template('$name: $n').substitute(name=name, n=n)
--
'{name}-{n}'.format_map(vars()), '%(name)s' % {'name': name}
--
k = 1
--
'{name!r}'.format(**globals()), k
""",
        {0: ("'a'", "'b'")},
        runs=[0, 1, 2, 4],
    ),
    Shape(
        "imports inside conditions and loops",
        """
import importlib
mods = {m: importlib.import_module(m) for m in ('math', 'json')}
if True:
    import textwrap as tw
--
mods['math'].floor(2.5), tw.dedent(' a')
--
mods['json'].dumps([mods['math'].ceil(1.2)])
""",
        {0: ("if True", "if 1")},
        runs=[0],
    ),
    Shape(
        "deleted and bound again",
        """
x = [1]; y = x
--
del x
--
x = [2]
--
y, x, x is y
--
del y; 'y' in globals(), x
""",
        {2: ("[2]", "[3]")},
        runs=[2, 3, 4],
    ),
    Shape(
        "type() with methods by name",
        """
def make(name, **methods): return type(name, (), methods)
--
Dog = make('Dog', speak=lambda self: 'wuff')
--
d = Dog()
--
d.speak()
--
d.speak(), type(d).__name__, isinstance(d, Dog)
""",
        {1: ("wuff", "woof")},
        runs=[1, 2, 3, 4],
    ),
    Shape(
        "operator on the module itself",
        """
import sys
me = sys.modules[__name__]
--
me.flag = 1
--
flag
--
setattr(sys.modules[__name__], 'other', flag + 1)
--
other, me.flag
""",
        {1: ("1", "2")},
        runs=[1, 2, 3, 4],
        needs=[3],
    ),
]
"""Code and names given as text."""

(
    test_unchanged_code_runs_nothing,
    test_an_edit_runs_its_dependents_only,
    test_restored_code_is_as_it_was,
) = shape_tests(SHAPES)
