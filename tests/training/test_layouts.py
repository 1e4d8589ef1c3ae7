"""Saved in one layout, loaded in another: bit for bit what torch itself would put there."""

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

from .layouts import LAYOUTS, differences, set_to_reference

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def _built(name: str) -> tuple[Any, torch.optim.Optimizer]:
    import torch.distributed as dist

    model = LAYOUTS[name].build(dist.get_rank())
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def save(name: str, place: str) -> tuple[int, int]:
    model, optimizer = _built(name)
    set_to_reference(model, optimizer, LAYOUTS[name].experts)
    with Checkpointer(name, place) as checkpoints:
        saved = checkpoints.save({"model": model, "optimizer": optimizer}, step=3)
    assert saved.differing == ()
    return saved.bytes_state, saved.bytes_added


def load(name: str, sources: list[str], place: str) -> dict[str, list[str]]:
    wrong = {}
    for source in sources:
        model, optimizer = _built(name)
        with Checkpointer(source, place) as checkpoints:
            checkpoints.load({"model": model, "optimizer": optimizer})
        found = differences(model, optimizer, LAYOUTS[name].experts)
        if found:
            wrong[source] = found
    return wrong


QUICK = ["1", "DP2", "TP2", "PP2", "FSDP2x2", "MoE EP2", "MoE 1"]
"""Layouts on at most two ranks that have each of the ways to lie once."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("some", [QUICK, pytest.param([*LAYOUTS], marks=pytest.mark.long)])
def test_every_layout_loads_every_other(
    ranks: Callable[[int], RankPool], tmp_path: Path, some: list[str]
) -> None:
    place = str(tmp_path / "store")
    for name in some:
        ranks(LAYOUTS[name].world).run(save, name, place)
    for name in some:
        layout = LAYOUTS[name]
        sources = [other for other in some if LAYOUTS[other].experts == layout.experts]
        for rank, wrong in enumerate(ranks(layout.world).run(load, name, sources, place)):
            assert wrong == {}, f"{name}, rank {rank}"
