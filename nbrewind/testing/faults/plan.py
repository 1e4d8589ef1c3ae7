"""Which operation on files fails, and how."""

from __future__ import annotations

import fnmatch
import os
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

Operation = Literal[
    "open",
    "create",
    "read",
    "write",
    "fsync",
    "sync directory",
    "close",
    "stat",
    "list",
    "link",
    "rename",
    "unlink",
    "mkdir",
    "rmdir",
    "clock",
]

Effect = Literal["error", "lost", "short", "partial", "drop", "delay", "kill", "killed", "lie"]


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault, of one operation.

    What an effect means:

    - `error`: the operation is not done and fails.
    - `lost`: the operation is done, and fails all the same (its answer was lost).
    - `short`: a write or read does less than it was asked for, without an error.
    - `partial`: a write does a part, then fails.
    - `drop`: an `fsync` fails and the system forgets what was not synchronised, as Linux does;
      the next one succeeds.
    - `delay`: the operation takes `amount` seconds longer.
    - `kill`, `killed`: the process is killed before or after the operation.
    - `lie`: `stat` tells `amount` links; the clock jumps by `amount` seconds.
    """

    operation: Operation
    effect: Effect = "error"
    errno: int = 0
    nth: int = 1
    """The first operation that is hit, of those that match."""
    times: int = 1
    """How many are hit; 0 for all from `nth` on."""
    path: str = "*"
    """A pattern (`fnmatch`) for the path below the layer's root."""
    amount: float = 0.0

    def __str__(self) -> str:
        error = os.strerror(self.errno) if self.errno else ""
        often = "" if self.times == 1 else " and all later" if not self.times else f" ×{self.times}"
        what = " ".join(filter(None, [self.effect, error, f"{self.amount:g}" * bool(self.amount)]))
        return f"{what} at {self.operation} {self.nth}{often} of {self.path}"


class Plan:
    """Counts operations and tells which ones a fault hits. Safe to use from several threads."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self.faults: Sequence[Fault] = tuple(faults)
        self.seen: Counter[Operation] = Counter()
        """Operations so far."""
        self.hit: list[tuple[Fault, str]] = []
        """Faults that happened, with the path."""
        self._matches = [0] * len(self.faults)
        self._lock = threading.Lock()

    def due(self, operation: Operation, path: str) -> Fault | None:
        """The fault that hits this operation on `path`, if one does."""
        found: Fault | None = None
        with self._lock:
            self.seen[operation] += 1
            for number, fault in enumerate(self.faults):
                if fault.operation != operation or not fnmatch.fnmatchcase(path, fault.path):
                    continue
                self._matches[number] += 1
                past = self._matches[number] - fault.nth
                if past >= 0 and (not fault.times or past < fault.times):
                    found = found or fault
            if found is not None:
                self.hit.append((found, path))
        return found
