"""Law L1 on random notebooks and random edits of them, in process."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from nbrewind.testing.minimising import smallest
from nbrewind.testing.notebooks import edits
from nbrewind.testing.oracle import compare
from nbrewind.testing.templates import MODULES

FAST = settings(
    max_examples=300,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
SAMPLE = float(os.environ.get("NBREWIND_LONG_SAMPLE", "1"))
"""The part of a long search to run; a part is the same each time, the whole never."""
LONG = settings(FAST, max_examples=round(2500 * SAMPLE), derandomize=SAMPLE < 1)


def hold_against_a_fresh_run(
    before: list[str], after: list[str], root: Path, *, planned: bool
) -> None:
    """Compare; of a notebook that fails, report the smallest part that does."""

    def failure(before: list[str], after: list[str]) -> str:
        try:
            compare(before, after, root, planned=planned, files=MODULES)
        except AssertionError as problem:
            return str(problem)
        return ""

    if failure(before, after):
        before, after = smallest(before, after, lambda *nb: bool(failure(*nb)))
        pytest.fail(f"audited {before!r}, replayed {after!r}: {failure(before, after)}")


class Allowance:
    """Processor time that may be spent; the machine may be busy with something else."""

    def __init__(self, seconds: float) -> None:
        self._end = time.process_time() + seconds

    @property
    def spent(self) -> bool:
        return time.process_time() > self._end


@pytest.mark.timeout(900)
def test_replay_of_an_edited_notebook_equals_a_fresh_run(root: Path) -> None:
    allowance = Allowance(60)

    @FAST
    @given(st.data())
    def search(data: st.DataObject) -> None:
        before, after = data.draw(edits())
        planned = data.draw(st.booleans())
        if not allowance.spent:  # what is drawn may not depend on the clock
            hold_against_a_fresh_run(before, after, root, planned=planned)

    search()


@pytest.mark.long
@pytest.mark.timeout(3000)
@LONG
@given(edits(), st.booleans())
def test_replay_of_an_edited_notebook_equals_a_fresh_run_in_thousands_of_cases(
    root: Path, notebook: tuple[list[str], list[str]], planned: bool
) -> None:
    hold_against_a_fresh_run(*notebook, root, planned=planned)
