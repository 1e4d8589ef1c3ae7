"""Writes at a time follow what the other side takes."""

from __future__ import annotations

from nbrewind.store.tiers.pace import Pace

MB = 1_000_000


def rounds(pace: Pace, now: float, count: int, rate: float) -> float:
    """Rounds in which the other side takes `rate` bytes a second in all."""
    for _ in range(count):
        for _ in range(pace.width):
            now += 10 * MB / rate
            pace.wrote(10 * MB, now)
    return now


def test_one_more_after_every_round_that_went_well() -> None:
    pace = Pace(most=8)
    pace.begin(0.0)
    now = 0.0
    for expected in (2, 3, 4):
        now = rounds(pace, now, 1, 100 * MB)
        assert pace.width == expected
    rounds(pace, now, 20, 100 * MB)
    assert pace.width == pace.peak == 8


def test_a_refusal_halves() -> None:
    pace = Pace(most=8)
    pace.begin(0.0)
    now = rounds(pace, 0.0, 10, 100 * MB)
    pace.refused(now)
    assert pace.width == 4
    for _ in range(5):
        pace.refused(now)
    assert pace.width == 1


def test_a_round_much_slower_than_before_halves() -> None:
    pace = Pace(most=8)
    pace.begin(0.0)
    now = rounds(pace, 0.0, 10, 100 * MB)
    rounds(pace, now, 1, 20 * MB)
    assert pace.width == 4


def test_a_server_that_became_slow_is_not_punished_for_ever() -> None:
    pace = Pace(most=8)
    pace.begin(0.0)
    now = rounds(pace, 0.0, 10, 100 * MB)
    rounds(pace, now, 12, 20 * MB)
    assert pace.width == 8


def test_small_files_are_no_sign_of_slowness() -> None:
    pace = Pace(most=8)
    pace.begin(0.0)
    now = 0.0
    for _ in range(40):
        now += 0.1
        pace.wrote(10 * MB, now)
    for _ in range(8):
        now += 0.01
        pace.wrote(1000, now)
    assert pace.width == 8


def test_time_without_writes_does_not_count() -> None:
    pace = Pace(most=8)
    pace.begin(0.0)
    now = rounds(pace, 0.0, 10, 100 * MB)
    pace.begin(now + 3600)
    rounds(pace, now + 3600, 1, 100 * MB)
    assert pace.width == 8
