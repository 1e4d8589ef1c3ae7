"""Hypothesis strategies for notebooks and edits of them.

Cells are made of statements over few names, so that they alias, mutate, shadow,
redefine and delete each other's values all the time. Many raise; that is wanted.
"""

from __future__ import annotations

from hypothesis import strategies as st

_VALUES = ("a", "b", "c", "d")
_FUNCTIONS = ("f", "g")
_CLASSES = ("C", "D")

_value = st.sampled_from(_VALUES)
_function = st.sampled_from(_FUNCTIONS)
_class = st.sampled_from(_CLASSES)
_number = st.integers(0, 3)

_VALUE_TEMPLATES = (
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
    "{v} = {w}[:]",
    "{v} = [{w}] * 2",
    "{v} = dict(k={w})",
    "{v}, {w} = {n}, [{m}]",
    "del {v}",
    "{v} += [{n}]",
    "{v}.append({n})",
    "{v}.append({w})",
    "{v}[0] = {n}",
    "{v}['k'] = {w}",
    "{v}.extend([{n}])",
    "{v}.clear()",
    "{v}.pop()",
    "{v} += {n}",
    "if {v}: {w} = {n}",
    "if {v}:\n    {w}.append({n})\nelse:\n    {u} = {m}",
    "for {v} in [{n}, {m}]: pass",
    "for x in range({n}):\n    {v} = x",
    "try:\n    {v}.append({n})\nexcept AttributeError:\n    {w} = {m}",
    "try:\n    {v} = {w}[{n}]\nexcept Exception as e:\n    print(type(e).__name__)",
    "print({v})",
    "{v}",
    "len({v})",
    "{v} is {w}",
    "globals()['{v}'] = {n}",
    "{v} = eval('{w}')",
    "sorted = {n}",
    "{v} = sorted([{n}, 1])",
    "_",
    "{v} = _",
    "import random; {v} = random.random()",
    "import random; random.seed({n})",
    "{v} = iter([{n}, {m}, 5])",
    "{v} = next({w})",
    "{v} = (x for x in [{n}, 7])",
    "while {v} is None: {v} = {n}",
    "with __import__('contextlib').nullcontext({w}) as {v}: pass",
)

_CODE_TEMPLATES = (
    "def {f}(x): return x",
    "def {f}(x=[]):\n    x.append({n})\n    return len(x)",
    "def {f}(x): return [x, {v}]",
    "def {f}(x):\n    global {v}\n    {v} = {n}\n    return x",
    "def {f}(x):\n    {v}.append(x)",
    "def {f}(x): return {h}(x)",
    "def {f}(x):\n    def inner(): return (x, {n})\n    return inner",
    "{f} = lambda x: x",
    "{f} = lambda x: [x, {v}]",
    "{f} = {h}",
    "{v} = {f}",
    "{v} = {f}({n})",
    "{v} = {f}({w})",
    "{f}({v})",
    "{f}({v})()",
    "print({f}({n}))",
    "{f}.note = {v}",
    "{v} = {f}.note",
    "def make():\n    n = {n}\n    def up():\n        nonlocal n\n        n += 1\n        return n\n"
    "    def get(): return n\n    return up, get",
    "{v}, {w} = make()",
    "{v}()",
    "class {K}:\n    n = {n}",
    "class {K}:\n    items = []\n    def add(self, x): self.items.append(x)",
    "class {K}:\n    def __init__(self): self.v = {v}\n    def m(self): return self.v",
    "class {K}({L}): pass",
    "class {K}({L}):\n    def m(self): return [super().m(), {n}]",
    "{v} = {K}()",
    "{v} = [{K}(), {K}]",
    "{v}.n = {n}",
    "{K}.n = {n}",
    "{v}.v = {w}",
    "{v} = {w}.m()",
    "print({v}.n)",
    "{v}.add({w})",
    "{v} = {w}.v",
    "isinstance({v}, {K})",
    "{v} = type({w})",
    "del {f}",
    "del {K}",
    "import math; {v} = math.floor({n}.5)",
    "from math import pi as {v}",
    "{v} = [{f}, {f}]",
    "{v}[0]({n})",
)


@st.composite
def statements(draw: st.DrawFn) -> str:
    """One statement."""
    template: str = draw(st.sampled_from(_VALUE_TEMPLATES + _CODE_TEMPLATES))
    return template.format(
        v=draw(_value),
        w=draw(_value),
        u=draw(_value),
        n=draw(_number),
        m=draw(_number),
        f=draw(_function),
        h=draw(_function),
        K=draw(_class),
        L=draw(_class),
    )


def cells() -> st.SearchStrategy[str]:
    """One cell of one to three statements."""
    return st.lists(statements(), min_size=1, max_size=3).map("\n".join)


def notebooks(least: int = 2, most: int = 8) -> st.SearchStrategy[list[str]]:
    """A notebook as the sources of its cells."""
    return st.lists(cells(), min_size=least, max_size=most)


@st.composite
def edited(draw: st.DrawFn, notebook: list[str]) -> list[str]:
    """The notebook after one edit: change, insert, delete, move, swap, duplicate a cell."""
    after = list(notebook)
    at = draw(st.integers(0, len(after) - 1))
    to = draw(st.integers(0, len(after) - 1))
    kind = draw(st.sampled_from(["change", "insert", "delete", "move", "swap", "duplicate"]))
    if kind == "change":
        after[at] = draw(cells())
    elif kind == "insert":
        after.insert(at, draw(cells()))
    elif kind == "delete" and len(after) > 1:
        del after[at]
    elif kind == "move":
        after.insert(to, after.pop(at))
    elif kind == "swap":
        after[at], after[to] = after[to], after[at]
    else:
        after.insert(to, after[at])
    return after


@st.composite
def edits(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """A notebook, and the same after one to three edits."""
    before = draw(notebooks())
    after = before
    for _ in range(draw(st.integers(1, 3))):
        after = draw(edited(after))
    return before, after
