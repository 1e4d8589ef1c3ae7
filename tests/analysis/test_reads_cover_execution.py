"""What generated cells really load, store and delete is within what the analysis says (L1)."""

from __future__ import annotations

import builtins
import contextlib
import textwrap
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nbrewind.state.code import code_uses
from nbrewind_analysis.cells import analyse_cell

VARIABLES = ("a", "b", "c", "d")
FUNCTIONS = ("f", "g", "K")
NAMES = VARIABLES + FUNCTIONS


class OutOfFuel(BaseException):
    """The generated cell runs for too long."""


class Recording(dict[str, Any]):
    """A namespace that notes which loads saw the value from before the cell."""

    def __init__(self, before: dict[str, Any]) -> None:
        super().__init__(before)
        self.before = before
        self.seen: set[str] = set()
        self.fuel = 3000

    def __getitem__(self, name: str) -> Any:
        self.fuel -= 1
        if self.fuel < 0:
            raise OutOfFuel
        value = super().__getitem__(name)
        if name in self.before and value is self.before[name]:
            self.seen.add(name)
        return value


class Builtins(dict[str, Any]):
    """A subclass makes the interpreter look globals up by `__getitem__`."""


def initial(name: str, at: int) -> Any:
    if name in VARIABLES:
        return 1000 + at
    return lambda *args: 2000 + at


variable = st.sampled_from(VARIABLES)
function = st.sampled_from(FUNCTIONS)
name = st.sampled_from(NAMES)

expression = st.recursive(
    st.one_of(variable, st.sampled_from(["1", "0", "[1, 2]"]), function.map(lambda f: f"{f}()")),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: f"({p[0]} if {p[1]} else {p[0]})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda p: f"({' '.join(p)})"),
        st.tuples(variable, inner).map(lambda p: f"({p[0]} := {p[1]})"),
        st.tuples(inner, variable).map(lambda p: f"[{p[0]} for {p[1]} in [1, 2]]"),
        st.tuples(inner, variable).map(lambda p: f"(lambda {p[1]}=1: {p[0]})()"),
        st.tuples(inner, inner).map(lambda p: f"{{{p[0]}: {p[1]} for _ in [1]}}"),
        st.tuples(inner, inner, inner).map(lambda p: f"({' < '.join(p)})"),
        inner.map(lambda e: f"list(1 for _ in [{e}] if {e})"),
    ),
    max_leaves=4,
)


def block(*parts: str) -> str:
    """A compound statement of alternating headers and bodies."""
    return "\n".join(
        part if index % 2 == 0 else textwrap.indent(part, "    ")
        for index, part in enumerate(parts)
    )


simple = st.one_of(
    st.tuples(name, expression).map(lambda p: f"{p[0]} = {p[1]}"),
    st.tuples(variable, expression).map(lambda p: f"{p[0]} += {p[1]}"),
    st.tuples(name, variable).map(lambda p: f"{p[0]} = lambda *args: {p[1]}"),
    name.map(lambda n: f"del {n}"),
    expression,
    st.tuples(variable, variable).map(lambda p: f"{p[0]}, *{p[1]} = [1, 2]"),
    variable.map(lambda v: f"import math as {v}"),
    st.just("raise ValueError"),
)


def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    body = st.lists(inner, min_size=1, max_size=3).map("\n".join)
    return st.one_of(
        st.tuples(expression, body, body).map(lambda p: block(f"if {p[0]}:", p[1], "else:", p[2])),
        st.tuples(variable, st.sampled_from(["[]", "[1]", "range(2)", "a"]), body, body).map(
            lambda p: block(f"for {p[0]} in {p[1]}:", p[2], "else:", p[3])
        ),
        st.tuples(body, expression, st.sampled_from(["break", "continue"])).map(
            lambda p: block("for _ in range(3):", block(f"if {p[1]}:", p[2]) + "\n" + p[0])
        ),
        st.tuples(expression, body, body).map(
            lambda p: block("while True:", p[1] + "\n" + block(f"if {p[0]}:", "break") + "\nbreak")
        ),
        st.tuples(body, variable, body, body).map(
            lambda p: block("try:", p[0], f"except Exception as {p[1]}:", p[2], "finally:", p[3])
        ),
        st.tuples(body, body, body).map(
            lambda p: block("try:", p[0], "except ValueError:", p[1], "else:", p[2])
        ),
        st.tuples(body, variable).map(
            lambda p: block(f"with contextlib.suppress(Exception) as {p[1]}:", p[0])
        ),
        st.tuples(name, body).map(lambda p: block(f"def {p[0]}(*args):", p[1])),
        st.tuples(name, variable, body).map(
            lambda p: block(f"def {p[0]}(*args):", f"global {p[1]}\n{p[2]}")
        ),
        st.tuples(name, expression, body).map(
            lambda p: block(f"@(lambda fn: fn() or fn)\ndef {p[0]}(*args, k={p[1]}):", p[2])
        ),
        st.tuples(name, body, body).map(
            lambda p: block(f"class {p[0]}:", p[1] + "\n" + block("def __init__(self):", p[2]))
        ),
        st.tuples(expression, variable, variable, body, body).map(
            lambda p: block(
                f"match {p[0]}:",
                block(f"case [{p[1]}, 2] | [{p[1]}, 3]:", p[3], f"case {p[2]} if {p[2]}:", p[4]),
            )
        ),
    )


statements = st.recursive(simple, compound, max_leaves=8)
cells = st.lists(statements, min_size=1, max_size=5).map("\n".join)


def compiles(source: str) -> bool:
    try:
        compile(source, "<cell>", "exec")
    except SyntaxError:
        return False
    return True


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(cells.filter(compiles))
@example("h = f\ndef g(*args): a\nf = g\nh = f\ndef K(*args): b\nf()")
@example("def f(*args): g()\nf()\ndef g(*args): a")
@example("def f(*args): g()\ntry:\n    f()\nexcept Exception: pass\ndef g(*args): a\nf()")
@example("def f(*args):\n    global a\n    a += 1\nf()")
@example(
    "for _ in range(3):\n    try:\n        a = 1\n        continue\n    finally:\n        del a"
)
@example("def f(*args): g()\nK = f\ndef g(*args): a\nK()")
@example("a = 1\ntry:\n    del a\n    raise ValueError\nexcept ValueError: pass")
@example("@(lambda fn: fn())\ndef K(*args): a")
@example("0 and (a := 1)\na")
@example("class K:\n    a = a\n    def __init__(self): self.x = b\nK()")
def test_loads_stores_and_deletions_of_a_run_were_foreseen(source: str) -> None:
    names = analyse_cell(source).names
    before = {name: initial(name, at) for at, name in enumerate(NAMES)}
    space = Recording(before | {"contextlib": contextlib, "__name__": "__main__"})
    space["__builtins__"] = Builtins(vars(builtins))
    code = compile(source, "<cell>", "exec")
    ended = False
    with contextlib.suppress(Exception, OutOfFuel):
        exec(code, space)
        ended = True
    assert space.seen & set(NAMES) <= names.reads
    present = {name for name in NAMES if name in space}
    changed = {n for n in present if dict.__getitem__(space, n) is not before[n]}
    assert changed <= names.stores
    assert set(NAMES) - present <= names.deletes | names.stores
    if ended:
        assert names.definite_stores & set(NAMES) <= present
        assert not names.definite_deletes & present
    assert names.definite_stores <= names.stores
    assert space.seen & set(NAMES) <= code_uses(code).loads
