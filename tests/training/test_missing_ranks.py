"""A rank that dies or hangs is named by the others, within the time-out."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import cloudpickle
import pytest
import torch

from nbrewind.errors import CheckpointError
from nbrewind.testing.rank_pool import RankPool
from nbrewind.training.checkpointer import Checkpointer

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def _save_without_one(place: str, how: str) -> str:
    import time

    import torch.distributed as dist

    checkpoints = Checkpointer("run", place, timeout=3)
    state = {"x": torch.ones(1000) * dist.get_rank()}
    checkpoints.save(state, step=1)
    if dist.get_rank() == 1:
        if how == "hangs":
            time.sleep(1000)
        os.kill(os.getpid(), signal.SIGKILL if how == "dies" else signal.SIGSTOP)
    try:
        checkpoints.save(state, step=2)
    except CheckpointError as exc:
        return str(exc)
    return ""


@pytest.mark.parametrize(
    ("how", "what", "by"),
    [
        ("dies", r"rank 1 \(process \d+\) (has died|is gone)", {0, 2}),
        pytest.param("stops", r"rank 1 \(process \d+\) is stopped", {0, 2}, marks=pytest.mark.long),
        pytest.param("hangs", r"rank 1 does not answer", {0}, marks=pytest.mark.long),
    ],
)
def test_it_is_named(tmp_path: Path, how: str, what: str, by: set[int]) -> None:
    import re

    place = str(tmp_path / "store")
    pool = RankPool(3, tmp_path)
    try:
        pool.start(_save_without_one, place, how)
        for rank in (0, 2):
            said = pool.result_of(rank)
            assert "nothing was saved" in said
            if rank in by:
                assert re.search(what, said), said
    finally:
        os.kill(pool.processes[1].pid, signal.SIGKILL)
        pool.close()
    with Checkpointer("run", place) as checkpoints:
        assert checkpoints.steps() == [1]
