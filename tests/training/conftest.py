"""Ranks that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from nbrewind.testing.rank_pool import RankPool

from . import layouts, states

# Threads of OpenMP do not survive a fork, and a forked child waits for them: other tests fork.
torch.set_num_threads(1)


@pytest.fixture(scope="package")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], RankPool]]:
    """Ranks of a job of some size."""
    pools: dict[int, RankPool] = {}
    folder: Path = tmp_path_factory.mktemp("ranks")

    def pool(world: int) -> RankPool:
        if world not in pools:
            pools[world] = RankPool(world, folder, by_value=[layouts, states])
        return pools[world]

    yield pool
    for each in pools.values():
        each.close()
