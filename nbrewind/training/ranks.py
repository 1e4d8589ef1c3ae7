"""The ranks that save together: who they are, and how they agree."""

from __future__ import annotations

import datetime
from typing import Any, Protocol

from nbrewind.errors import CheckpointError


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


class GroupOfRanks:
    """The ranks of a group of torch's; they talk over a gloo group of their own.

    Making one is a collective call. It must not be used by two threads at once.

    Args:
        group: A group of torch's; all ranks by default.
        timeout: Seconds after which a rank that does not answer is given up.
    """

    def __init__(self, group: Any = None, timeout: float = 600.0) -> None:
        import torch.distributed as dist

        members = dist.get_process_group_ranks(group or dist.group.WORLD)
        self.rank = dist.get_rank(group)
        self.world = len(members)
        self._timeout = datetime.timedelta(seconds=timeout)
        self._group = dist.new_group(
            members, timeout=self._timeout, backend="gloo", use_local_synchronization=True
        )

    def gather(self, value: Any) -> list[Any]:
        """See `Ranks.gather`."""
        import torch.distributed as dist

        found: list[Any] = [None] * self.world
        try:
            dist.all_gather_object(found, value, group=self._group)
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
            dist.all_gather(found, mine, group=self._group)
        except RuntimeError as exc:
            raise self._gone(exc) from exc
        return [bytes(each.numpy()) for each in found]

    def _gone(self, problem: Exception) -> CheckpointError:
        return CheckpointError(
            f"rank {self.rank} of {self.world}: another rank does not answer, so nothing was saved "
            f"({_first_line(problem)})"
        )


def these_ranks(group: Any = None, timeout: float = 600.0) -> Ranks:
    """The ranks of this job; this process alone where torch's groups are not in use."""
    import torch.distributed as dist

    if group is None and not (dist.is_available() and dist.is_initialized()):
        return OneRank()
    return GroupOfRanks(group, timeout)


def _first_line(problem: Exception) -> str:
    return str(problem).strip().splitlines()[0] if str(problem).strip() else repr(problem)
