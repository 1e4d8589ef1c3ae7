"""Copying while training goes on: what is saved is of one moment all the same."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch

from nbrewind.training import saving
from nbrewind.training.checkpointer import Checkpointer

from .states import equal, network, train


@pytest.mark.parametrize("hooked", [True, False])
def test_a_step_waits_until_what_it_changes_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hooked: bool
) -> None:
    """The copy is held back until the step has begun; without the hook it would be torn."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    train(model, optimizer, 2, seed=0)
    entered = threading.Event()
    copy_all = saving.copy_all

    def slowly(targets: list[torch.Tensor], sources: list[torch.Tensor]) -> None:
        if threading.current_thread() is not threading.main_thread():
            entered.wait(0.3 if hooked else 10)
        copy_all(targets, sources)

    monkeypatch.setattr(saving, "copy_all", slowly)
    state = {"model": model, "optimizer": optimizer, "step": 2}
    with Checkpointer("run", tmp_path / "store", overlap=True) as checkpoints:
        before = {name: value.clone() for name, value in model.state_dict().items()}
        checkpoints.save_later(state, step=2)
        if not hooked:
            for hook in checkpoints._hooks.values():
                hook.remove()
        train(model, optimizer, 1, seed=1)  # the batch norm's statistics change before the step
        entered.set()
        checkpoints.wait()
        other = network(seed=4)
        checkpoints.load({"model": other})
    assert equal(dict(other.state_dict()), before) == hooked


def test_hooks_go_when_the_checkpointer_is_closed(tmp_path: Path) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Checkpointer("run", tmp_path / "store", overlap=True) as checkpoints:
        for step in range(3):
            checkpoints.save_later({"model": model, "optimizer": optimizer}, step=step)
        assert len(optimizer._optimizer_step_pre_hooks) == 1
    assert len(optimizer._optimizer_step_pre_hooks) == 0
