"""What code that looks at all names, or at results of other cells, finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbrewind.testing.oracle import compare

ALL = "[n for n in globals() if n in 'abck'], k"


@pytest.mark.parametrize(
    "cells",
    [
        ["b = 1; a = 2; c = 3", "k = 1", ALL],
        ["b = [1]", "a = [2]", "b = [3]", "k = 1", ALL],
        ["b = [1]", "a = [2]", "del b", "b = [3]", "k = 1", ALL],
        ["b = [1]; a = b; c = b", "k = 1", "a.append(k)", ALL],
        ["def b(): return 1", "class a: pass", "import math as c", "k = 1", ALL],
    ],
)
@pytest.mark.parametrize("planned", [False, True])
def test_names_are_in_the_order_of_a_full_run(cells: list[str], planned: bool, root: Path) -> None:
    after = [cell.replace("k = 1", "k = 2") for cell in cells]
    compare(cells, after, root, planned=planned)


@pytest.mark.parametrize(
    ("shown", "use"),
    [
        ("7", "_ * 2"),
        ("'text'", "_.upper()"),
        ("(1, 'a', (2.0, None))", "_[2]"),
        ("datetime.date(2020, 1, 2)", "_.year"),
        ("decimal.Decimal('1.5')", "_ + 1"),
        ("np.arange(4).mean()", "_ * 2"),
        ("np.bool_(True)", "not _"),
    ],
)
def test_a_result_that_cannot_change_is_kept_for_the_cells_that_use_it(
    shown: str, use: str, root: Path
) -> None:
    cells = ["import datetime, decimal\nimport numpy as np", shown, use, "k = 1", "k"]
    assert compare(cells, [*cells[:3], "k = 2", "k"], root).executed == [3, 4]
    assert compare(cells, [*cells[:2], f"({use}), 1", *cells[3:]], root).executed == [2]


@pytest.mark.parametrize("shown", ["[1]", "([1],)", "np.zeros(2)", "{1: 2}"])
def test_a_result_that_can_change_is_made_again(shown: str, root: Path) -> None:
    cells = ["import numpy as np", shown, "r = _", "k = 1", "r, k"]
    compare(cells, [*cells[:3], "k = 2", cells[4]], root)
