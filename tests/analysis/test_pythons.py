"""Encodings under the other Pythons of this computer."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from nbrewind_analysis.source import source_encoding

ROOT = Path(__file__).resolve().parents[2]

SOURCES = [
    "x = 1; y = (1, True, 1.0, -0.0, 1j, b'a', 'é', ..., None, 2**70)",
    "f'{a!r:>{w}} b' 'c' f'{d=} {{e}}' f''",
    "f'{x:%Y-%m-%d}' + rf'\\d{x}'",
    "def f(a, /, b: int = 1, *c, d=2, **e) -> str:\n    'doc'\n    return a[1:2, ...]",
    "class A(B, metaclass=M):\n    x: int\n    def m(self): return super().m()",
    "async def f():\n    async with a as b, c: return [i async for i in d if await i]",
    "match p:\n    case {'a': [1, *r], **k} | A(x=-1.5): pass\n    case None: pass",
    "try: a\nexcept* E as e: raise F from e\nfinally: del (a, [b, c])",
    "lambda *a, k=1: (yield)",
    "with (open(a) as b, c): pass\nfrom . import x as y, z\nglobal g\n{**a, 1: 2}",
    "while (n := f()) and not -n ** 2 <= 3 < ~n: continue\nelse: assert a, b",
]

PROGRAM = """
import ast, hashlib, sys, types
# The hash of the model may not be installed there; the encodings do not need it.
sys.modules["blake3"] = types.SimpleNamespace(blake3=hashlib.sha256)
sys.path[:0] = [{root!r}, {root!r} + "/analysis"]
from nbrewind.state.code import code_encoding, code_uses
from nbrewind_analysis.source import source_encoding
for source in {sources!r}:
    tree = ast.parse(source)
    print(hashlib.sha256(source_encoding(tree, False, 0)).hexdigest())
for one, two in {layouts!r}:
    one, two = compile(one, "a", "exec"), compile(two, "b", "exec")
    assert code_encoding(one) == code_encoding(two), (one, two)
uses = code_uses(compile({code!r}, "a", "exec"))
assert uses.loads >= {{"x", "y", "range", "z", "sup", "super"}}, uses
assert uses.stores == {{"f", "A", "s"}}, uses
assert uses.attributes >= {{"attr", "call", "deep"}}, uses
assert uses.imports == {{"m", "m.n"}}, uses
"""

LAYOUTS = [
    ("def f(a, b): return a, b", "# c\n\ndef f(a, b):\n    return (a,\n      b)"),
    (
        "def f(a):\n    while a: pass\n    return 1",
        "def f(a):\n    while a:\n        pass\n    return 1",
    ),
    (
        "def f(a):\n    for i in a:\n        if i: continue\n        g(i)",
        "def f(a):\n    for i in a:\n        # c\n        if i:\n          continue\n        g(i)",
    ),
    ("def f(a):\n    b = a; c = b; return c", "def f(a):\n    b = a\n    c = b\n    return c"),
]

CODE = (
    "def f(a):\n    global s\n    s = [x.attr for i in range(a)]\n    from m import n\n"
    "    return y.call(z)\nclass A:\n    def m(self): return super().deep(sup)"
)


def other_pythons() -> list[str]:
    """Interpreters of other minor versions that this code supports."""
    found: list[str] = []
    for minor in (11, 12, 13):
        if minor == sys.version_info.minor:
            continue
        home = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
        candidates = [shutil.which(f"python3.{minor}"), *home.glob(f"3.{minor}.*/bin/python")]
        for candidate in filter(None, candidates):
            # A shim without a version behind it is no interpreter.
            if subprocess.run([candidate, "-c", ""], capture_output=True).returncode == 0:
                found.append(str(candidate))
                break
    return found


def test_source_digests_and_code_analysis_hold_under_the_other_pythons() -> None:
    import ast

    here = [
        hashlib.sha256(source_encoding(ast.parse(source), False, 0)).hexdigest()
        for source in SOURCES
    ]
    program = PROGRAM.format(root=str(ROOT), sources=SOURCES, layouts=LAYOUTS, code=CODE)
    for python in other_pythons():
        run = subprocess.run([python, "-I", "-c", program], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        assert run.stdout.split() == here, python
