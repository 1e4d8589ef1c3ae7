"""When a checkpoint is due: every so many steps or seconds, or as often as pays."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable

from nbrewind.errors import UsageError

MEAN_TIME_BETWEEN_FAILURES = 24 * 3600.0
_SHORTEST = 10.0
_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|h|d)\s*")


def seconds_of(text: str) -> float:
    """Seconds that a text such as `30s`, `5min` or `1.5h` means."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is no duration: write 30s, 5min or 1.5h, say")
    return float(match[1]) * _UNITS[match[2]]


class Interval:
    """Tells when a checkpoint is due.

    Args:
        every: a number of steps (`int`), seconds (`float`), a duration such as `5min`, `auto`, or
            None: never. `auto` takes the interval that loses least time in all, to saving and to
            steps made twice: the square root of 2 · cost of a save · mean time between failures
            (Young, 1974).
        mean_time: seconds between failures, for `auto`.
        clock: tells the seconds.
    """

    def __init__(
        self,
        every: int | float | str | None,
        mean_time: float = MEAN_TIME_BETWEEN_FAILURES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if isinstance(every, bool) or (isinstance(every, int | float) and every <= 0):
            raise UsageError(f"every={every!r}: give a number of steps, 5min, auto, or None")
        self.steps = every if isinstance(every, int) else None
        self._auto = every == "auto"
        self._seconds: float | None = None
        if isinstance(every, float):
            self._seconds = every
        elif self._auto:
            self._seconds = _SHORTEST
        elif isinstance(every, str):
            self._seconds = seconds_of(every)
        self._mean_time = mean_time
        self._clock = clock
        self._last = clock()
        self._last_step = 0

    def start(self, step: int) -> None:
        """Count from here."""
        self._last, self._last_step = self._clock(), step

    def saved(self, step: int, cost: float) -> None:
        """A checkpoint was taken, which held up the steps for `cost` seconds."""
        self.start(step)
        if self._auto:
            self._seconds = max(_SHORTEST, math.sqrt(2 * cost * self._mean_time))

    def is_due(self, step: int) -> bool:
        """Whether a checkpoint should be taken after `step` steps."""
        if self.steps is not None:
            return step - self._last_step >= self.steps
        return self._seconds is not None and self._clock() - self._last >= self._seconds
