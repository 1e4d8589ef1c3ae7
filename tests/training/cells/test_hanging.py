"""A rank hangs if it gets no further while others wait for it; a busy or silent one does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nbrewind.training.launching.frames import Position
from nbrewind.training.launching.hanging import Watch


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def at(progress: str, *, waiting: bool = False) -> Position:
    return Position(progress, waiting, f"  at {progress}\n")


def watched(answers: list[Callable[[int], Position | None]], seconds: int = 40) -> str:
    """What a watch of 10 s says of ranks that answer so; a rank without answers has ended."""
    clock = Clock()
    watch = Watch(len(answers), 10.0, clock)
    for rank, answer in enumerate(answers):
        watch.got_on(rank)
        if answer is ENDED:
            watch.ended(rank)
    for second in range(seconds):
        clock.now = second
        if watch.is_time():
            for rank in watch.asked():
                position = answers[rank](second)
                if position is not None:
                    watch.seen(rank, position)
        if told := watch.hanging():
            assert second >= 10
            return told
    return ""


def ENDED(_second: int) -> None:
    raise AssertionError


def still(_second: int) -> Position:
    return at("here")


def waits(_second: int) -> Position:
    return at("barrier", waiting=True)


def works(second: int) -> Position:
    return at(str(second))


def trains(second: int) -> Position:
    return at(str(second), waiting=second % 2 == 0)


def dumb(_second: int) -> None:
    return None


@pytest.mark.parametrize(
    "answers",
    [
        *([works, works], [still, still], [trains, trains], [still, works], [works, waits]),
        *([still], [ENDED, works], [ENDED, ENDED], [ENDED, still], [trains, still]),
    ],
)
def test_ranks_that_work_or_keep_nobody_waiting_do_not_hang(
    answers: list[Callable[[int], Position | None]],
) -> None:
    assert watched(answers) == ""


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([waits, still, waits], "rank 1 got no further while others waited for 10 s"),
        ([waits, waits], "rank 0, 1 waited for each other for 10 s"),
        ([works, dumb], "rank 1 gave no answer for 10 s"),
        ([ENDED, waits], "rank 1, after rank 0 had ended, waited in vain for 10 s"),
    ],
)
def test_a_rank_that_hangs_is_named_with_where_it_is(
    answers: list[Callable[[int], Position | None]], told: str
) -> None:
    found = watched(answers)
    assert found.startswith(told)
    if still in answers:
        assert f"rank {answers.index(still)} is at\n  at here" in found


def test_without_a_time_out_nobody_is_asked() -> None:
    watch = Watch(2, None, Clock())
    assert not watch.is_time()
    assert watch.hanging() == ""
