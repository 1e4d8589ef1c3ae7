"""Training that was interrupted goes on as if it had not been: the losses say so."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import torch

from nbrewind.testing.rank_pool import RankPool
from nbrewind.training.checkpointer import Checkpointer

from .layouts import LAYOUTS, VOCABULARY

cloudpickle.register_pickle_by_value(sys.modules[__name__])

BATCH, LENGTH = 12, 7
IN_TP = {"TP2"}


def losses(name: str, source: str, place: str, first: int, last: int, *, save: bool) -> list[float]:
    """Losses of the steps from `first` to `last`; data parallel ranks share out the batch."""
    import torch.distributed as dist

    model: Any = LAYOUTS[name].build(dist.get_rank())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)
    state = {"model": model, "optimizer": optimizer, "schedule": schedule}
    found = []
    shares = 1 if name in IN_TP else dist.get_world_size()
    mine = 0 if name in IN_TP else dist.get_rank()
    with Checkpointer(source, place) as checkpoints:
        if first:
            assert checkpoints.load(state, step=first).step == first
        for step in range(first, last):
            generator = torch.Generator().manual_seed(step)
            tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH), generator=generator)
            tokens = tokens.chunk(shares)[mine]
            optimizer.zero_grad()
            logits = model(tokens[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            schedule.step()
            total = loss.detach().clone()
            if shares > 1:
                dist.all_reduce(total)
                total /= shares
            found.append(float(total))
            if save:
                checkpoints.save_later(state, step=step + 1)
    return found


QUICK = ["1", "DP2", "TP2", "FSDP2x2"]
LONG = [*QUICK, "DP3", "FSDP2x4", "HSDP2x2"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("some", [QUICK, pytest.param(LONG, marks=pytest.mark.long)])
def test_the_losses_are_those_of_an_uninterrupted_run(
    ranks: Callable[[int], RankPool], tmp_path: Path, some: list[str]
) -> None:
    place = str(tmp_path / "store")
    whole = {}
    for name in some:
        pool = ranks(LAYOUTS[name].world)
        run = pool.run(lambda n=name: losses(n, n, place, 0, 6, save=True))
        whole[name] = run[0]
        assert run[0][-1] < run[0][0]
    for name in some:
        pool = ranks(LAYOUTS[name].world)
        for source in some:
            resumed = pool.run(lambda n=name, s=source: losses(n, s, place, 3, 6, save=False))[0]
            # DDP shares gradients out to buckets anew after its first step, which more than two
            # ranks then add up in another order.
            if source == name != "DP3":
                assert resumed == whole[name][3:], name  # to the bit
            else:
                expected = pytest.approx(whole[source][3:], rel=2e-5)
                assert resumed == expected, f"{source} in {name}"
