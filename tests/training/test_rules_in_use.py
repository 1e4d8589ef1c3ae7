"""Plain tensors whose layout only rules tell: fused, padded, numbered and tied ones."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import torch

from nbrewind.errors import CheckpointError, RuleError, UsageError
from nbrewind.testing.rank_pool import RankPool
from nbrewind.training.checkpointer import Checkpointer

cloudpickle.register_pickle_by_value(sys.modules[__name__])

RULES = """
layers.*.qkv.weight = fused(0, widths=[32, 16, 16]) @tp   # queries, keys, values
layers.*.out.weight = shard(1) @tp
layers.*.up.weight = fused(0, parts=2) @tp                # gate and up
layers.*.norm.weight = replicate
layers.*.experts.{e}.weight = expert(index=e, count=4) @tp
embed.weight = pad(0, logical=50) | shard(0) @tp
head.weight = alias(embed.weight)
"""

SHAPES = {"qkv": (64, 24), "out": (24, 32), "up": (40, 24), "norm": (24,)}


def value(name: str, *shape: int) -> torch.Tensor:
    """The whole tensor of a name."""
    generator = torch.Generator().manual_seed(sum(name.encode()) * 7919 % 100_003)
    return torch.randn(*shape, generator=generator)


def part(name: str, tp: int, rank: int) -> torch.Tensor:
    """What a rank has of a tensor, worked out without rules."""
    kind = name.split(".")[-2] if "norm" not in name else "norm"
    if kind in ("embed", "head"):
        whole = torch.zeros(-(-50 // tp) * tp, 24)
        whole[:50] = value("embed.weight", 50, 24)
        return whole.chunk(tp)[rank].clone()
    whole = value(name, *SHAPES[kind])
    if kind == "qkv":
        return torch.cat([each.chunk(tp)[rank] for each in whole.split([32, 16, 16])])
    if kind == "up":
        return torch.cat([each.chunk(tp)[rank] for each in whole.chunk(2)])
    return whole.chunk(tp, 1)[rank].clone() if kind == "out" else whole


def model(tp: int, rank: int) -> Any:
    """All parameters of a rank; experts are numbered from 0 on each."""
    found = torch.nn.Module()

    def put(name: str, tensor: torch.Tensor) -> None:
        at = found
        *path, leaf = name.split(".")
        for step in path:
            if not hasattr(at, step):
                at.add_module(step, torch.nn.Module())
            at = getattr(at, step)
        at.register_parameter(leaf, torch.nn.Parameter(tensor))

    for layer in range(2):
        for kind in SHAPES:
            put(f"layers.{layer}.{kind}.weight", part(f"layers.{layer}.{kind}.weight", tp, rank))
        for number in range(4 // tp):
            expert = f"layers.{layer}.experts.{rank * (4 // tp) + number}.weight"
            put(f"layers.{layer}.experts.{number}.weight", value(expert, 6, 5))
    put("embed.weight", part("embed.weight", tp, rank))
    put("head.weight", part("embed.weight", tp, rank))
    return found


def rank_of_tp() -> tuple[int, int]:
    import torch.distributed as dist

    return dist.get_world_size(), dist.get_rank()


def save(place: str) -> tuple[str, ...]:
    tp, rank = rank_of_tp()
    whole = model(tp, rank)
    optimizer = torch.optim.AdamW(whole.parameters(), lr=0.25)
    for parameter in whole.parameters():
        optimizer.state[parameter] = {
            "step": torch.tensor(4.0),
            "exp_avg": parameter.detach() * 2,
            "exp_avg_sq": parameter.detach() ** 2,
        }
    with Checkpointer(f"tp{tp}", place, rules=RULES, mesh={"tp": tp}) as checkpoints:
        return checkpoints.save({"model": whole, "optimizer": optimizer}, step=1).differing


def load(source: str, place: str) -> list[str]:
    tp, rank = rank_of_tp()
    right, found = model(tp, rank), model(tp, rank)
    optimizer = torch.optim.AdamW(found.parameters())
    for parameter in found.parameters():
        torch.nn.init.constant_(parameter, -9.0)
    with Checkpointer(source, place, rules=RULES, mesh={"tp": tp}) as checkpoints:
        checkpoints.load({"model": found, "optimizer": optimizer})
    wrong = []
    for (name, parameter), (_, expected) in zip(
        found.named_parameters(), right.named_parameters(), strict=True
    ):
        if not torch.equal(parameter, expected):
            wrong.append(name)
        state = optimizer.state[parameter]
        if not torch.equal(state["exp_avg"], expected * 2) or float(state["step"]) != 4.0:
            wrong.append(f"{name}: moments")
        if not torch.equal(state["exp_avg_sq"], expected**2):
            wrong.append(f"{name}: squares")
    return wrong


@pytest.mark.parametrize("degrees", [(1, 2), pytest.param((1, 2, 4), marks=pytest.mark.long)])
def test_every_degree_loads_every_other(
    ranks: Callable[[int], RankPool], tmp_path: Path, degrees: tuple[int, ...]
) -> None:
    place = str(tmp_path / "store")
    for tp in degrees:
        assert ranks(tp).run(save, place) == [()] * tp
    for tp in degrees:
        for source in degrees:
            assert ranks(tp).run(load, f"tp{source}", place) == [[]] * tp, f"tp{source} in tp{tp}"


def _without_rules(place: str) -> str:
    tp, rank = rank_of_tp()
    try:
        with Checkpointer("tp2", place) as checkpoints:
            checkpoints.load({"model": model(tp, rank)})
    except CheckpointError as exc:
        return str(exc)
    return ""


def _own_parts(place: str) -> None:
    _, rank = rank_of_tp()
    with Checkpointer("own", place) as checkpoints:
        checkpoints.save({"x": torch.full((600_000,), float(rank))}, step=1)


def test_without_rules_nothing_is_guessed(ranks: Callable[[int], RankPool], tmp_path: Path) -> None:
    place = str(tmp_path / "store")
    ranks(2).run(save, place)
    said = ranks(1).run(_without_rules, place)[0]
    assert said == ""  # one rank has everything whole, and numbers experts as all do
    assert "does not fit; nothing was loaded" in ranks(2).run(_without_rules, place)[0]
    ranks(2).run(_own_parts, place)
    with (
        Checkpointer("own", place) as checkpoints,
        pytest.raises(CheckpointError, match="x was different on each of 2 ranks"),
    ):
        checkpoints.load({"x": None})


def _forgotten(place: str) -> str:
    tp, rank = rank_of_tp()
    rules = "\n".join(line for line in RULES.splitlines() if "out" not in line)
    try:
        with Checkpointer("x", place, rules=rules, mesh={"tp": tp}) as checkpoints:
            checkpoints.save({"model": model(tp, rank)}, step=1)
    except (CheckpointError, RuleError) as exc:
        return str(exc)
    return ""


def test_a_parameter_without_a_rule_is_named(
    ranks: Callable[[int], RankPool], tmp_path: Path
) -> None:
    for said in ranks(2).run(_forgotten, str(tmp_path / "store")):
        assert "layers.0.out.weight" in said


def test_rules_need_a_mesh_of_the_right_size(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has 2 ranks, but there are 1"):
        Checkpointer("x", tmp_path / "store", rules=RULES, mesh={"tp": 2})
