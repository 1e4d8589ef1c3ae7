"""How many files are written at a time: as many as the other side takes well.

Additive increase, multiplicative decrease, as in TCP (Jacobson, *Congestion avoidance and
control*, 1988): one more after every round that went well, half as many after a refusal or a
round much slower than those before it. Pure: the caller tells what happened, and when.
"""

from __future__ import annotations

_PER_FILE = 256 * 1024
"""What a file costs besides its bytes, in bytes: small files are no sign of slowness."""
_SLOWED = 0.6
"""Share of the best recent rate below which a round counts as slow."""
_FADING = 0.95
"""What is left of the best rate after each round: servers change."""


class Pace:
    """The number of writes at a time.

    Args:
        most: Upper bound.
    """

    def __init__(self, most: int = 8) -> None:
        self.most = most
        self.width = 1
        """Writes that should be under way."""
        self.peak = 1
        """The largest `width` so far."""
        self._best = 0.0
        self._ended = 0
        self._work = 0
        self._since: float | None = None

    def begin(self, now: float) -> None:
        """Writes are about to begin after a time in which there were none."""
        self._restart(now)

    def wrote(self, size: int, now: float) -> None:
        """A write ended well.

        Args:
            size: Its bytes.
            now: Seconds of a clock that never goes back.
        """
        if self._since is None:
            self._since = now
            return
        self._ended += 1
        self._work += size + _PER_FILE
        if self._ended < self.width or now <= self._since:
            return
        rate = self._work / (now - self._since)
        if rate < _SLOWED * self._best:
            self._best = rate
            self._halve()
        else:
            self._best = max(rate, _FADING * self._best)
            self.width = min(self.most, self.width + 1)
            self.peak = max(self.peak, self.width)
        self._restart(now)

    def refused(self, now: float) -> None:
        """A write failed for a reason that may pass."""
        self._halve()
        self._restart(now)

    def _halve(self) -> None:
        self.width = max(1, self.width // 2)

    def _restart(self, now: float) -> None:
        self._ended = self._work = 0
        self._since = now
