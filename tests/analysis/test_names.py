"""What a cell reads and stores, case by case."""

from __future__ import annotations

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from nbrewind_analysis.cells import analyse_cell
from nbrewind_analysis.names import CellNames

transform = TransformerManager().transform_cell

BUILTINS = {"print", "range", "len", "sorted", "open", "list", "eval", "exec", "setattr", "super"}


def names_of(source: str) -> CellNames:
    cell = analyse_cell(source, transform)
    assert cell.syntax_error is None, cell.syntax_error
    return cell.names


READS = [
    # Order and paths.
    ("x = 1\nx", ""),
    ("x += 1", "x"),
    ("y = x\nx = 1", "x"),
    ("if c: x = 1\nx", "c x"),
    ("if c: x = 1\nelse: x = 2\nx", "c"),
    ("if c: x = 1\nelse: raise E\nx", "c E"),
    ("for i in a: y = i\ny", "a y"),
    ("for i in range(3): y = i\ny", ""),
    ("for i in [1, 2]:\n    if c: break\n    y = i\ny", "c y"),
    ("while True:\n    x = 1\n    if x: break\nx", ""),
    ("while c: x = 1\nx", "c x"),
    ("try:\n    x = f()\nexcept E:\n    pass\nx", "f E x"),
    ("try:\n    import a\nexcept ImportError:\n    a = None\na", "ImportError"),
    ("try:\n    f()\nfinally:\n    x = 1\nx", "f"),
    ("with open(p) as h: d = h.read()\nd", "p"),
    ("with suppress(E): d = f()\nd", "suppress E f d"),
    ("match p:\n    case {'a': b, **r}: c = b\n    case _: c = 1\nc", "p"),
    ("match p:\n    case [b]: pass\nb", "p b"),
    ("(x := f()) and (y := x)\ny", "f y"),
    ("{1: (y := 5), y: 2}", ""),
    ("{1: y, (y := 1): 2}", "y"),
    ("[i for i in a if i in z]", "a z"),
    ("[y for i in a if (y := i)]\ny", "a y"),
    ("del x", ""),
    ("del x\nx", ""),
    ("x: int = 1", "int __annotations__"),
    ("from __future__ import annotations\nx: T = 1", "__annotations__"),
    ("def f():\n    x: int = 1\nf()\nclass C:\n    y: str\na.b: int = 1", "a int str"),
    ("f'{a:{w}} {b!r}'", "a b w"),
    ("lst[i].attr = v", "i lst v"),
    ("a.b += c", "a c"),
    ("import a.b\na.b.c", ""),
    # Functions count when they may run.
    ("def f(): return x", ""),
    ("def f(): return x\nf()", "x"),
    ("def f(): return x\ng = f", "x"),
    ("def f(): return x\nx = 1\nf()", ""),
    ("def f(): return g()\ndef g(): return x\nf()", "x"),
    ("def f(): g()\nh = f\ndef g(): return x\nh()", "g x"),
    ("def f(a=x, *, b=y): pass", "x y"),
    ("def f(a: T) -> R: pass", "T R"),
    ("@dec\ndef f(): return x", "dec x"),
    ("@lru_cache\ndef f(): return x", "lru_cache"),
    ("f = lambda x: x + y", ""),
    ("f = lambda x: x + y\nf(1)", "y"),
    ("sorted(q, key=lambda t: w)", "q w"),
    ("d = {'k': lambda: w}", "w"),
    ("def f():\n    x = 1\n    return lambda: x + y\nf()", "y"),
    ("def f():\n    global n\n    n += 1\nf()", "n"),
    ("def f(x):\n    def g(): return x + y\n    return g\nf(1)", "y"),
    ("def f():\n    return [k for k in x]\nf()", "x"),
    # Classes run their body, and their methods when used.
    ("class A:\n    k = 1\n    z = k\n    def m(self): return y", ""),
    ("class A:\n    z = k\n    k = 1", "k"),
    ("class A:\n    def m(self): return y\nA()", "y"),
    ("class A(Base):\n    def m(self): return y", "Base y"),
    ("class A(nn.Module):\n    def m(self): return y", "nn"),
    ("@dataclass\nclass A:\n    def m(self): return y", "dataclass"),
    ("@register\nclass A:\n    def m(self): return y", "register y"),
    ("class A:\n    k = [1]\n    z = [k for _ in k]", "k"),
    ("class A:\n    def m(self): return __x\nA()", "_A__x"),
    # Texts that are looked up.
    ("df.query('n == @foo')", "df foo n"),
    ("q = 'n == @foo'\ndf.query(q)", "df foo n"),
    ("smf.ols('y ~ x', data=df)", "smf y x df"),
    ("plt.plot(a, label='x')", "plt a"),
    ("model.eval()\nplot('x')", "model plot"),
    ("pd.eval('a + b')", "pd a b"),
    ("eval('a + b')", "a b"),
    ("exec('x = a')\nx", "a x"),
    ("def f(): return eval('a + b')\nf()", "a b"),
    ("duckdb.sql('select * from df')", "duckdb select df"),
    # Magics.
    ("%time x = f(y)", "f y"),
    ("%%time\nx = f(y)\nx", "f y"),
    ("%%time\n# a comment\n!ls {x}\n", "x"),
    ("%%capture cap\nx = f()\ncap", "f cap"),
    ("%timeit -n 3 x = g(y)", "g y"),
    ("%timeit x = g(y)\nx", "g y x"),
    ("%%timeit k = a\nk + b", "a b"),
    ("%prun -s cumtime f(x)", "f x"),
    ("%lprun -f helper f(x)", "helper f x"),
    ("!touch $a {b + 1} c", "a b"),
    ("x = !ls {y}", "y"),
    ("%matplotlib inline", ""),
    ("%unknown foo bar", "foo bar"),
    ("%%bash\necho $a", "a"),
    ("%%writefile out.py\nx = {y}", ""),
    ("?foo", "foo"),
]


