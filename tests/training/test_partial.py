"""Some experts at a time: what is saved, of which step it is, and what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from nbrewind.errors import CheckpointError, UsageError
from nbrewind.store import open_store
from nbrewind.store.check import check_store
from nbrewind.store.gc import collect
from nbrewind.training.checkpointer import Checkpointer
from nbrewind.training.partial import Partial
from nbrewind.training.retiring import retire

from ..store.collecting import AT_ONCE

EXPERTS = 16
STACKED = Partial(each=4, of=EXPERTS, experts={"experts.up": 0})
NUMBERED = Partial(each=4, of=EXPERTS, experts={"experts.*.weight": None})


def module(stacked: bool) -> torch.nn.Module:
    found = torch.nn.Module()
    if stacked:
        found.experts = torch.nn.Module()
        found.experts.up = torch.nn.Parameter(torch.zeros(EXPERTS, 200, 100))
    else:
        found.experts = torch.nn.ModuleList(
            torch.nn.Linear(100, 200, bias=False) for _ in range(EXPERTS)
        )
    found.router = torch.nn.Linear(10, EXPERTS)
    return found


def experts(found: Any, stacked: bool) -> list[torch.Tensor]:
    return list(found.experts.up) if stacked else [each.weight for each in found.experts]


def stamp(found: Any, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Every value tells of which step it is."""
    with torch.no_grad():
        for parameter in found.parameters():
            noise = torch.rand(parameter.shape)
            parameter.copy_(step + noise / 2)
            optimizer.state[parameter] = {"exp_avg": step + noise / 2}


@pytest.mark.parametrize("stacked", [True, False])
def test_each_expert_is_saved_in_turn(tmp_path: Path, stacked: bool) -> None:
    place = tmp_path / "store"
    model = module(stacked)
    optimizer = torch.optim.AdamW(model.parameters())
    partial = STACKED if stacked else NUMBERED
    added = []
    with Checkpointer("run", place, partial=partial) as checkpoints:
        for step in range(6):
            stamp(model, optimizer, step)
            state = {"model": model, "optimizer": optimizer}
            added.append(checkpoints.save(state, step=step).bytes_added)
        other = module(stacked)
        fresh = torch.optim.AdamW(other.parameters())
        loaded = checkpoints.load({"model": other, "optimizer": fresh})
        steps = [int(each.min()) for each in experts(other, stacked)]
        assert steps == [4 if e % 4 == 0 else 5 if e % 4 == 1 else 2 + e % 2 for e in range(16)]
        for number, each in enumerate(experts(other, stacked)):
            moment = fresh.state[other.experts.up if stacked else each]["exp_avg"]
            moment = moment[number] if stacked else moment
            assert torch.equal(moment, each)
        assert int(other.router.weight.min()) == 5
        assert set(loaded.stale.values()) <= {2, 3, 4}
        with pytest.raises(CheckpointError, match=r"of step 5 is a mixture: .* down to step 2"):
            checkpoints.load({"model": other}, strict=True)
    assert all(each <= 0.27 * added[0] for each in added[1:])


def test_what_a_later_checkpoint_refers_to_survives_the_earlier_one(tmp_path: Path) -> None:
    place = tmp_path / "store"
    model = module(stacked=True)
    optimizer = torch.optim.AdamW(model.parameters())
    with Checkpointer("run", place, partial=STACKED) as checkpoints:
        for step in range(3):
            stamp(model, optimizer, step)
            checkpoints.save({"model": model, "optimizer": optimizer}, step=step)
    with open_store(place) as store:
        assert len(retire(store, "run", keep=1, apply=True).retired) == 2
        for _ in range(3):
            collect(store, apply=True, patience=AT_ONCE)
        assert check_store(store).sound
    with Checkpointer("run", place) as checkpoints:
        assert checkpoints.load({"model": module(stacked=True)}).stale["model.experts.up"] == 0


def test_numbers_that_make_no_sense() -> None:
    with pytest.raises(UsageError, match="5 of 4 experts"):
        Partial(each=5, of=4, experts={})
