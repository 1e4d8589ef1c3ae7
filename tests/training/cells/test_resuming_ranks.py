"""A loop on several ranks: stopped on one of them, it goes on, also on another number of ranks."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import nbrewind.training as nt
from nbrewind.errors import RankFailed


@pytest.fixture(autouse=True)
def by_value() -> Iterator[None]:
    """What this module defines travels as what a notebook defines."""
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


def train(place: str, size: int, stop: tuple[int, int, int] | None = None) -> list[Any]:
    """Train data-parallel; `stop` is a rank, a step, and the signal it gets there."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    x = torch.linspace(0, 1, 256).reshape(64, 4)
    data = TensorDataset(x, x.sum(1, keepdim=True))
    torch.manual_seed(dist.get_rank())  # each rank draws its own noise
    loader = DataLoader(data, batch_size=size, sampler=DistributedSampler(data, seed=1))
    losses: list[float] = []
    state = {"model": model, "optimizer": optimizer, "losses": losses}
    with nt.session("ranks", store=place, every=3, **state) as run:
        for step, (a, b) in run.steps(loader, until=20):
            loss = torch.nn.functional.mse_loss(model(a + 0.01 * torch.rand(1)), b)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if stop is not None and stop[:2] == (dist.get_rank(), step):
                os.kill(os.getpid(), stop[2])
    return [run.resumed, losses, [p.tolist() for p in model.parameters()], torch.rand(1).item()]


def test_a_rank_is_killed_and_all_go_on(tmp_path: Path) -> None:
    whole = nt.launch(train, 2, (str(tmp_path / "whole"), 4))
    with pytest.raises(RankFailed, match="rank 1 of 2 was killed by SIGKILL"):
        nt.launch(train, 2, (str(tmp_path / "parts"), 4, (1, 11, signal.SIGKILL)))
    parts = nt.launch(train, 2, (str(tmp_path / "parts"), 4))
    assert parts[0][0] in (6, 9)
    assert [part[1:] for part in parts] == [rank[1:] for rank in whole]


@pytest.mark.long
def test_a_signal_to_one_rank_stops_all_at_the_same_step_and_other_ranks_go_on(
    tmp_path: Path,
) -> None:
    with pytest.raises(RankFailed, match=r"Interrupted: stopped after step (\d+)"):
        nt.launch(train, 2, (str(tmp_path), 4, (1, 7, signal.SIGUSR1)))
    parts = nt.launch(train, 1, (str(tmp_path), 8))
    assert parts[0][0] is not None
    assert parts[0][0] >= 8
    assert len(parts[0][1]) == 20
    whole = nt.launch(train, 2, (str(tmp_path / "whole"), 4))
    assert parts[0][2][0][0] == pytest.approx(whole[0][2][0][0], abs=0.05)