@pytest.mark.parametrize(("source", "expected"), READS)
def test_reads(source: str, expected: str) -> None:
    assert names_of(source).reads - BUILTINS == set(expected.split()) - BUILTINS


STORES = [
    # Source, may store, stores for certain, may delete.
    ("x = 1", "x", "x", ""),
    ("if c: x = 1", "x", "", ""),
    ("for i in a: pass", "i", "", ""),
    ("for i in range(2): y = i", "i y", "i y", ""),
    ("import a.b, c as d", "a d", "a d", ""),
    ("from a import b as c", "c", "c", ""),
    ("try: f()\nexcept E as e: pass", "e", "", "e"),
    ("with a as (b, [c, *d]): pass", "b c d", "b c d", ""),
    ("x = 1\ndel x", "x", "", "x"),
    ("del x\nx = 1", "x", "x", "x"),
    ("def f(): pass\nclass A: k = 1", "f A", "f A", ""),
    ("def f():\n    global x\n    x = 1", "f", "f", ""),
    ("def f():\n    global x\n    x = 1\nf()", "f x", "f", ""),
    ("[y := 1, (z := 2) if c else 0]", "y z", "y", ""),
    ("match p:\n    case [b, *r]: pass\n    case A(k=v) as w: pass", "b r v w", "", ""),
    ("%time x = 1", "x", "x", ""),
    ("%%capture out\nx = 1", "out x", "out x", ""),
    ("%timeit x = 1", "", "", ""),
    ("x = !ls", "x", "x", ""),
    ("%%R -i a -o df,other\ncode", "df other", "df other", ""),
    ("exec('x = 1')", "x", "", ""),
    ("raise E\nx = 1", "x", "", ""),
    ("class A:\n    global x\n    x = 1\n    y = 2", "A x", "A x", ""),
    ("x.a = 1; y[0] = 2", "", "", ""),
]


