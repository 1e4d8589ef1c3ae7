"""Saves that are left in the middle, as by Ctrl-C: the next one is right all the same."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from nbrewind.training import committing, saving
from nbrewind.training.checkpointer import Checkpointer

from .states import equal, network


def _interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_differences_are_not_taken_from_memory_that_was_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = torch.randn(100_000)
    with Checkpointer("run", tmp_path / "store", deltas=True) as checkpoints:
        checkpoints.save({"x": value}, step=1)
        value += 1
        with monkeypatch.context() as patched:
            patched.setattr(committing.Committer, "_commit_fragment", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                checkpoints.save({"x": value}, step=2)
        value += 1
        checkpoints.save({"x": value}, step=3)
        assert torch.equal(checkpoints.load({"x": None}).values["x"], value)


def test_what_is_being_written_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while waiting for a save does not make the next one forget it."""
    value = torch.full((100_000,), 1.0)
    go_on = threading.Event()
    commit_fragment = committing.Committer._commit_fragment

    def slowly(self: Any, *arguments: Any) -> Any:
        go_on.wait(20)
        return commit_fragment(self, *arguments)

    monkeypatch.setattr(committing.Committer, "_commit_fragment", slowly)
    with Checkpointer("run", tmp_path / "store") as checkpoints:
        checkpoints.save_later({"x": value}, step=1)
        with monkeypatch.context() as patched:
            patched.setattr(saving.Pending, "wait", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                checkpoints.save_later({"x": value}, step=2)
        value += 1
        threading.Timer(0.5, go_on.set).start()
        checkpoints.save_later({"x": value}, step=3)
        checkpoints.wait()
        for step, expected in ((1, 1.0), (3, 2.0)):
            found = checkpoints.load({"x": None}, step=step).values["x"]
            assert torch.equal(found, torch.full((100_000,), expected)), step


@pytest.mark.timeout(30)
def test_a_step_does_not_wait_for_a_copy_that_never_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = {"model": model, "optimizer": optimizer}
    with Checkpointer("run", tmp_path / "store", overlap=True) as checkpoints:
        with monkeypatch.context() as patched:
            patched.setattr(saving, "Job", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                checkpoints.save_later(state, step=1)
        saver = checkpoints._saver
        assert saver is not None
        assert saver._copied.wait(5)


def test_a_schedule_with_a_counter(tmp_path: Path) -> None:
    def build(rate: float) -> tuple[Any, Any]:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=rate)
        return optimizer, torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 2, 5])

    optimizer, schedule = build(0.1)
    optimizer.step()
    schedule.step()
    _, fresh = build(0.7)
    with Checkpointer("run", tmp_path / "store") as checkpoints:
        checkpoints.save({"schedule": schedule}, step=1)
        checkpoints.load({"schedule": fresh})
    assert equal(fresh.state_dict(), schedule.state_dict())
    assert type(fresh.milestones) is Counter
