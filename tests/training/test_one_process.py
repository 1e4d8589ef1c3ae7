"""Saving and loading in one process: every kind of state, and what does not fit."""

from __future__ import annotations

import copy
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nbrewind.errors import CheckpointError
from nbrewind.store import open_store
from nbrewind.store.check import check_store
from nbrewind.store.gc import collect
from nbrewind.training.checkpointer import Checkpointer

from ..store.collecting import AT_ONCE
from .states import equal, network, train

OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adagrad": lambda p: torch.optim.Adagrad(p),
    "adafactor": lambda p: torch.optim.Adafactor(p),
    "asgd": lambda p: torch.optim.ASGD(p),
    "rprop": lambda p: torch.optim.Rprop(p),
    "muon": lambda p: torch.optim.Muon([each for each in p if each.ndim == 2]),
    "tensor lr": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01)),
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_training_goes_on_as_if_never_interrupted(place: Path, kind: str) -> None:
    model = network()
    optimizer = OPTIMIZERS[kind]([*model.parameters()])
    train(model, optimizer, 3, seed=1)
    with Checkpointer("run", place) as checkpoints:
        checkpoints.save({"model": model, "optimizer": optimizer}, step=3)
    other = network(seed=5)
    fresh = OPTIMIZERS[kind]([*other.parameters()])
    with Checkpointer("run", place) as checkpoints:
        assert checkpoints.load({"model": other, "optimizer": fresh}).step == 3
    assert equal(other.state_dict(), model.state_dict())
    assert equal(fresh.state_dict(), optimizer.state_dict())
    assert train(other, fresh, 3, seed=2) == train(model, optimizer, 3, seed=2)
    assert equal(other.state_dict(), model.state_dict())


