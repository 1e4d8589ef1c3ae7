"""Trying again what failed for reasons that pass: with growing, random pauses."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from nbrewind.store.remote.files import Unreachable

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

_random = random.SystemRandom()
"""Not the module's own generator: that one is the user's, and its state is recorded."""


@dataclass(frozen=True)
class Patience:
    """How often, and how long, something is tried.

    The pauses are drawn evenly between nothing and a bound that doubles ("full jitter"): clients
    that failed together do not come back together.
    """

    attempts: int = 6
    first: float = 0.1
    """Bound of the first pause, in seconds."""
    longest: float = 5.0
    """Bound of all pauses, in seconds."""
    sleep: Callable[[float], None] = time.sleep

    def pause(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row, at least one."""
        bound = min(self.longest, self.first * 2.0 ** min(failures - 1, 30))
        return _random.uniform(0, bound)

    def run(self, action: Callable[[], _T]) -> _T:
        """What `action` returns, at the first attempt that does not raise `Unreachable`."""
        for failures in range(1, self.attempts):
            try:
                return action()
            except Unreachable as exc:
                pause = self.pause(failures)
                _log.info("trying again in %.1f s: %s", pause, exc)
                self.sleep(pause)
        return action()
