"""Which variables a completion looks at."""

from __future__ import annotations

import pytest

from nbrewind_kernels.cells import is_recorded
from nbrewind_kernels.cursor_names import head_name, names_at


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("df.", {"df"}),
        ("df.he", {"df"}),
        ("df", set()),
        ("print(df", {"print"}),
        ("f(df.", {"f", "df"}),
        ('f(a, df["x"].me', {"f", "df"}),
        ("df[", {"df"}),
        ("df['col", {"df"}),
        ("big.sum() + df.", {"df"}),
        ("df.groupby('a').agg(", {"df"}),
        ("df.groupby('a').agg(x).", {"df"}),
        ("(a + b).", set()),
        ("[1].", set()),
        ("{'k': df.", {"df"}),
        ("x = 1\ny.z", {"y"}),
        ("a . b . c", {"a"}),
        ("", set()),
        (")", set()),
        (").", set()),
        ("été.", {"été"}),
        ("1.", set()),
        ("obj.method(arg).attr[0].na", {"obj"}),
    ],
)
def test_names_at(code: str, names: set[str]) -> None:
    assert names_at(code, len(code)) == names


def test_only_what_stands_before_the_cursor_counts() -> None:
    assert names_at("df.head() + other.x", 3) == {"df"}


def test_a_long_line_is_no_problem() -> None:
    assert names_at("(" * 5000 + "x.", 5002) == {"x"}
    assert names_at("a." * 5000, 10_000) == {"a"}


@pytest.mark.parametrize(
    ("dotted", "head"), [("df.head", "df"), ("df", "df"), ("d['a'].b", "d"), ("", "")]
)
def test_head_name(dotted: str, head: str) -> None:
    assert head_name(dotted) == head


@pytest.mark.parametrize(
    ("source", "recorded"),
    [
        ("", False),
        ("# text", False),
        ("%rewind report", False),
        ("# why?\n%rewind report\n", False),
        ("%rewind report\nx", True),
        ("%rewinder", True),
        ("x  # %rewind", True),
        ("%%time\n%rewind report", True),
    ],
)
def test_which_cells_are_recorded(source: str, recorded: bool) -> None:
    assert is_recorded(source) is recorded
