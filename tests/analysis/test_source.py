"""The source digest: formatting never changes it, meaning always does."""

from __future__ import annotations

import ast
import random
import tokenize
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from IPython.core.inputtransformer2 import TransformerManager

from nbrewind_analysis.cells import analyse_cell
from nbrewind_analysis.source import source_encoding

transform = TransformerManager().transform_cell


def digest_of(source: str, flags: int = 0) -> str:
    return analyse_cell(source, transform, flags).digest


SAME = [
    ("x = 1", "# why\n\nx=1   # because\n\n"),
    ("x = (a + b)", "x = a + \\\n    b"),
    ('x = "a"', "x = 'a'"),
    ('x = "ab"', "x = 'a' 'b'"),
    ("x = 0x10", "x = 16"),
    ("x = 1_000", "x = 1000"),
    ("f(a, b)", "f(\n    a,\n    b,\n)"),
    ("f(a)[0]", "(f)(a)[(0)]"),
    ("del (a, b)", "del a, b"),
    ("x = 1; y = 2", "x = 1\ny = 2"),
    ("if a: b", "if a:\n        b"),
    ("class A: pass", "class A():\n    pass"),
    ("u'a'", "'a'"),
    ("f'{a}b' 'c'", "f'{a}bc'"),
    ("f'{a:}'", "f'{a}'"),
    ("x = 1 # type: int", "x = 1"),
    ("f();", "f() ;  # quiet"),
    ("%%time\nx = 1", "%%time\n# comment\nx  =  1\n"),
    ("%time x", "%time x  "),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_formatting_does_not_change_the_digest(first: str, second: str) -> None:
    assert digest_of(first) == digest_of(second)


DIFFERENT = [
    ("x = 1", "x = True"),
    ("x = 1", "x = 1.0"),
    ("x = 0.0", "x = -0.0"),
    ("x = 1j", "x = 1.0"),
    ("x = 'a'", "x = b'a'"),
    ("x = None", "x = ..."),
    ("x = [1]", "x = (1,)"),
    ("x = 1180591620717411303424", "x = 1180591620717411303425"),
    ("x = 1e309", "x = 1e308"),
    ("x = 'a'", "x = f'a'"),
    ("x = y", "x = z"),
    ("x = 1", "y = 1"),
    ("f()", "f();"),
    ("f(a, b)", "f(b, a)"),
    ("a + b", "a - b"),
    ("a[1:]", "a[:1]"),
    ("a < b", "a <= b"),
    ("f'{a!r}'", "f'{a}'"),
    ("{**a}", "{a: a}"),
    ("def f(): 'doc'", "def f(): 'other'"),
    ("def f(a, /): 1", "def f(a): 1"),
    ("def f(*, a): 1", "def f(*a): 1"),
    ("def f(a, b=1): 1", "def f(a=1, b=1): 1"),
    ("async def f(): 1", "def f(): 1"),
    ("ll.pop(1)", "ll.pop(2)"),
    ("x = a, b", "x = a; b"),
    ("try: f()\nfinally: g()", "try: f()\nexcept: g()"),
    ("%%time\nx = 1", "%%time\nx = 2"),
    ("%%time\nx", "%%time\nx;"),
    ("%%bash\nls", "%%bash\nls # x"),
    ("from .a import b", "from a import b"),
    ("x: int", "x: float"),
    ("(x): int = 1", "x: int = 1"),
]


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_a_change_of_meaning_changes_the_digest(first: str, second: str) -> None:
    assert digest_of(first) != digest_of(second)


def test_future_features_in_force_count() -> None:
    import __future__

    annotations = __future__.annotations.compiler_flag
    assert digest_of("x: T = 1", annotations) != digest_of("x: T = 1")
    assert digest_of("x: T = 1", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT) == digest_of("x: T = 1")


CORPUS = [
    path.read_text("utf-8") for path in sorted(Path(ast.__file__).parent.glob("*.py"))[:120:5]
]


@pytest.mark.parametrize("source", CORPUS, ids=range(len(CORPUS)))
def test_unparsing_and_parsing_again_keeps_the_digest(source: str) -> None:
    tree = ast.parse(source)
    again = ast.parse(ast.unparse(tree))
    assert source_encoding(tree, False, 0) == source_encoding(again, False, 0)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(CORPUS), st.integers(0, 2**32))
def test_comments_and_blank_lines_keep_the_digest(source: str, seed: int) -> None:
    rng = random.Random(seed)
    ends = {
        token.end[0]
        for token in tokenize.generate_tokens(StringIO(source).readline)
        if token.type in (tokenize.NEWLINE, tokenize.NL)
    }
    lines: list[str] = []
    for number, line in enumerate(source.splitlines(), 1):
        ends_here = number in ends and not line.endswith("\\")
        lines.append(line + "  # note" if ends_here and rng.random() < 0.2 else line)
        if ends_here and rng.random() < 0.2:
            lines.append(rng.choice(["", "# more", "        # deeper"]))
    changed = ast.parse("\n".join(lines))
    assert source_encoding(changed, False, 0) == source_encoding(ast.parse(source), False, 0)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(CORPUS), st.randoms(use_true_random=False))
def test_any_other_constant_or_name_changes_the_digest(source: str, rng: random.Random) -> None:
    tree = ast.parse(source)
    before = source_encoding(tree, False, 0)
    spots = [n for n in ast.walk(tree) if isinstance(n, ast.Name | ast.Constant)]
    spot = rng.choice(spots)
    if isinstance(spot, ast.Name):
        spot.id += "_"
    else:
        spot.value = [spot.value] and f"{spot.value!r} changed"
    assert source_encoding(tree, False, 0) != before