@pytest.mark.parametrize(("source", "stores", "definite", "deletes"), STORES)
def test_stores_and_deletes(source: str, stores: str, definite: str, deletes: str) -> None:
    names = names_of(source)
    assert names.stores == set(stores.split())
    assert names.definite_stores == set(definite.split())
    assert names.deletes == set(deletes.split())


def test_definite_deletes() -> None:
    assert names_of("del x").definite_deletes == {"x"}
    assert names_of("if c: del x").definite_deletes == set()
    assert names_of("del x\nx = 1").definite_deletes == set()
    assert names_of("if c: del x\nelse: x = 1").definite_deletes == set()


@pytest.mark.parametrize(
    "source",
    [
        "globals()['x']",
        "f(globals)",
        "locals()",
        "vars()",
        "dir()",
        "eval(s)",
        "exec(open('a.py').read())",
        "g = eval",
        "get_ipython().user_ns['x']",
        "ip = get_ipython()",
        "shell.user_ns",
        "import __main__",
        "from __main__ import x",
        "importlib.import_module('__main__')",
        "sys.modules['__main__']",
        "def f(): return globals()\nf()",
        "frame.f_globals",
        "%run other.py",
        "%who",
        "%store x",
        "%reset -f",
        "get_ipython().run_line_magic(name, 'x')",
    ],
)
def test_code_that_reaches_every_name_is_dynamic(source: str) -> None:
    assert names_of(source).dynamic


@pytest.mark.parametrize(
    "source",
    [
        "def f(): return globals()",
        "def f(): return locals()\nf()",
        "vars(obj)",
        "if __name__ == '__main__': f()",
        "if '__main__' == __name__: f()",
        "eval('1 + x')",
        "get_ipython().config",
        "%matplotlib inline",
        "%time f()",
        "!ls",
        "df.query(q)",
    ],
)
def test_other_code_is_not_dynamic(source: str) -> None:
    assert not names_of(source).dynamic


@pytest.mark.parametrize(
    ("source", "results"),
    [("_ + 1", "_"), ("__", "__"), ("_3", "_3"), ("Out[3]", "Out"), ("_oh", "_oh")],
)
def test_results_of_earlier_cells_are_no_variables(source: str, results: str) -> None:
    names = names_of(source)
    assert names.results == {results}
    assert not names.reads


def test_an_underscore_that_the_cell_binds_is_its_own() -> None:
    names = names_of("for _ in range(3): print(_)")
    assert not names.results
    assert names.stores == {"_"}


@pytest.mark.parametrize(
    "source",
    [
        "In[1]",
        "_i",
        "_i3",
        "_ih",
        "import inspect\ninspect.getsource(f)",
        "from inspect import getsourcelines",
        "import traceback",
        "import linecache as lc",
        "%history",
    ],
)
def test_code_that_sees_its_text(source: str) -> None:
    assert names_of(source).raw_text


def test_code_that_does_not_see_its_text() -> None:
    assert not names_of("i_3 = In2\nx.source()").raw_text


ATTRIBUTE_STORES = [
    ("pd.DataFrame.foo = f", ("pd", "DataFrame.foo")),
    ("pd.options.display.width = 80", ("pd", "options.display.width")),
    ("plt.rcParams['x'] = 1", ("plt", "rcParams")),
    ("os.environ['A'] = 'b'", ("os", "environ")),
    ("df['a'] = 1", ("df", "")),
    ("df.loc[0, 'x'] += 1", ("df", "loc")),
    ("del a.b.c", ("a", "b.c")),
    ("setattr(pd.DataFrame, 'foo', f)", ("pd", "DataFrame.foo")),
    ("for a.b in range(3): pass", ("a", "b")),
    ("a.b[0].c = 1", ("a", "b")),
    ("def f(): np.x = 1\nf()", ("np", "x")),
]


