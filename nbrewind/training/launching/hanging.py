"""Ranks that others wait for in vain: found by asking all of them where they are.

A rank may rightly be silent for hours. It hangs if, for as long as the time-out, it got no
further while another rank waited for it in a collective; and so do ranks that wait for each
other, or for one that has ended, and one that does not even answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from nbrewind.training.launching.frames import Position

_LOOKS = 8
"""How often a rank is asked within the time-out."""
_OFTEN = 1.0


@dataclass
class _Known:
    since: float
    """When it got on, or was first seen where it is."""
    there: bool = False
    """It has connected."""
    position: Position | None = None
    unanswered: float | None = None
    """Since when it has not answered."""
    done: bool = False


class Watch:
    """Where the ranks of one launch are.

    Args:
        ranks: how many there are.
        timeout: seconds; None: nobody is asked.
        clock: tells the seconds.
    """

    def __init__(
        self, ranks: int, timeout: float | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._timeout = timeout
        self._ranks = [_Known(clock()) for _ in range(ranks)]
        self._next = clock()

    def got_on(self, rank: int) -> None:
        """A rank connected or printed something."""
        known = self._ranks[rank]
        known.there, known.since, known.unanswered = True, self._clock(), None

    def ended(self, rank: int) -> None:
        """A rank has returned, or is gone."""
        known = self._ranks[rank]
        if not known.done:
            known.done, known.since = True, self._clock()

    def seen(self, rank: int, position: Position) -> None:
        """A rank answered."""
        known = self._ranks[rank]
        before, known.position, known.unanswered = known.position, position, None
        if before is None or before.progress != position.progress:
            known.since = self._clock()

    def is_time(self) -> bool:
        """Whether the ranks should be asked where they are."""
        return self._timeout is not None and self._clock() >= self._next

    def asked(self) -> list[int]:
        """The ranks to ask now."""
        assert self._timeout is not None
        now = self._clock()
        self._next = now + max(min(_OFTEN, self._timeout / 4), self._timeout / _LOOKS)
        going = [n for n, rank in enumerate(self._ranks) if rank.there and not rank.done]
        for number in going:
            if self._ranks[number].unanswered is None:
                self._ranks[number].unanswered = now
        return going

    def hanging(self) -> str:
        """Which ranks hang and where all are; empty if none does."""
        if self._timeout is None or not all(rank.there or rank.done for rank in self._ranks):
            return ""
        late = self._clock() - self._timeout
        going = [n for n, rank in enumerate(self._ranks) if not rank.done]
        asked = {n: self._ranks[n].unanswered for n in going}
        silent = [n for n, since in asked.items() if since is not None and since < late]
        stuck = [
            n for n in going if self._ranks[n].since < late and self._ranks[n].position is not None
        ]
        waiting = [n for n in stuck if self._waits(n)]
        gone = [n for n, rank in enumerate(self._ranks) if rank.done and rank.since < late]
        busy = [n for n in stuck if n not in waiting]
        if silent:
            return self._told(silent, "gave no answer for")
        if busy and waiting:
            return self._told(busy, "got no further while others waited for")
        if waiting and (len(waiting) == len(going) and (gone or len(going) > 1)):
            if gone:
                why = f"{_of(gone)} had ended, waited in vain for"
                return self._told(waiting, f", after {why}")
            return self._told(waiting, "waited for each other for")
        return ""

    def _waits(self, number: int) -> bool:
        position = self._ranks[number].position
        return position is not None and position.waiting

    def _told(self, ranks: list[int], what: str) -> str:
        comma = "" if what.startswith(",") else " "
        lines = [f"{_of(ranks)}{comma}{what} {self._timeout:g} s (`timeout=` sets how long)"]
        for number, rank in enumerate(self._ranks):
            if rank.done:
                lines.append(f"rank {number} has ended")
            elif rank.position is None:
                lines.append(f"rank {number} has not told where it is")
            else:
                how = "waits" if rank.position.waiting else "is"
                lines.append(f"rank {number} {how} at\n{rank.position.stack.rstrip()}")
        return "\n".join(lines)


def _of(ranks: list[int]) -> str:
    return "rank " + ", ".join(map(str, ranks))
