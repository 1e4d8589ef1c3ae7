"""Digest and uses of code objects."""

from __future__ import annotations

import types

import pytest

from nbrewind.state.code import CodeUses, code_digest, code_uses


def code_of(source: str) -> types.CodeType:
    return compile(source, "<cell>", "exec")


def digest_of(source: str) -> str:
    return code_digest(code_of(source))


FUNCTION = """
def f(a, b=2, *rest, k=None):
    for i in range(a):
        if i > b: continue
        try:
            yield [j for j in rest if j], {"x", "y", 3}
        except ValueError as e:
            raise KeyError from e
    return lambda: k
"""


@pytest.mark.parametrize(
    "changed",
    [
        "\n\n# a comment\n" + FUNCTION,
        FUNCTION.replace("    for", "    # why\n\n    for"),
        FUNCTION.replace(
            "if i > b: continue", "if i > b:\n            # skip\n            continue"
        ),
        FUNCTION.replace("range(a)", "range(\n        a,\n    )"),
    ],
)
def test_the_place_of_the_text_does_not_change_the_digest(changed: str) -> None:
    assert digest_of(changed) == digest_of(FUNCTION)


def test_the_file_name_does_not_change_the_digest() -> None:
    assert code_digest(compile(FUNCTION, "other.py", "exec")) == digest_of(FUNCTION)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("def f():\n    while a:\n        pass\n    b", "def f():\n    while a: pass\n    b"),
        (
            "def f(a):\n    if a:\n        pass\n    return a",
            "def f(a):\n    if a: pass\n    return a",
        ),
        ("def f(x, y): return x, y", "def f(x, y):\n    return (x,\n        y)"),
        ("def f(x):\n    y = x\n    return y", "def f(x):\n    y = x; return y"),
    ],
)
def test_line_breaks_that_change_the_bytecode_do_not_change_the_digest(
    first: str, second: str
) -> None:
    assert digest_of(first) == digest_of(second)


VALUES = [
    *("1", "True", "1.0", "0.0", "-0.0", "1j", "-1j", "'a'", "b'a'", "'1'", "None", "..."),
    *("()", "(1,)", "(True,)", "((),)", "('a', 'b')", "('ab',)", "2**70", "2**70 + 1"),
    *("1e999", "1e999 - 1e999", "x in {1, True, 3}", "x in {'a', 'b'}"),
]


def test_constants_of_different_kinds_differ() -> None:
    digests = {code_digest(code_of(f"def f(x): return {value}")) for value in VALUES}
    assert len(digests) == len(VALUES)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("def f(): return a", "def f(): return b"),
        ("def f(): return a", "def g(): return a"),
        ("def f(a): return a", "def f(b): return b"),
        ("def f(a): return a", "def f(*a): return a"),
        ("def f(a): return a", "async def f(a): return a"),
        ("def f(a): return a.b", "def f(a): return a.c"),
        ("def f(): return a + b", "def f(): return a - b"),
        (
            "def f():\n    try: a()\n    except E: b()",
            "def f():\n    try: a(); b()\n    except E: pass",
        ),
        ("def f():\n    if a: b()\n    c()", "def f():\n    if a: b(); c()"),
        ("def f():\n    while a: b()", "def f():\n    if a: b()"),
        ("def f():\n    def g(): return 1", "def f():\n    def g(): return 2"),
        ("def f(x): return lambda: x", "def f(x): return lambda: y"),
    ],
)
def test_other_code_has_another_digest(first: str, second: str) -> None:
    assert digest_of(first) != digest_of(second)


def test_frozensets_have_one_digest_whatever_the_hash_seed() -> None:
    code = code_of("x in {'a', 'b', 'c'}")
    constant = next(c for c in code.co_consts if isinstance(c, frozenset))
    for order in (["a", "b", "c"], ["c", "b", "a"]):
        consts = tuple(frozenset(order) if c is constant else c for c in code.co_consts)
        assert code_digest(code.replace(co_consts=consts)) == code_digest(code)


def test_running_code_does_not_change_its_digest() -> None:
    space: dict[str, types.FunctionType] = {}
    exec("def f(n):\n    t = 0\n    for i in range(n): t += i\n    return t", space)
    before = code_digest(space["f"].__code__)
    for _ in range(50):
        space["f"](50)
    code_digest.cache_clear()
    assert code_digest(space["f"].__code__) == before


def uses_of(source: str) -> CodeUses:
    return code_uses(code_of(source))


def test_loads_and_stores_of_nested_code() -> None:
    uses = uses_of(
        "def f(a):\n    global s\n    s = x + a\n    def g():\n        global d\n        del d\n"
        "        return [y for _ in z]\n    return g\n"
    )
    assert uses.loads == {"x", "y", "z"}
    assert uses.stores == {"f", "s", "d"}


def test_attributes_and_modules() -> None:
    uses = uses_of(
        "import a.b as c\nfrom d import e as g, h\nx.load().method(y)\nx.put = 1\ndel x.gone\n"
        "def f():\n    from . import rel\n    super().deep()\n"
    )
    assert uses.imports == {"a.b", "d", "d.e", "d.h", ".", ".rel"}
    assert {"load", "method", "put", "gone", "deep", "e", "h"} <= uses.attributes


def test_names_bound_by_class_bodies_are_no_globals() -> None:
    uses = uses_of("class A:\n    k = 1\n    def m(self): return k2")
    assert uses.stores == {"A"}
    assert uses.loads == {"k2"}


@pytest.mark.parametrize(
    "source",
    [
        "def f(): return globals()",
        "locals()",
        "vars()",
        "def f(s): return eval(s)",
        "def f(s): exec(s, {})",
        "def f(): import __main__",
        "def f(): return sys.modules['__main__']",
        "def f(): return get_ipython()",
        "def f(): return get_ipython().user_ns",
        "def f(): get_ipython().run_line_magic('run', 'a.py')",
        "def f(frame): return frame.f_globals",
    ],
)
def test_code_that_reaches_every_global_is_dynamic(source: str) -> None:
    assert uses_of(source).dynamic


@pytest.mark.parametrize(
    "source",
    [
        "def f(): return locals()",
        "def f(o): return vars(o)",
        "def f(): return eval('a + b')",
        "if __name__ == '__main__': pass\nclass A: pass",
        "def f(): get_ipython().system('ls')",
    ],
)
def test_other_code_is_not_dynamic(source: str) -> None:
    assert not uses_of(source).dynamic


def test_identifiers_in_texts_count_when_code_evaluates_texts() -> None:
    assert {"n", "foo"} <= uses_of("def f(df): return df.query('n == @foo')").loads
    assert {"a", "b"} <= uses_of("def f(): return eval('a + b')").loads
    assert not uses_of("def f(ax): ax.set_title('a b')").loads


def test_docstrings_are_not_looked_up() -> None:
    assert "docword" not in uses_of("def f(df):\n    'docword'\n    return df.query('n')").loads
