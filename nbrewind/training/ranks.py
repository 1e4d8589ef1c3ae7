"""The ranks that save together: who they are, and how they agree."""

from __future__ import annotations

import copy
import datetime
import os
import re
import time
from typing import Any, Protocol

from nbrewind.errors import CheckpointError

_LOOKING = 10.0
"""Seconds given to find out who is missing."""

_DYING = 1.0
"""Seconds that a process may need to be gone after its connections are."""


class Ranks(Protocol):
    """Processes that call the same methods in the same order."""

    rank: int
    world: int

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value, by rank, on all ranks. Raises `CheckpointError`."""
        ...

    def gather_bytes(self, value: bytes) -> list[bytes]:
        """As `gather`; quicker, for values of the same length on all ranks."""
        ...

    def another(self) -> Ranks:
        """The same ranks once more, for another thread. A collective call."""
        ...

    def close(self) -> None:
        """Let go of connections and their threads."""
        ...


class OneRank:
    """A process of its own."""

    rank = 0
    world = 1

    def gather(self, value: Any) -> list[Any]:
        """See `Ranks.gather`."""
        return [value]

    def gather_bytes(self, value: bytes) -> list[bytes]:
        """See `Ranks.gather_bytes`."""
        return [value]

    def another(self) -> Ranks:
        """See `Ranks.another`."""
        return self

    def close(self) -> None:
        """See `Ranks.close`."""


class GroupOfRanks:
    """The ranks of a group of torch's; they talk over gloo groups of their own.

    Making one is a collective call. It must not be used by two threads at once.

    Args:
        group: A group of torch's; all ranks by default.
        timeout: Seconds after which a rank that does not answer is given up.
    """

    def __init__(self, group: Any = None, timeout: float = 600.0) -> None:
        import torch.distributed as dist

        self.rank = dist.get_rank(group)
        self._members = dist.get_process_group_ranks(group or dist.group.WORLD)
        self.world = len(self._members)
        self._all = self.world == dist.get_world_size()
        self._timeout = timeout
        self._looking = min(_LOOKING, timeout)
        self._group = self._new_group(timeout)
        # Serves to find out who is missing when the first has failed.
        self._afterwards = self._new_group(timeout + self._looking)
        self._owns_afterwards = True
        self._processes: list[tuple[str, int]] = self.gather((_machine(), os.getpid()))

    def _new_group(self, seconds: float) -> Any:
        import torch.distributed as dist

        return dist.new_group(
            self._members,
            timeout=datetime.timedelta(seconds=seconds),
            backend="gloo",
            use_local_synchronization=not self._all,
        )

    def another(self) -> Ranks:
        """See `Ranks.another`."""
        found = copy.copy(self)
        found._group = self._new_group(self._timeout)
        found._owns_afterwards = False
        return found

    def close(self) -> None:
        """See `Ranks.close`. The threads of a group wake up a hundred times a second.

        Groups of some ranks stay: torch names them by their members, and another one would meet
        what the first has left behind.
        """
        import torch.distributed as dist

        groups = [self._group, *([self._afterwards] if self._owns_afterwards else [])]
        self._owns_afterwards, self._group = False, None
        for group in groups:
            if group is not None and self._all and dist.is_initialized():
                dist.destroy_process_group(group)

    def gather(self, value: Any) -> list[Any]:
        """See `Ranks.gather`."""
        import torch.distributed as dist

        found: list[Any] = [None] * self.world
        try:
            dist.all_gather_object(found, value, group=self._open())
        except RuntimeError as exc:
            raise self._gone(exc) from exc
        return found

    def gather_bytes(self, value: bytes) -> list[bytes]:
        """See `Ranks.gather_bytes`."""
        import torch
        import torch.distributed as dist

        if not value:
            return [b""] * self.world
        mine = torch.frombuffer(bytearray(value), dtype=torch.uint8)
        found = [torch.empty_like(mine) for _ in range(self.world)]
        try:
            dist.all_gather(found, mine, group=self._open())
        except RuntimeError as exc:
            raise self._gone(exc) from exc
        return [bytes(each.numpy()) for each in found]

    def _open(self) -> Any:
        if self._group is None:
            raise CheckpointError("these ranks were closed: make another Checkpointer")
        return self._group

    def _gone(self, problem: Exception) -> CheckpointError:
        """The error that says who is missing, as far as this rank can find out."""
        missing = self._missing_here() or self._missing_anywhere()
        who = "; ".join(f"rank {rank} {what}" for rank, what in sorted(missing.items()))
        return CheckpointError(
            f"rank {self.rank} of {self.world}: "
            + (who or f"another rank does not answer ({_first_line(problem)})")
            + "; nothing was saved or loaded"
        )

    def _missing_here(self) -> dict[int, str]:
        """Ranks on this machine whose processes are gone or do not run."""
        found: dict[int, str] = {}
        patience = time.monotonic() + _DYING
        while not found and time.monotonic() < patience:
            found = self._not_running()
            if not found:
                time.sleep(0.05)
        return found

    def _not_running(self) -> dict[int, str]:
        found = {}
        for rank, (machine, pid) in enumerate(self._processes):
            if machine == _machine() and (state := _state_of(pid)):
                found[rank] = f"(process {pid}) {state}"
        return found

    def _missing_anywhere(self) -> dict[int, str]:
        """Ranks that do not come to a last meeting; only the first rank hears who."""
        import torch.distributed as dist

        try:
            dist.monitored_barrier(
                self._afterwards, datetime.timedelta(seconds=self._looking), wait_all_ranks=True
            )
        except RuntimeError as exc:
            named = re.search(r"[Rr]anks? ([\d, ]+) failed", str(exc))
            if self.rank == 0 and named:
                return {int(rank): "does not answer" for rank in re.findall(r"\d+", named[1])}
        return {}


def _machine() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{os.uname().nodename} {file.read().strip()}"
    except OSError:
        return os.uname().nodename


def _state_of(pid: int) -> str:
    """What is wrong with a process of this machine; empty if it runs."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            state = file.read().rpartition(")")[2].split()[0]
    except OSError:
        state = "X" if os.path.exists("/proc/self") else ""
    return {"X": "is gone", "Z": "has died", "T": "is stopped"}.get(state, "")


def these_ranks(group: Any = None, timeout: float = 600.0) -> Ranks:
    """The ranks of this job; this process alone where torch's groups are not in use."""
    import torch.distributed as dist

    if group is None and not (dist.is_available() and dist.is_initialized()):
        return OneRank()
    return GroupOfRanks(group, timeout)


def _first_line(problem: Exception) -> str:
    return str(problem).strip().splitlines()[0] if str(problem).strip() else repr(problem)
