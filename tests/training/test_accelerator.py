"""On an accelerator, where there is one: state lives on it and comes back to it, to the bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nbrewind.training.checkpointer import Checkpointer

from .states import equal, network, train

pytestmark = pytest.mark.skipif(
    not torch.accelerator.is_available(), reason="there is no accelerator"
)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_state_on_a_device(tmp_path: Path, overlap: bool, fused: bool) -> None:
    device = torch.accelerator.current_accelerator()
    assert device is not None
    model = network().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=fused)

    def step(of: torch.nn.Module, by: torch.optim.Optimizer) -> None:
        by.zero_grad()
        of(torch.arange(8, device=device)).pow(2).mean().backward()
        by.step()

    step(model, optimizer)
    state = {"model": model, "optimizer": optimizer}
    with Checkpointer("run", tmp_path / "store", overlap=overlap) as checkpoints:
        checkpoints.save_later(state, step=1)
        saved = {name: value.clone() for name, value in model.state_dict().items()}
        moments = optimizer.state_dict()
        kept = {n: {k: v.clone() for k, v in s.items()} for n, s in moments["state"].items()}
        step(model, optimizer)
        checkpoints.wait()
        other = network(seed=4).to(device)
        fresh = torch.optim.AdamW(other.parameters(), fused=fused)
        checkpoints.load({"model": other, "optimizer": fresh})
    assert equal({n: v.cpu() for n, v in other.state_dict().items()}, _on_cpu(saved))
    for number, found in fresh.state_dict()["state"].items():
        assert equal(_on_cpu(found), _on_cpu(kept[number]))
        assert {v.device for k, v in found.items() if k != "step"} == {
            next(other.parameters()).device
        }
    step(other, fresh)  # the devices fit together


def _on_cpu(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.cpu() for name, value in tensors.items()}


def test_from_a_device_to_the_cpu(tmp_path: Path) -> None:
    device = torch.accelerator.current_accelerator()
    model = network().to(device)
    other = network(seed=4)
    with Checkpointer("run", tmp_path / "store") as checkpoints:
        checkpoints.save({"model": model}, step=1)
        checkpoints.load({"model": other})
    assert equal(dict(other.state_dict()), _on_cpu(dict(model.state_dict())))
    assert train(other, torch.optim.SGD(other.parameters(), lr=0.1), 1, seed=0) > 0
