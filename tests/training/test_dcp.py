"""Torch's own `save` and `load` on our storage."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from nbrewind.errors import CheckpointError
from nbrewind.testing.rank_pool import RankPool
from nbrewind.training.dcp import (
    NBRewindLoadPlanner,
    NBRewindReader,
    NBRewindSavePlanner,
    NBRewindWriter,
)

from .layouts import LAYOUTS, differences, set_to_reference

cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")

PLANNERS: dict[str, tuple[Any, Any]] = {
    "ours": (NBRewindSavePlanner, NBRewindLoadPlanner),
    "torch's": (dcp.DefaultSavePlanner, dcp.DefaultLoadPlanner),
}


def save(name: str, place: str, planner: str) -> None:
    import torch.distributed as dist

    model = LAYOUTS[name].build(dist.get_rank())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    set_to_reference(model, optimizer, LAYOUTS[name].experts)
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "epoch": 3, "names": ["a", ("b", 1)]}
    writer = NBRewindWriter(name, place, step=7)
    dcp.save(state, storage_writer=writer, planner=PLANNERS[planner][0]())


def load(name: str, source: str, place: str, planner: str) -> list[str]:
    import torch.distributed as dist

    model = LAYOUTS[name].build(dist.get_rank())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5)
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "epoch": 0, "names": None}
    dcp.load(state, storage_reader=NBRewindReader(source, place), planner=PLANNERS[planner][1]())
    set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )
    assert state["epoch"] == 3
    assert list(state["names"][1]) == ["b", 1]
    assert optimizer.param_groups[0]["lr"] == 0.01
    return differences(model, optimizer, LAYOUTS[name].experts)


@pytest.mark.parametrize("planner", PLANNERS)
def test_saved_by_torch_and_loaded_in_another_layout(
    ranks: Callable[[int], RankPool], tmp_path: Path, planner: str
) -> None:
    place = str(tmp_path / "store")
    some = ["1", "FSDP2x2", "TP2"]
    for name in some:
        ranks(LAYOUTS[name].world).run(save, name, place, planner)
    for name in some:
        for source in some:
            answers = ranks(LAYOUTS[name].world).run(load, name, source, place, planner)
            assert answers == [[]] * LAYOUTS[name].world, f"{source} in {name}"


def test_a_type_is_not_converted_unseen(tmp_path: Path) -> None:
    place = tmp_path / "store"
    dcp.save({"x": torch.ones(3) / 3}, storage_writer=NBRewindWriter("r", place), no_dist=True)
    into = {"x": torch.zeros(3, dtype=torch.bfloat16)}
    with pytest.raises(dcp.api.CheckpointException, match="ask for a cast"):
        dcp.load(into, storage_reader=NBRewindReader("r", place), no_dist=True)
    assert not into["x"].any()
    dcp.load(into, storage_reader=NBRewindReader("r", place, cast=True), no_dist=True)
    assert torch.equal(into["x"], (torch.ones(3) / 3).bfloat16())


def test_in_the_background(tmp_path: Path) -> None:
    place = tmp_path / "store"
    state = {"x": torch.arange(100_000.0)}
    future = dcp.async_save(state, storage_writer=NBRewindWriter("r", place), no_dist=True)
    state["x"].zero_()
    future.result()
    into = {"x": torch.zeros(100_000)}
    dcp.load(into, storage_reader=NBRewindReader("r", place), no_dist=True)
    assert torch.equal(into["x"], torch.arange(100_000.0))


def test_what_is_not_plain_is_refused_without_pickles(tmp_path: Path) -> None:
    writer = NBRewindWriter("r", tmp_path / "store")
    planner = NBRewindSavePlanner()
    with pytest.raises(dcp.api.CheckpointException, match="neither a tensor nor a plain") as e:
        dcp.save({"x": object()}, storage_writer=writer, planner=planner, no_dist=True)
    assert isinstance(next(iter(e.value.failures.values()))[0], CheckpointError)