@pytest.mark.parametrize(("source", "expected"), ATTRIBUTE_STORES)
def test_attribute_stores(source: str, expected: tuple[str, str]) -> None:
    assert names_of(source).attribute_stores == {expected}


def test_attribute_stores_on_locals_or_of_idle_functions_do_not_count() -> None:
    assert not names_of("def f(x): x.a = 1\nf(1)").attribute_stores
    assert not names_of("def f(): np.x = 1").attribute_stores


FIRST_CALLS = [
    ("np.random.seed(0); x = np.random.rand()", ("np.random.seed",)),
    ("import numpy as np\nSEED = 4\nnp.random.seed(SEED)\nrandom.seed(1)\nf()\ntorch.seed(1)",
     ("np.random.seed", "random.seed")),
    ("x = np.random.rand()\nnp.random.seed(0)", ()),
    ("np.random.seed()", ()),
    ("np.random.seed(None)", ()),
    ("np.random.seed(SEED + 1)", ("np.random.seed",)),
    ("random.seed(d['seed']); random.setstate(o.state)", ("random.seed", "random.setstate")),
    ("np.random.seed(f(n))", ()),
    ("np.random.seed(*n)", ()),
    ("'''doc'''\n%matplotlib inline\nrandom.seed(1)", ("random.seed",)),
    ("for i in a: pass\nrandom.seed(1)", ()),
    ("def f(): g()\nrandom.seed(1)", ("random.seed",)),
    ("def f(x=g()): pass\nrandom.seed(1)", ()),
    ("def f(x: g() = 1): pass\nrandom.seed(1)", ()),
]  # fmt: skip


@pytest.mark.parametrize(("source", "expected"), FIRST_CALLS)
def test_first_calls(source: str, expected: tuple[str, ...]) -> None:
    assert names_of(source).first_calls == expected


def test_mentions_count_wherever_they_stand() -> None:
    names = names_of(
        "import a.b\ndef f():\n    from c import d\n    return x.attr\n"
        "importlib.import_module('e.f')\ngetattr(y, 'hidden')\nopen('data.csv')\n%time z.deep('t')"
    )
    assert names.imports == {"a.b", "e.f"}
    assert {"attr", "hidden", "deep", "d"} <= names.attributes
    assert {"data.csv", "t"} <= names.strings


def test_a_function_imports_where_it_may_run() -> None:
    source = "def f():\n    from c import d\n"
    assert not names_of(source).imports
    assert names_of(source).latent["f"].imports == {"c", "c.d"}
    assert names_of(source + "f()").imports == {"c", "c.d"}


def test_docstrings_are_no_texts() -> None:
    assert not names_of("def f():\n    'a b c'").strings


@pytest.mark.parametrize(
    "source", ["f()", "import a", "for i in a: pass", "with a: pass", "[i for i in a]", "a.b = 1",
               "a[0] = 1", "@d\ndef f(): pass", "await x", "%time x"]
)  # fmt: skip
def test_code_that_may_run_other_code_calls(source: str) -> None:
    assert names_of(source).calls


@pytest.mark.parametrize("source", ["x = 1", "x = y + z", "def f(): return g()", "x.a", "del x"])
def test_code_that_calls_nothing(source: str) -> None:
    assert not names_of(source).calls


def test_star_import() -> None:
    assert names_of("from numpy import *").star_import


def test_latent_functions_tell_what_they_do_when_called_from_elsewhere() -> None:
    names = names_of("def f():\n    global y\n    y = x\nclass A:\n    def m(self): return z")
    assert names.latent["f"].loads == {"x"}
    assert names.latent["f"].stores == {"y"}
    assert names.latent["A"].loads == {"z"}
    assert not names.reads


def test_many_functions_that_call_each_other_stay_cheap() -> None:
    count = 60
    lines = [
        f"def f{i}(): return {' + '.join(f'f{j}()' for j in range(i + 1, count)) or 'x'}"
        for i in range(count)
    ]
    assert "x" in names_of("\n".join([*lines, "f0()"])).reads
