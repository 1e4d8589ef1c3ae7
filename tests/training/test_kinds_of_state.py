"""Everything that people keep in a training state."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import torch

from nbrewind.errors import CheckpointError
from nbrewind.testing.rank_pool import RankPool
from nbrewind.training.checkpointer import Checkpointer

from .states import equal, network, train

cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_moving_averages_scalers_and_what_has_a_state_dict(place: Path) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    warm = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 9),
        ],
        milestones=[2],
    )
    for step in range(3):
        train(model, optimizer, 1, seed=step)
        average.update_parameters(model)
        warm.step()
    scaler.scale(torch.ones(()))
    scaler.update(64.0)
    state = {"model": model, "optimizer": optimizer, "average": average, "scaler": scaler}
    state["schedule"] = warm
    with Checkpointer("run", place) as checkpoints:
        checkpoints.save(state, step=3)
        fresh_model = network(seed=9)
        fresh_optimizer = torch.optim.SGD(fresh_model.parameters(), lr=0.7)
        fresh: dict[str, Any] = {
            "model": fresh_model,
            "optimizer": fresh_optimizer,
            "average": torch.optim.swa_utils.AveragedModel(fresh_model),
            "scaler": torch.amp.GradScaler("cpu"),
            "schedule": torch.optim.lr_scheduler.SequentialLR(
                fresh_optimizer,
                [
                    torch.optim.lr_scheduler.LinearLR(fresh_optimizer),
                    torch.optim.lr_scheduler.CosineAnnealingLR(fresh_optimizer, 9),
                ],
                milestones=[2],
            ),
        }
        checkpoints.load(fresh)
    for name in state:
        assert equal(fresh[name].state_dict(), state[name].state_dict()), name


class Halved(torch.Tensor):
    """A tensor made of two others, as quantized ones are."""

    @staticmethod
    def __new__(cls, values: torch.Tensor, scale: torch.Tensor) -> Halved:
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=torch.float32)

    def __init__(self, values: torch.Tensor, scale: torch.Tensor) -> None:
        self.values, self.scale = values, scale

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["values", "scale"], None

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is torch.ops.aten.detach.default:
            return cls(args[0].values, args[0].scale)
        raise NotImplementedError(str(function))


def test_parameters_that_are_made_of_other_tensors(place: Path) -> None:
    def module(seed: int) -> torch.nn.Module:
        torch.manual_seed(seed)
        found = torch.nn.Module()
        values = torch.randint(-8, 8, (30, 20), dtype=torch.int8)
        found.weight = torch.nn.Parameter(Halved(values, torch.rand(30)), requires_grad=False)
        return found

    model, other = module(0), module(1)
    with Checkpointer("run", place) as checkpoints:
        checkpoints.save({"model": model}, step=1)
        checkpoints.load({"model": other})
    assert torch.equal(other.weight.values, model.weight.values)
    assert torch.equal(other.weight.scale, model.weight.scale)


def test_a_sparse_tensor_is_refused_by_name(place: Path) -> None:
    with (
        Checkpointer("run", place) as checkpoints,
        pytest.raises(CheckpointError, match=r"x\.sparse is a tensor of layout torch.sparse_coo"),
    ):
        checkpoints.save({"x": {"sparse": torch.eye(3).to_sparse()}}, step=1)


def test_several_models_and_optimizers(place: Path) -> None:
    def build(seed: int) -> dict[str, Any]:
        torch.manual_seed(seed)
        one, other = torch.nn.Linear(3, 4), torch.nn.Linear(4, 3)
        return {
            "generator": one,
            "critic": other,
            "first": torch.optim.Adam(one.parameters()),
            "second": torch.optim.Adam([*other.parameters(), *one.parameters()]),
        }

    state = build(0)
    state["critic"](state["generator"](torch.ones(2, 3))).sum().backward()
    state["first"].step()
    state["second"].step()
    fresh = build(1)
    with Checkpointer("run", place) as checkpoints:
        checkpoints.save(state, step=1)
        checkpoints.load(fresh)
    for name in state:
        assert equal(fresh[name].state_dict(), state[name].state_dict()), name


def _fsdp1(place: str) -> str:
    """The predecessor of `fully_shard`: parameters in one flat shard on each rank."""
    import warnings

    import torch.distributed as dist
    from torch.distributed.fsdp import FullyShardedDataParallel

    warnings.simplefilter("ignore")

    def build(seed: int) -> tuple[Any, torch.optim.Optimizer]:
        torch.manual_seed(seed)
        inner = torch.nn.Sequential(torch.nn.Linear(7, 11), torch.nn.Linear(11, 3))
        model = FullyShardedDataParallel(inner, device_id=torch.device("cpu"), use_orig_params=True)
        return model, torch.optim.AdamW(model.parameters(), lr=0.01)

    def step(model: Any, optimizer: torch.optim.Optimizer) -> float:
        optimizer.zero_grad()
        loss = model(torch.arange(14.0).reshape(2, 7) / 14).pow(2).mean()
        loss.backward()
        optimizer.step()
        return float(loss)

    model, optimizer = build(0)
    step(model, optimizer)
    with Checkpointer("fsdp1", place) as checkpoints:
        checkpoints.save({"model": model, "optimizer": optimizer}, step=1)
        expected = [step(model, optimizer) for _ in range(3)]
        other, fresh = build(5)
        checkpoints.load({"model": other, "optimizer": fresh})
    assert [step(other, fresh) for _ in range(3)] == expected
    return str(dist.get_rank())


def _plain(place: str) -> list[tuple[int, ...]]:
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(7, 11), torch.nn.Linear(11, 3))
    optimizer = torch.optim.AdamW(model.parameters())
    with Checkpointer("fsdp1", place) as checkpoints:
        checkpoints.load({"model": model, "optimizer": optimizer})
    assert optimizer.param_groups[0]["lr"] == 0.01
    return [tuple(optimizer.state[p]["exp_avg"].shape) for p in model.parameters()]


def test_fsdp1(ranks: Callable[[int], RankPool], place: Path) -> None:
    ranks(2).run(_fsdp1, str(place))
    assert ranks(1).run(_plain, str(place)) == [[(11, 7), (11,), (3, 11), (3,)]]
