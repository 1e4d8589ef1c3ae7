"""The text form: what is printed is read again, and mistakes are told by their place."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbrewind.errors import RuleError
from nbrewind.training.rules import Fused, Pattern, Rule, Rules, Shard, Step
from nbrewind.training.rules.operations import OPERATIONS, Operation

NAMES = st.text(st.sampled_from('ab_.*{}\\"=# \n|@,()[]é'), min_size=1, max_size=8)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "integer": st.integers(-3, 10**12),
    "integers": st.lists(st.integers(0, 9), min_size=1, max_size=3).map(tuple),
    "number": st.floats(allow_nan=False),
    "name": NAMES,
    "names": st.one_of(
        st.sampled_from(["each", "given", "sorted"]),
        st.lists(NAMES, max_size=3).map(tuple),
    ),
}


@st.composite
def operations(draw: st.DrawFn) -> Operation | None:
    kind = draw(st.sampled_from([*OPERATIONS.values()]))
    given = {}
    for each in fields(kind):
        if each.default is MISSING or draw(st.booleans()):
            values = VALUES.get(
                each.metadata["kind"], st.sampled_from(each.metadata["words"] or [""])
            )
            given[each.name] = draw(values)
    try:
        return kind(**given)
    except ValueError:
        return None


@st.composite
def rules(draw: st.DrawFn) -> Rule | None:
    steps = []
    axes = draw(st.permutations(["dp", "tp", "a*b", "ep x", '"']))
    try:
        for _ in range(draw(st.integers(1, 3))):
            operation = draw(operations())
            if operation is None:
                return None
            bound = [] if operation.axes == "none" else [axes.pop()]
            steps.append(Step(operation, tuple(bound)))
        return Rule(Pattern(draw(NAMES)), tuple(steps))
    except ValueError:
        return None


@given(st.lists(rules(), max_size=4))
@settings(max_examples=300, deadline=None)
def test_what_is_printed_is_read_again(found: list[Rule | None]) -> None:
    every = {rule.pattern.text: rule for rule in found if rule is not None}
    made = Rules(tuple(every.values()))
    assert Rules.parse(str(made)) == made


@given(st.text(st.sampled_from('ab.*{}"=#\n|@,()[]12 '), max_size=40))
@settings(max_examples=300)
def test_any_text_is_read_or_refused_with_its_place(text: str) -> None:
    problem = ""
    try:
        Rules.parse(text)
    except RuleError as exc:
        problem = str(exc)
    assert re.match(r"$|line \d+, column \d+: ", problem)


def test_comments_and_lines_that_go_on() -> None:
    found = Rules.parse(
        """
        # projections
        a.*.w = fused(
            0,
            widths=[2,   # queries
                    1, 1],
        ) @tp
          | shard(1) @dp*cp   # FSDP
        """
    )
    steps = (Step(Fused(0, widths=(2, 1, 1)), ("tp",)), Step(Shard(1), ("dp", "cp")))
    assert found.rules == (Rule(Pattern("a.*.w"), steps),)
    assert str(found) == "a.*.w = fused(0, widths=[2, 1, 1]) @tp | shard(1) @dp*cp\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("w = shrd(0) @tp", "line 1, column 5: there is no operation shrd; did you mean shard?"),
        ("w = xyz", "line 1, column 5: there is no operation xyz: there are replicate, shard,"),
        ("\n w = shard(0)", "line 2, column 6: shard needs an axis of the mesh"),
        ("w = shard() @tp", "line 1, column 5: shard needs dim"),
        ("w = shard(0, size=[1]) @tp", "column 14: shard has no argument size; did you mean sizes"),
        ("w = shard(0, [1], 2) @tp", "column 19: shard has only 2 arguments"),
        ("w = shard(0, dim=1) @tp", "column 14: dim is given twice"),
        ("w = shard(dim=0, [1]) @tp", "column 18: after an argument with a name all need one"),
        ("w = shard(x) @tp", "column 11: dim is a whole number, not 'x'"),
        ("w = shard([0]) @tp", "column 11: dim is one value, not a list"),
        ("w = shard(0, 1) @tp", "column 14: sizes is a list like [2, 1, 1]"),
        ("w = shard(0, [-1, 2]) @tp", "column 5: sizes is [-1, 2]: it needs numbers of at least 0"),
        ("w = pad(0, fill=x)", "column 17: fill is a number, not 'x'"),
        (
            "w = replicate(exct)",
            "column 15: check is none or exact, not 'exct'; did you mean exact",
        ),
        ("w = replicate @tp", "column 5: replicate is bound to no axis"),
        ("w = replicate | shard(0) @tp", "column 1: replicate stands alone"),
        ("w = flat @tp | shard(0) @dp", "column 1: nothing but average can follow flat"),
        ("w = shard(0) @tp | shard(1) @tp", "two operations are bound to the axis tp"),
        ("w = shard(0) @tp*tp", "column 5: shard is bound twice to one axis"),
        ("w = shard(0) @tp*", "column 15: tp* is no product of axes like dp*cp"),
        ("w shard(0)", "column 3: expected = after the pattern, not 'shard'"),
        ("w =", "column 4: expected an operation, not the end of the text"),
        ("w = shard(0", "expected , or ), not the end of the text"),
        ("w = shard(0) @tp shard(1)", "column 18: expected | or the end of the line, not 'shard'"),
        ('w = "shard"', "column 5: expected an operation"),
        ('w = alias("x)', "column 11: a string has no end on its line"),
        ("w = alias(x{l})", "column 1: alias refers to {l}, which is not in the pattern"),
        ("a.{layer} = alias(x{lyer})", "did you mean layer?"),
        ("a.{layer.b = replicate", "column 1: { as character 3 begins no place like {layer}"),
        ("a = replicate\na = replicate", "line 2, column 1: there is a rule for a already"),
        ("w = fused(0) @tp", "column 5: fused needs one of parts, widths and heads"),
        ("w = expert(index=e) @ep", "expert with index needs count"),
        ("w = transpose([0, 2])", "column 5: dims is [0, 2], which is no order"),
    ],
)
def test_mistakes_are_told_by_their_place(text: str, problem: str) -> None:
    with pytest.raises(RuleError) as caught:
        Rules.parse(text)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "name", "places"),
    [
        ("a.*.w", "a.1.w", {}),
        ("a.*.w", "a.1.2.w", None),
        ("a.**.w", "a.1.2.w", {}),
        ("**w", "w", {}),
        ("a.{n}.w", "a.12.w", {"n": "12"}),
        ("a.{n}.{n}", "a.1.2", None),
        ("a.{n}.{n}", "a.1.1", {"n": "1"}),
        ("a.{n}", "a.", None),
        (r"a\*", "a*", {}),
        (r"a\*", "ab", None),
        (r"a\{n}", "a{n}", {}),
        ("a.w", "axw", None),
        ("a", "a\n", None),
    ],
)
def test_patterns(pattern: str, name: str, places: dict[str, str] | None) -> None:
    assert Pattern(pattern).match(name) == places


def test_every_name_has_exactly_one_rule_and_every_rule_a_name() -> None:
    made = Rules.parse(
        """
        layer.*.w    = shard(0) @tp
        layer.0.*    = replicate
        layers.*.out = replicate
        """
    )
    report = made.check(["layer.0.w", "layer.1.w", "layer.1.b"])
    assert not report
    assert report.unmatched == ("layer.1.b",)
    assert report.ambiguous == (("layer.0.w", ("layer.*.w", "layer.0.*")),)
    assert report.unused == ("layers.*.out",)
    with pytest.raises(RuleError) as caught:
        report.raise_if_wrong()
    assert str(caught.value) == (
        "no rule for layer.1.b\n2 rules for layer.0.w: layer.*.w, layer.0.*\n"
        "no tensor for the rule layers.*.out; did you mean layer.1.w?"
    )
    assert made.check(["layer.0.b", "layer.1.w", "layers.1.out"])


def test_otherwise_is_for_what_no_other_rule_is_for() -> None:
    made = Rules.parse("a.* = shard(0) @tp\notherwise = replicate")
    assert made.check(["a.1", "b"])
    assert made.check(["a.1"]).unused == ("otherwise",)
    assert made.match("b").rule.operations[0].name == "replicate"
    assert str(made.limited_to(["b"])) == "otherwise = replicate\n"


def test_a_long_list_of_problems_is_cut() -> None:
    with pytest.raises(RuleError, match=r"no rule for 7\nand 92 more$"):
        Rules.parse("").check(map(str, range(100))).raise_for_names()
