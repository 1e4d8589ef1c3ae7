"""DTensor placements as rules, against what torch itself makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard
from torch.testing._internal.distributed.fake_pg import FakeStore

from nbrewind.errors import RuleError
from nbrewind.training.rules import Mesh
from nbrewind.training.rules.compiling import compile_steps
from nbrewind.training.rules.placements import inferred, mapping_of, mesh_of, reduced, steps_of

from .layouts import assembled

CASES: list[tuple[dict[str, int], list[Any]]] = [
    ({"dp": 2}, [Shard(0)]),
    ({"dp": 4}, [Shard(0)]),
    ({"dp": 3}, [Shard(1)]),
    ({"dp": 2}, [Replicate()]),
    ({"dp": 2, "tp": 2}, [Shard(0), Shard(1)]),
    ({"dp": 2, "tp": 3}, [Shard(0), Shard(0)]),
    ({"dp": 2, "tp": 2}, [_StridedShard(0, split_factor=2), Shard(0)]),
    ({"dp": 3, "tp": 2}, [_StridedShard(0, split_factor=2), Shard(0)]),
    ({"dp": 2, "tp": 4}, [_StridedShard(1, split_factor=4), Shard(1)]),
    ({"dp": 2, "cp": 2, "tp": 2}, [Replicate(), Shard(0), Shard(0)]),
    ({"dp": 2, "cp": 2, "tp": 2}, [_StridedShard(0, split_factor=4), Shard(0), Shard(0)]),
    ({"pp": 2, "dp": 2, "tp": 2}, [Shard(2), _StridedShard(0, split_factor=2), Shard(0)]),
]


@pytest.mark.parametrize("shape", [(8, 4, 4), (7, 5, 3), (1, 2, 1), (0, 4, 4)], ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_placements_are_what_torch_makes_of_them(case: Any, shape: tuple[int, ...]) -> None:
    degrees, placements = case
    mesh = Mesh(degrees)
    whole = torch.arange(1.0, np.prod(shape) + 1).reshape(shape)
    saved = []
    for coordinates in mesh.coordinates():
        local = whole
        for placement, (axis, degree) in zip(placements, degrees.items(), strict=True):
            if not isinstance(placement, Replicate):
                parts, _ = placement._split_tensor(local, degree, with_padding=False)
                local = parts[coordinates[axis]]
        steps = steps_of(placements, [*degrees])
        shape_here = tuple(local.shape)
        mapping = compile_steps(steps, "w", shape, mesh, coordinates, local=shape_here)
        assert set(mapping.copies) == {
            axis for p, axis in zip(placements, degrees, strict=True) if isinstance(p, Replicate)
        }
        saved.append((mapping, local.numpy()))
    assert np.array_equal(assembled(shape, saved), whole.numpy())


@pytest.fixture(scope="module", params=[0, 5])
def one_of_six_ranks(request: pytest.FixtureRequest) -> Iterator[int]:
    """Ranks without the others: nothing is sent."""
    dist.init_process_group("fake", store=FakeStore(), rank=request.param, world_size=6)
    yield request.param
    dist.destroy_process_group()


def test_a_dtensor_on_its_rank(one_of_six_ranks: int) -> None:
    mesh = init_device_mesh("cpu", (2, 3), mesh_dim_names=("dp", "tp"))
    whole = torch.arange(35.0).reshape(7, 5)
    tensor = DTensor.from_local(
        whole[4:7] if one_of_six_ranks else whole[:2],
        mesh,
        [_StridedShard(0, split_factor=3), Shard(0)],
        shape=torch.Size((7, 5)),
        stride=(5, 1),
    )
    if one_of_six_ranks:
        with pytest.raises(RuleError, match=r"w: .* but it has \(3, 5\)"):
            mapping_of(tensor, "w")
        return
    mapping = mapping_of(tensor, "w")
    assert mapping is not None
    for part, piece in mapping.parts(tensor.to_local()):
        assert torch.equal(part, whole[piece.whole.slices])
    assert dict(mesh_of(mesh).degrees) == {"dp": 2, "tp": 3}


def test_sums_that_are_not_computed_are_refused(one_of_six_ranks: int) -> None:
    mesh = init_device_mesh("cpu", (6,))
    tensor = DTensor.from_local(torch.ones(2), mesh, [Partial()])
    with pytest.raises(RuleError, match="along dim_0 ranks have values that are still to be red"):
        mapping_of(tensor, "w")
    assert mapping_of(reduced(tensor), "w") is not None
    mean = DTensor.from_local(torch.ones(2), mesh, [Partial("avg")])
    mapping = mapping_of(mean, "w")
    assert mapping is not None
    assert mapping.averaged == ("dim_0",)


def test_a_rank_that_is_not_in_the_mesh_has_nothing(one_of_six_ranks: int) -> None:
    if one_of_six_ranks == 0:
        return
    from torch.distributed.device_mesh import DeviceMesh

    mesh = DeviceMesh("cpu", [0, 1])
    tensor = DTensor.from_local(torch.ones(0), mesh, [Shard(0)], shape=(4,), stride=(1,))
    assert mapping_of(tensor, "w") is None


def test_layers_that_are_alike_have_one_rule(one_of_six_ranks: int) -> None:
    mesh = init_device_mesh("cpu", (6,), mesh_dim_names=("tp",))

    def tensor(placement: Any) -> DTensor:
        return DTensor.from_local(torch.ones(2, 2), mesh, [placement], run_check=False)

    rules = inferred(
        {
            "h.0.w": tensor(Shard(0)),
            "h.1.w": tensor(Shard(0)),
            "h.0.b": tensor(Replicate()),
            "h.1.b": tensor(Shard(1)),
            "x*y": torch.ones(1),
        }
    )
    assert [" ".join(line.split()) for line in str(rules).splitlines()] == [
        "h.*.w = shard(0) @tp",
        "h.0.b = replicate",
        "h.1.b = shard(1) @tp",
        r"x\*y = replicate",
    ]
