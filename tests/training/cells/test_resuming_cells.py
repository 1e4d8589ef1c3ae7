"""A training cell that was stopped, by whatever, goes on when it is executed again."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from .notebook_runs import actions, command

SETUP = """import os, time, torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
lr = 0.05
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
x = torch.linspace(0, 1, 88).reshape(22, 4)
data = TensorDataset(x, x.sum(1, keepdim=True))"""
TRAIN = """import nbrewind.training as nt
optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
loader = DataLoader(data, batch_size=4, shuffle=True)
losses = []
print("begins")
with nt.session(model=model, optimizer=optimizer, every=4) as run:
    for step, (a, b) in run.steps(loader, until=20):
        loss = torch.nn.functional.mse_loss(model(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 5 == 0:
            print("step", step)
        if step == 13 and "STOP" in os.environ:
            os.kill(os.getpid(), int(os.environ["STOP"]))
            time.sleep(0.2)
print("ended")"""
AFTER = """weights = [p.sum().item() for p in model.parameters()]
print(len(losses), losses[-1], weights, torch.rand(1))"""


def whole(folder: Path, cells: list[str]) -> list[str]:
    """What the cells show where nothing stops the training."""
    folder.mkdir()
    _, shown = command("audit", folder / "whole.ipynb", cells)
    return shown


def test_a_cell_killed_with_its_kernel_goes_on_and_more_steps_extend_it(tmp_path: Path) -> None:
    path, cells = tmp_path / "train.ipynb", [SETUP, TRAIN, AFTER]
    command("audit", path, cells, fails=True, STOP=str(int(signal.SIGKILL)))
    report, _ = command("status", path, cells)
    assert report["cells"][1]["resumable_step"] in (8, 12)
    longer = [SETUP, TRAIN.replace("until=20", "until=30"), AFTER]
    report, shown = command("replay", path, longer)
    assert actions(report) == ["reused", "executed", "executed"]
    assert shown == whole(tmp_path / "whole", longer)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("verb", ["audit", "replay"])
def test_whatever_stops_it_the_cell_goes_on(
    number: signal.Signals, verb: str, tmp_path: Path
) -> None:
    path, cells = tmp_path / "train.ipynb", [SETUP, TRAIN, AFTER]
    command("audit", path, cells, fails=True, STOP=str(int(number)))
    report, _ = command("status", path, cells)
    expected = (8, 12) if number == signal.SIGKILL else (14,)
    assert report["cells"][1]["resumable_step"] in expected
    report, shown = command(verb, path, cells)
    assert actions(report)[1:] == ["executed", "executed"]
    assert shown == whole(tmp_path / "whole", cells)
    report, again = command("replay", path, cells)
    assert actions(report) == ["reused"] * 3
    assert again == shown


@pytest.mark.long
def test_a_finished_cell_is_extended_and_another_learning_rate_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    command("audit", path, [SETUP, TRAIN, AFTER])
    longer = [SETUP, TRAIN.replace("until=20", "until=30"), AFTER]
    report, _ = command("status", path, longer)
    assert report["cells"][1]["resumable_step"] == 20
    _, shown = command("replay", path, longer)
    assert shown == whole(tmp_path / "longer", longer)
    other = [SETUP.replace("0.05", "0.02"), longer[1], AFTER]
    report, _ = command("status", path, other)
    assert report["cells"][1].get("resumable_step") is None
    report, shown = command("replay", path, other)
    assert actions(report) == ["executed"] * 3
    assert shown == whole(tmp_path / "other", other)
