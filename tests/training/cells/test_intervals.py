"""When a checkpoint is due."""

from __future__ import annotations

import math

import pytest

from nbrewind.errors import UsageError
from nbrewind.training.intervals import Interval, seconds_of


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("5min", 300), ("1.5 h", 5400), ("250ms", 0.25), ("2d", 172800)],
)
def test_durations(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("wrong", [0, -1, 0.0, True, "soon", "5", "5 min 3s"])
def test_what_is_no_interval_is_refused(wrong: int | float | str) -> None:
    with pytest.raises(UsageError):
        Interval(wrong)


def test_steps_are_counted_from_the_last_save() -> None:
    interval = Interval(4)
    interval.start(10)
    assert [step for step in range(10, 16) if interval.is_due(step)] == [14, 15]
    interval.saved(15, 0.1)
    assert not interval.is_due(18)
    assert interval.is_due(19)


def test_seconds_are_counted_from_the_last_save() -> None:
    clock = Clock()
    interval = Interval("5min", clock=clock)
    clock.now = 299
    assert not interval.is_due(1000)
    clock.now = 300
    assert interval.is_due(1000)


def test_the_automatic_interval_grows_with_the_cost_of_a_save() -> None:
    clock = Clock()
    interval = Interval("auto", mean_time=20_000.0, clock=clock)
    interval.saved(1, cost=1.0)
    clock.now = math.sqrt(2 * 20_000) - 1
    assert not interval.is_due(2)
    clock.now += 2
    assert interval.is_due(2)
    interval.saved(2, cost=0.0)
    clock.now += 9
    assert not interval.is_due(3)
    clock.now += 2
    assert interval.is_due(3)


def test_never_means_never() -> None:
    clock = Clock()
    interval = Interval(None, clock=clock)
    clock.now = 1e9
    assert not interval.is_due(10**9)
