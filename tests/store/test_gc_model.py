"""L4: no interleaving of writers and a collector loses what was acknowledged, or is held."""

from __future__ import annotations

import os

import pytest

from .gc_model import Ingredients, losses

RUNS = int(100_000 * float(os.environ.get("NBREWIND_LONG_SAMPLE", "1")))
SAMPLE = 2_000


def test_a_sample_of_interleavings_loses_nothing() -> None:
    assert losses(range(SAMPLE), Ingredients()) == 0


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_interleavings_lose_nothing() -> None:
    assert losses(range(SAMPLE, SAMPLE + RUNS), Ingredients()) == 0


@pytest.mark.parametrize(
    "without",
    [
        Ingredients(two_phases=False),
        Ingredients(own_packs_held=False),
        Ingredients(fencing=False),
        Ingredients(validation=False),
    ],
    ids=["two phases", "holding own packs", "fencing", "validation"],
)
def test_the_model_finds_losses_without(without: Ingredients) -> None:
    assert losses(range(SAMPLE), without) > 0
