"""Sources become checkpoints that training loads, and checkpoints become files."""

from __future__ import annotations

import json
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from typer.testing import CliRunner

import nbrewind.training as nt
from nbrewind.cli.app import app
from nbrewind.errors import CheckpointError
from nbrewind.store.opening import open_store
from nbrewind.training.boxes import Box
from nbrewind.training.convert import LogicalPart, LogicalTensor, Source
from nbrewind.training.convert.storing import store_source


def trained() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(3):
        model(torch.randn(5, 3)).sum().backward()
        optimizer.step()
    return model, optimizer


def fresh() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    return model, torch.optim.AdamW(model.parameters(), lr=1)


def assert_same(
    one: tuple[torch.nn.Module, torch.optim.Optimizer],
    other: tuple[torch.nn.Module, torch.optim.Optimizer],
) -> None:
    for a, b in zip(one[0].parameters(), other[0].parameters(), strict=True):
        assert torch.equal(a, b)
    left, right = one[1].state_dict(), other[1].state_dict()
    assert left["param_groups"] == right["param_groups"]
    for number, kept in left["state"].items():
        for key, value in kept.items():
            assert torch.equal(value, right["state"][number][key])


def run(*arguments: Any) -> Any:
    found = CliRunner().invoke(app, ["ckpt", *map(str, arguments)])
    assert found.exit_code == 0, found.output
    return found.output


@pytest.mark.filterwarnings("ignore:.*single process")
def test_from_dcp_through_the_store_and_back(tmp_path: Path) -> None:
    model, optimizer = trained()
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments}
    dcp.save(state, checkpoint_id=str(tmp_path / "a"), no_dist=True)
    store = tmp_path / "store"
    open_store(store).close()
    run("import", tmp_path / "a", "--run", "r", "--step", 3, "--store", store)

    found = fresh()
    loaded = nt.load({"model": found[0], "optimizer": found[1]}, "r", place=store)
    assert loaded.step == 3
    assert_same(found, (model, optimizer))

    run("export", "r", tmp_path / "b", "--format", "dcp", "--store", store)
    again = fresh()
    weights, moments = get_state_dict(*again)
    state = {"model": weights, "optimizer": moments}
    again[1].zero_grad()
    for kept in state["optimizer"]["state"].values():  # type: ignore[union-attr]
        assert kept
    dcp.load(state, checkpoint_id=str(tmp_path / "b"), no_dist=True)
    set_state_dict(
        again[0],
        again[1],
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],  # type: ignore[arg-type]
    )
    assert_same(again, (model, optimizer))


def test_what_training_saved_is_written_as_safetensors(tmp_path: Path) -> None:
    model, optimizer = trained()
    store = tmp_path / "store"
    nt.save({"model": model, "optimizer": optimizer}, "r", step=1, place=store)
    file = tmp_path / "m.safetensors"
    said = run(
        "export", "r", file, "--format", "safetensors", "--part", "model", "--store", store,
        "--json", "-",
    )  # fmt: skip
    assert json.loads(said)["left_out"] == []
    run("import", file, "--run", "weights", "--store", store)
    run("export", "weights@0", tmp_path / "w.pt", "--format", "torch", "--store", store)
    found = torch.load(tmp_path / "w.pt")
    for name, tensor in model.state_dict().items():
        assert torch.equal(found[name], tensor)


def test_a_value_that_is_not_plain_leaves_nothing_behind(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    source = Source({"w": LogicalTensor.of(torch.ones(3)), "x": object()})
    with pytest.raises(CheckpointError, match=r"x is a builtins\.object"):
        store_source(store, source, run="r")
    assert [*store.refs()] == []
    store.close()


def test_few_tensors_are_in_memory_at_a_time(tmp_path: Path) -> None:
    alive, most = 0, 0

    def gone() -> None:
        nonlocal alive
        alive -= 1

    def read() -> torch.Tensor:
        nonlocal alive, most
        elements = np.full(2**18, alive, np.float32)  # 1 MiB
        weakref.finalize(elements, gone)
        alive += 1
        most = max(most, alive)
        return torch.from_numpy(elements)

    part = LogicalPart(Box.whole((2**18,)), read)
    tensor = LogicalTensor((2**18,), torch.float32, (part,))
    store = open_store(tmp_path / "store")
    store_source(store, Source({str(n): tensor for n in range(80)}), run="r")
    store.close()
    assert most < 20