def test_a_fresh_optimizer_stays_fresh(place: Path) -> None:
    """No step is made to find out what it keeps."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters())
    with Checkpointer("run", place) as checkpoints:
        checkpoints.save({"model": model, "optimizer": optimizer}, step=0)
        train(model, optimizer, 1, seed=0)
        checkpoints.load({"model": model, "optimizer": optimizer})
    assert optimizer.state_dict()["state"] == {}


def test_groups_frozen_and_empty(place: Path) -> None:
    model = network()
    model.back.requires_grad_(False)
    groups = [
        {"params": [model.wide.weight], "lr": 0.5},
        {"params": [model.wide.bias, *model.back.parameters()]},
        {"params": []},
    ]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)
    train(model, optimizer, 2, seed=0)
    schedule.step()
    state = {"model": model, "optimizer": optimizer, "schedule": schedule}
    before = copy.deepcopy((optimizer.state_dict(), schedule.state_dict()))
    with Checkpointer("run", place) as checkpoints:
        checkpoints.save(state, step=2)
        train(model, optimizer, 2, seed=0)
        schedule.step()
        checkpoints.load(state)
    assert equal((optimizer.state_dict(), schedule.state_dict()), before)
    assert "initial_lr" in optimizer.param_groups[0]


VALUES: dict[Any, Any] = {
    "plain": [1, 2.5, "text", b"bytes", None, True, 2**80, 1 + 2j],
    "empty": [[], {}, (), set()],
    "keys": {0: "integer", "0": "text", (1, 2): "tuple", None: "none", True: "bool"},
    "ordered": OrderedDict(b=1, a=2),
    "sets": [{3, 1, 2}, frozenset("ab")],
    "list": [{"x": 1}, [{"y": (1, [2])}]],
    "numbers": [float("inf"), -0.0],
    "tensors": {
        "scalar": torch.tensor(3),
        "none": torch.empty(0, 7),
        "bool": torch.tensor([True, False, True]),
        "bf16": torch.arange(5, dtype=torch.bfloat16),
        "f8": torch.arange(5, dtype=torch.float32).to(torch.float8_e4m3fn).view(torch.uint8),
        "complex": torch.arange(4) * torch.tensor(1j, dtype=torch.complex128),
        "conj": (torch.arange(4) * torch.tensor(1j)).conj(),
        "strided": torch.arange(24).reshape(4, 6).T[1:5:2],
        "view": torch.arange(1_000_000)[10:20],
        "expanded": torch.ones(1, 3).expand(4, 3),
        "large": torch.arange(200_000, dtype=torch.float64).reshape(400, 500),
        "a.b": {"c": torch.ones(1)},
        "a": {"b.c": torch.zeros(1)},
    },
    "in a list": [torch.ones(2), (torch.zeros(2), 5)],
}


def test_values_come_back_as_they_were(place: Path) -> None:
    with Checkpointer("run", place) as checkpoints:
        checkpoints.save({"values": VALUES}, step=1)
        found = checkpoints.load({"values": None}).values["values"]
        for key, value in VALUES.items():
            assert equal(found[key], value), key
        assert checkpoints.load({"values": {"plain": None}}).values["values"]["empty"][0] == []
    # A view of ten elements does not bring the million behind it along.
    assert sum(f.stat().st_size for f in place.rglob("*.pack")) < 3_000_000


def test_numpy_scalars_are_numbers(place: Path) -> None:
    with Checkpointer("run", place) as checkpoints:
        checkpoints.save({"best": np.float64(0.5), "n": np.int64(3)}, step=1)
        assert checkpoints.load({"best": 0.0, "n": 0}).values == {"best": 0.5, "n": 3}


def test_what_does_not_fit_is_named_and_nothing_is_loaded(place: Path) -> None:
    model = torch.nn.Linear(4, 3)
    with Checkpointer("run", place) as checkpoints:
        checkpoints.save({"model": model}, step=1)
        for other, problem in [
            (torch.nn.Linear(4, 5), r"model.weight is \(3, 4\) in the checkpoint and \(5, 4\)"),
            (torch.nn.Linear(4, 3).bfloat16(), "float32 in the checkpoint and bfloat16 here"),
            (torch.nn.Sequential(torch.nn.Linear(4, 3)), "model.0.weight is not in it"),
        ]:
            before = copy.deepcopy(other.state_dict())
            with pytest.raises(CheckpointError, match=problem):
                checkpoints.load({"model": other})
            assert equal(dict(other.state_dict()), dict(before))
        cast = torch.nn.Linear(4, 3).bfloat16()
        checkpoints.load({"model": cast}, cast=True)
        assert torch.equal(cast.weight, model.weight.bfloat16())
        with pytest.raises(CheckpointError, match="has no optimizer; it has model"):
            checkpoints.load({"optimizer": None})
        with pytest.raises(CheckpointError, match="no checkpoint of step 9; it has those of 1"):
            checkpoints.load({"model": model}, step=9)
    with (
        Checkpointer("another", place) as checkpoints,
        pytest.raises(CheckpointError, match="no checkpoint of a run another"),
    ):
        checkpoints.load({"model": model})


class _Odd:
    pass


def test_values_that_are_not_plain_need_leave(place: Path) -> None:
    with Checkpointer("run", place) as checkpoints:
        with pytest.raises(CheckpointError, match=r"extra\.odd is a .*_Odd, which is neither"):
            checkpoints.save({"extra": {"odd": _Odd()}}, step=1)
        assert checkpoints.steps() == []
    with Checkpointer("run", place, pickles=True) as checkpoints:
        checkpoints.save({"extra": {"odd": _Odd()}}, step=1)
        assert isinstance(checkpoints.load({"extra": None}).values["extra"]["odd"], _Odd)
    with (
        Checkpointer("run", place) as checkpoints,
        pytest.raises(CheckpointError, match="pickled objects"),
    ):
        checkpoints.load({"extra": None})


def test_wrappers_are_no_part_of_names(place: Path) -> None:
    model = network()
    compiled = torch.compile(model, backend="eager")
    with Checkpointer("run", place) as checkpoints:
        checkpoints.save({"model": compiled}, step=1)
        other = network(seed=3)
        checkpoints.load({"model": other})
    assert equal(other.state_dict(), model.state_dict())


def test_only_what_changed_is_added(place: Path) -> None:
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(10)])
    model[:9].requires_grad_(False)
    with Checkpointer("run", place) as checkpoints:
        first = checkpoints.save({"model": model}, step=1)
        with torch.no_grad():
            model[9].weight += 1
        second = checkpoints.save({"model": model}, step=2)
    assert second.bytes_added <= 0.11 * first.bytes_added


def test_collections_and_checks_know_checkpoints(place: Path) -> None:
    model = network()
    with Checkpointer("run", place) as checkpoints:
        checkpoints.save({"model": model}, step=1)
    store = open_store(place)
    collect(store, apply=True, patience=AT_ONCE)
    collect(store, apply=True, patience=AT_ONCE)
    assert check_store(store).sound
    store.close()
    other = network(seed=3)
    with Checkpointer("run", place) as checkpoints:
        checkpoints.load({"model": other})
    assert equal(other.state_dict(), model.state_dict())
