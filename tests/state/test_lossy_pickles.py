"""Law L1 for classes that leave something out of their pickle, or load as something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbrewind.testing.oracle import compare

COUNTER = "import collections\nclass C(collections.Counter): pass\nx = C('aab'); x.more = [1]"
DATE = "import datetime\nclass D(datetime.date): pass\nx = D(2020, 1, 2); x.more = [1]"
FORGETFUL = """
class Box:
    def __init__(self): self.kept = 1; self.more = [1]
    def __getstate__(self): return {'kept': self.kept}
    def __setstate__(self, state): self.kept = state['kept']; self.more = []
"""
CHANGING = """
class Box:
    def __init__(self, more): self.more = ['made', *more]
    def __reduce__(self): return Box, (self.more,)
"""


@pytest.mark.parametrize("made", [COUNTER, DATE])
def test_a_change_of_what_a_pickle_leaves_out_is_seen(made: str, tmp_path: Path) -> None:
    cells = [made, "x.more.append(2)", "print(x.more)"]
    run = compare(cells, [made, "x.more.append(3)", cells[2]], tmp_path)
    assert 2 in run.executed


@pytest.mark.parametrize("made", [COUNTER, DATE])
def test_what_does_not_come_back_is_made_again(made: str, tmp_path: Path) -> None:
    cells = [made, "y = 1", "print(x.more, y)"]
    run = compare(cells, [made, "y = 2", cells[2]], tmp_path)
    assert not run.warnings


@pytest.mark.parametrize("box", [FORGETFUL, CHANGING])
def test_a_class_of_a_library_that_loads_as_something_else_is_made_again(
    box: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lossy_library.py").write_text(box)
    monkeypatch.syspath_prepend(str(tmp_path))
    made = "import lossy_library\n" + (
        "x = lossy_library.Box([1])" if box is CHANGING else "x = lossy_library.Box()"
    )
    hold = "held = [x]; pair = (x, held)"
    cells = [
        made,
        hold,
        "y = 1",
        "print(vars(x), held[0] is x, y)",
        "x.more.append(y)",
        "print(x.more)",
    ]
    compare(cells, [made, hold, "y = 2", *cells[3:]], tmp_path, forked=True)


def test_attributes_that_a_pickle_contains_under_other_names_are_not_taken_as_lost(
    tmp_path: Path,
) -> None:
    made = "import ipaddress, uuid\nx = [uuid.UUID(int=5), ipaddress.ip_network('10.0.0.0/8')]"
    cells = [made, "y = 1", "print(x, y)"]
    assert compare(cells, [made, "y = 2", cells[2]], tmp_path).executed == [1, 2]
