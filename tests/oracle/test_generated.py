"""Law L1 on random notebooks and random edits of them, in process."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from nbrewind.testing.notebooks import edits
from nbrewind.testing.oracle import compare

FAST = settings(
    max_examples=300,
    derandomize=True,
    database=None,
    deadline=timedelta(seconds=60),
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)
LONG = settings(FAST, max_examples=2500, derandomize=False)


@FAST
@given(edits(), st.booleans())
def test_replay_of_an_edited_notebook_equals_a_fresh_run(
    root: Path, notebook: tuple[list[str], list[str]], planned: bool
) -> None:
    compare(*notebook, root, planned=planned)


@pytest.mark.long
@pytest.mark.timeout(3000)
@LONG
@given(edits(), st.booleans())
def test_replay_of_an_edited_notebook_equals_a_fresh_run_in_thousands_of_cases(
    root: Path, notebook: tuple[list[str], list[str]], planned: bool
) -> None:
    compare(*notebook, root, planned=planned)
