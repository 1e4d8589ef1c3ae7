"""Shards of shards along one dimension that do not come out even."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import cloudpickle
import pytest
import torch

from nbrewind.testing.rank_pool import RankPool
from nbrewind.training.checkpointer import Checkpointer

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SHAPES = [(7, 5), (13, 3), (4, 9), (1, 2), (0, 3), (64, 64)]


def whole(shape: tuple[int, int]) -> torch.Tensor:
    return torch.arange(shape[0] * shape[1], dtype=torch.float32).reshape(shape)


def placed(placements: list[str], world: int) -> dict[str, torch.Tensor]:
    """Every shape, on a mesh of two dimensions if there are two placements."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.placement_types import _StridedShard

    kinds = {
        "rows": Shard(0),
        "columns": Shard(1),
        "all": Replicate(),
        "strided": _StridedShard(0, split_factor=2),
    }
    sizes = (world // 2, 2) if len(placements) == 2 else (world,)
    mesh = init_device_mesh("cpu", sizes)
    found = {}
    for shape in SHAPES:
        values = whole(shape)
        if placements[0] == "strided":
            # As FSDP makes them: first along the mesh's last dimension, then along the first.
            if shape[0] % 2 or not shape[0]:
                continue
            from torch.distributed.tensor import DTensor

            half = values.chunk(2)[mesh.get_coordinate()[1]]
            parts = half.chunk(sizes[0])
            row = mesh.get_coordinate()[0]
            mine = parts[row] if row < len(parts) else half[:0]
            found[str(shape)] = DTensor.from_local(
                mine.contiguous(),
                mesh,
                [kinds["strided"], kinds["rows"]],
                run_check=False,
                shape=torch.Size(shape),
                stride=values.stride(),
            )
        else:
            found[str(shape)] = distribute_tensor(values, mesh, [kinds[p] for p in placements])
    return found


def save(run: str, placements: list[str], world: int, place: str) -> None:
    with Checkpointer(run, place) as checkpoints:
        checkpoints.save({"x": placed(placements, world)}, step=1)


def load(run: str, placements: list[str], world: int, place: str) -> None:
    into = placed(placements, world)
    expected = {key: value.to_local().clone() for key, value in into.items()}
    for value in into.values():
        value.to_local().fill_(-1)
    with Checkpointer(run, place) as checkpoints:
        found = checkpoints.load({"x": into}).values["x"]
    for key, value in into.items():
        assert found[key] is value
        assert torch.equal(value.to_local(), expected[key]), (run, placements, key)


QUICK: list[tuple[int, list[str]]] = [(1, ["all"]), (2, ["rows"]), (2, ["columns"])]
LONG: list[tuple[int, list[str]]] = [
    *QUICK,
    (4, ["rows"]),
    (4, ["rows", "columns"]),
    (4, ["columns", "rows"]),
    (4, ["strided", "rows"]),
    (4, ["all", "columns"]),
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("cases", [QUICK, pytest.param(LONG, marks=pytest.mark.long)])
def test_every_shape_in_every_layout(
    ranks: Callable[[int], RankPool], tmp_path: Path, cases: list[tuple[int, list[str]]]
) -> None:
    place = str(tmp_path / "store")
    for world, placements in cases:
        ranks(world).run(save, f"{world} {placements}", placements, world, place)
    for world, placements in cases:
        for source, kind in cases:
            if "strided" in kind and "strided" not in placements:
                continue  # has only some of the shapes
            ranks(world).run(load, f"{source} {kind}", placements, world, place)
