"""A loop that was stopped goes on, and comes to what it would have come to, bit for bit."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    TensorDataset,
)

import nbrewind.training as nt
from nbrewind.errors import CheckpointError, UsageError
from nbrewind.training.checkpointer import Checkpointer
from nbrewind.training.context import Context, provided
from nbrewind.training.stopping import Interrupted

SAMPLES = 22


class Noisy(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Draws from three generators for every sample, as augmentations do."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.full((4,), index / SAMPLES) + 0.1 * torch.rand(4)
        return x * (1 + random.random()), torch.tensor([index + np.random.rand()]).float()


class Stream(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return (Noisy()[index] for index in range(SAMPLES))


class OwnPosition:
    """Keeps its position itself, as torchdata's loader does."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while self.at < 5:
            self.at += 1
            yield torch.full((2, 4), float(self.at)), torch.ones(2, 1)
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


def plain() -> TensorDataset:
    x = torch.linspace(0, 1, SAMPLES * 4).reshape(SAMPLES, 4)
    return TensorDataset(x, x.sum(1, keepdim=True))


LOADERS: dict[str, Callable[[], Any]] = {
    "shuffled": lambda: DataLoader(plain(), batch_size=4, shuffle=True),
    "noisy": lambda: DataLoader(Noisy(), batch_size=4, shuffle=True),
    "own generator": lambda: DataLoader(
        plain(), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(5)
    ),
    "drawn with replacement": lambda: DataLoader(
        Noisy(), batch_size=4, sampler=RandomSampler(range(SAMPLES), replacement=True)
    ),
    "distributed": lambda: DataLoader(
        plain(), batch_size=4, sampler=DistributedSampler(plain(), num_replicas=2, rank=1)
    ),
    "stream": lambda: DataLoader(Stream(), batch_size=4),
    "workers": lambda: DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=1),
    "list": lambda: [(torch.full((2, 4), float(n)), torch.ones(2, 1)) for n in range(5)],
    "own position": OwnPosition,
}


class Job:
    """A training that begins in the same state whenever it is made."""

    def __init__(self, loader: str = "shuffled") -> None:
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3)
        ).append(torch.nn.Linear(8, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 30)
        self.ema = torch.optim.swa_utils.AveragedModel(self.model)
        self.losses: list[float] = []
        self.loader = LOADERS[loader]()
        self.resumed: int | None = None

    def run(
        self,
        place: Path,
        until: int = 17,
        every: Any = 3,
        then: Callable[[int], None] | None = None,
    ) -> Job:
        """Train; `then` is called in the middle of each step."""
        state = {
            "model": self.model,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "ema": self.ema,
            "losses": self.losses,
        }
        with nt.session("job", store=place, every=every, loader=self.loader, **state) as run:
            for step, (x, y) in run.steps(until=until):
                self.resumed = run.resumed
                loss = torch.nn.functional.mse_loss(self.model(x), y) * (1 + 0.1 * random.random())
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                if then is not None:
                    then(step)
                self.scheduler.step()
                self.ema.update_parameters(self.model)
                self.losses.append(loss.item() + np.random.rand())
            self.resumed = run.resumed
        return self

    def outcome(self) -> list[Any]:
        """Everything that depends on the steps, in bits."""
        tensors = [*self.model.state_dict().values(), *self.ema.state_dict().values()]
        for each in self.optimizer.state.values():
            tensors += each.values()
        bits = [tensor.detach().numpy().tobytes() for tensor in tensors]
        drawn = [torch.rand(1).item(), random.random(), float(np.random.rand())]
        return [*bits, self.losses, self.scheduler.get_last_lr(), *drawn]


def fails_at(number: int) -> Callable[[int], None]:
    def then(step: int) -> None:
        if step == number:
            raise ZeroDivisionError

    return then


@pytest.mark.parametrize("loader", LOADERS)
def test_a_loop_that_failed_goes_on_from_its_last_checkpoint(loader: str, tmp_path: Path) -> None:
    whole = Job(loader).run(tmp_path / "whole").outcome()
    for stop, resumed in ((7, None), (8, 6), (16, 6)):
        job = Job(loader)
        with pytest.raises(ZeroDivisionError):
            job.run(tmp_path / "parts", then=fails_at(stop))
        assert job.resumed == resumed
    job = Job(loader).run(tmp_path / "parts")
    assert job.resumed == 15
    assert job.outcome() == whole


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1])
def test_a_signal_stops_it_between_two_steps_and_nothing_is_lost(
    number: signal.Signals, tmp_path: Path
) -> None:
    whole = Job().run(tmp_path / "whole").outcome()
    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match="after step 8"):
        Job().run(
            tmp_path / "parts",
            every=None,
            then=lambda step: os.kill(os.getpid(), number) if step == 7 else None,
        )
    assert signal.getsignal(number) is before
    job = Job().run(tmp_path / "parts")
    assert job.resumed == 8
    assert job.outcome() == whole


def test_a_second_ctrl_c_stops_it_at_once(tmp_path: Path) -> None:
    def then(step: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        Job().run(tmp_path, then=then)
    assert not isinstance(caught.value, Interrupted)


def test_more_steps_go_on_with_a_finished_run_and_fewer_go_back(tmp_path: Path) -> None:
    whole = Job().run(tmp_path / "whole", until=23).outcome()
    Job().run(tmp_path / "parts", until=11)
    job = Job().run(tmp_path / "parts", until=23)
    assert job.resumed == 11
    assert job.outcome() == whole
    fewer = Job().run(tmp_path / "parts", until=11)
    assert fewer.resumed == 11
    assert fewer.losses == job.losses[:11]
    assert Job().run(tmp_path / "parts", until=10).resumed == 9


def test_loops_that_follow_each_other_are_each_made_once(tmp_path: Path) -> None:
    def both(place: Path, stop: int | None) -> list[tuple[int, int]]:
        made: list[tuple[int, int]] = []
        with nt.session("two", store=place, every=2, made=made) as run:
            for number in (0, 1):
                for step, _ in run.steps(until=5):
                    if stop == 5 * number + step:
                        raise ZeroDivisionError
                    made.append((number, step))
        return made

    whole = both(tmp_path / "whole", None)
    assert whole == [(n, step) for n in (0, 1) for step in range(5)]
    for stop in (3, 7, 9):
        with pytest.raises(ZeroDivisionError):
            both(tmp_path / "parts", stop)
    assert both(tmp_path / "parts", None) == whole


def test_a_loop_that_was_left_by_break_is_complete(tmp_path: Path) -> None:
    def made(until: int) -> tuple[int, float]:
        torch.manual_seed(0)
        count = 0
        with nt.session("left", store=tmp_path, every=2) as run:
            for step, _ in run.steps(until=until):
                count += 1
                torch.rand(1)
                if step == 4:
                    break
            drawn = torch.rand(1).item()
        return count, drawn

    count, drawn = made(9)
    assert count == 5
    assert made(9) == (0, drawn)
    assert made(20) == (0, drawn)


def context(**more: Any) -> Context:
    return Context(run="of-a-cell", **more)


def made(place: Path, until: int, known: Context, *, stop: int | None = None) -> int | None:
    """Make steps as a cell would; where it began."""
    with provided(known), nt.session(store=place, every=2) as run:
        for step, _ in run.steps(until=until):
            if step == stop:
                raise ZeroDivisionError
    return run.resumed


def test_a_run_is_not_resumed_on_other_files(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        made(tmp_path, 9, context(store=""), stop=5)
    assert made(tmp_path, 9, context(store="", inputs="A", changed=True)) is None
    with pytest.raises(ZeroDivisionError):
        made(tmp_path, 20, context(store="", inputs="B", changed=True), stop=7)
    assert made(tmp_path, 20, context(store="", inputs="B", changed=True)) == 6
    assert made(tmp_path, 20, context(store="", inputs="C")) is None


def test_a_finished_run_is_made_anew_where_that_is_asked_for(tmp_path: Path) -> None:
    known = context(store="")
    assert made(tmp_path, 4, known) is None
    assert made(tmp_path, 4, known) == 4
    anew = context(store="", anew=True)
    assert made(tmp_path, 4, anew) is None
    assert made(tmp_path, 6, anew) == 4
    with pytest.raises(ZeroDivisionError):
        made(tmp_path, 6, anew, stop=5)
    assert made(tmp_path, 6, anew) == 4


def test_variables_of_the_cell_come_back_with_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import __main__

    known = context(store="", names=("seen", "best", "lock", "missing"))
    for stop in (5, None):
        seen: list[int] = []
        monkeypatch.setattr(__main__, "seen", seen, raising=False)
        monkeypatch.setattr(__main__, "best", None, raising=False)
        monkeypatch.setattr(__main__, "lock", os, raising=False)
        with (
            contextlib.suppress(ZeroDivisionError),
            provided(known),
            nt.session(store=tmp_path, every=2) as run,
        ):
            for step, _ in run.steps(until=8):
                seen.append(step)
                __main__.best = torch.tensor(step)
                if step == stop:
                    raise ZeroDivisionError
        assert seen == list(range(8 if stop is None else stop + 1))
        assert __main__.seen is seen
    assert __main__.best == 7


def test_a_session_that_has_ended_is_a_plain_value_of_the_notebook(tmp_path: Path) -> None:
    with nt.session("ended", store=tmp_path, every=2, losses=[1.0]) as run:
        for _ in run.steps(until=3):
            pass
    again = pickle.loads(pickle.dumps(run))
    assert (again.name, again.step, again.resumed) == ("ended", 3, None)
    assert b"losses" not in pickle.dumps(run)


def test_what_cannot_be_saved_is_told_before_the_first_step(tmp_path: Path) -> None:
    with (
        pytest.raises(CheckpointError, match=r"strange.*neither a tensor nor a plain value"),
        nt.session("odd", store=tmp_path, strange=object()),
    ):
        raise AssertionError
    with pytest.raises(UsageError, match="every=0"):
        nt.session("odd", every=0)
    with pytest.raises(UsageError, match="no duration"):
        nt.session("odd", every="often")


def test_a_save_that_fails_costs_a_checkpoint_and_not_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_args: Any, **_named: Any) -> None:
        raise CheckpointError("the disk is full")

    whole = Job().run(tmp_path / "whole").outcome()
    monkeypatch.setattr(Checkpointer, "save_later", full)
    monkeypatch.setattr(Checkpointer, "save", full)
    assert Job().run(tmp_path / "parts").outcome() == whole
    assert "the disk is full" in capsys.readouterr().err


def test_a_position_in_samples_fits_other_ranks_or_is_refused(tmp_path: Path) -> None:
    def taken(ranks: int, size: int, steps: int, stop: int | None = None) -> list[int]:
        sampler = DistributedSampler(range(64), num_replicas=ranks, rank=0, seed=3)
        loader = DataLoader(range(64), batch_size=size, sampler=sampler)
        found: list[int] = []
        with nt.session("moved", store=tmp_path, every=1, loader=loader) as run:
            for step, batch in run.steps(until=steps):
                found += batch.tolist()
                if step == stop:
                    raise ZeroDivisionError
        return found

    with pytest.raises(ZeroDivisionError):
        taken(4, 4, 99, stop=2)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(3)).tolist()
    assert taken(2, 4, 6)[:8] == order[32:48:2]
    with pytest.raises(CheckpointError, match="in the middle of a batch of 10"):
        taken(2, 5, 99)
