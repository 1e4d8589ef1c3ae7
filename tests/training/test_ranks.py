"""Several ranks: what differs between them, what goes wrong on one of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import cloudpickle
import pytest
import torch

from nbrewind.errors import CheckpointError, StoreNotWritable
from nbrewind.testing.rank_pool import RankPool
from nbrewind.training.checkpointer import Checkpointer

cloudpickle.register_pickle_by_value(sys.modules[__name__])

Pools = Callable[[int], RankPool]


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "store")


def _rank() -> int:
    import torch.distributed as dist

    return dist.get_rank()


def _own_values(place: str) -> tuple[tuple[str, ...], list[float], int]:
    rank = _rank()
    state = {
        "same": torch.ones(3000),
        "small": torch.full((3,), float(rank)),
        "large": torch.full((500_000,), float(rank)),
        "text": f"of rank {rank}",
        "common": 5,
    }
    with Checkpointer("run", place) as checkpoints:
        saved = checkpoints.save(state, step=1)
        found = checkpoints.load(dict.fromkeys(state)).values
    assert torch.equal(found["same"], state["same"])
    assert found["text"] == f"of rank {rank}"
    return saved.differing, [float(found["small"][0]), float(found["large"][9])], saved.bytes_state


def test_values_that_differ_under_one_name_are_all_kept(ranks: Pools, place: str) -> None:
    answers = ranks(2).run(_own_values, place)
    for rank, (differing, values, size) in enumerate(answers):
        assert differing == ("large", "small")
        assert values == [rank, rank]
        assert size == 3000 * 4 + 2 * (3 + 500_000) * 4


def _different_shapes(place: str) -> str:
    with Checkpointer("run", place) as checkpoints:
        try:
            checkpoints.save({"x": torch.zeros(_rank() + 1)}, step=1)
        except CheckpointError as exc:
            assert checkpoints.steps() == []
            return str(exc)
    return ""


def test_different_tensors_of_one_name_are_refused(ranks: Pools, place: str) -> None:
    for said in ranks(2).run(_different_shapes, place):
        assert "x is float32 (2,) on rank 1 and float32 (1,) on rank 0" in said


class _Failing:
    def state_dict(self) -> None:
        raise ZeroDivisionError("of the user")

    def load_state_dict(self, state: object) -> None:
        pass


def _fails_on_one(place: str, how: str) -> tuple[str, list[int]]:
    state = {"x": torch.full((10,), float(_rank()))}
    with Checkpointer("run", place) as checkpoints:
        checkpoints.save(state, step=1)
        begin = checkpoints.store.begin
        if _rank() == 1 and how == "full disk":

            def full() -> None:
                raise StoreNotWritable("no space left")

            checkpoints.store.begin = full
        elif _rank() == 1 and how == "state":
            state["odd"] = object()
        elif _rank() == 1:
            state["odd"] = _Failing()
        said = ""
        try:
            checkpoints.save(state, step=2)
        except CheckpointError as exc:
            said = str(exc)
        steps = checkpoints.steps()
        checkpoints.store.begin = begin
        state.pop("odd", None)
        checkpoints.save(state, step=3)
        return said, steps


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("full disk", "no space left"),
        ("state", "odd is a builtins.object"),
        ("state_dict", r"ZeroDivisionError\('of the user'\)"),
    ],
)
def test_a_failure_on_one_rank_is_told_on_all(ranks: Pools, place: str, how: str, why: str) -> None:
    for said, steps in ranks(2).run(_fails_on_one, place, how):
        assert re.search(f"the checkpoint of step 2 was not saved: rank 1: {why}", said)
        assert steps == [1]
    with Checkpointer("run", place) as checkpoints:
        assert checkpoints.steps() == [3, 1]


def _in_the_background(place: str) -> list[float]:
    state = {"x": torch.ones(300_000), "list": [1]}
    with Checkpointer("run", place) as checkpoints:
        for step in range(4):
            checkpoints.save_later(state, step=step)
            state["x"] += 1
            state["list"].append(step)
        checkpoints.wait()
        found = []
        for step in range(4):
            values = checkpoints.load({"x": None, "list": None}, step=step).values
            assert values["x"].unique().numel() == 1
            assert len(values["list"]) == step + 1
            found.append(float(values["x"][0]))
        return found


def test_what_changes_after_the_call_is_not_in_the_checkpoint(ranks: Pools, place: str) -> None:
    assert ranks(2).run(_in_the_background, place) == [[1.0, 2.0, 3.0, 4.0]] * 2


def _failure_later(place: str) -> str:
    checkpoints = Checkpointer("run", place)
    if _rank() == 1:

        def full() -> None:
            raise StoreNotWritable("no space left")

        checkpoints.store.begin = full
    checkpoints.save_later({"x": torch.ones(3) * _rank()}, step=1)
    try:
        checkpoints.close()
    except CheckpointError as exc:
        return str(exc)
    return ""


def test_a_failure_in_the_background_is_raised(ranks: Pools, place: str) -> None:
    for said in ranks(2).run(_failure_later, place):
        assert "rank 1: no space left" in said


def _load_only(place: str) -> str:
    with Checkpointer("run", place) as checkpoints:
        return checkpoints.load({"text": None, "common": None}).values["text"]


def test_plain_values_on_another_number_of_ranks(ranks: Pools, place: str) -> None:
    ranks(2).run(_own_values, place)
    assert ranks(1).run(_load_only, place) == ["of rank 0"]


def _again_and_again(place: str, times: int) -> list[int]:
    import os

    threads = []
    state = {"x": torch.full((10,), float(_rank()))}
    for step in range(times):
        with Checkpointer("run", place) as checkpoints:
            checkpoints.save_later(state, step=step)
            checkpoints.wait()
            checkpoints.load(state)
        threads.append(len(os.listdir("/proc/self/task")))
    return threads


@pytest.mark.parametrize("times", [15, pytest.param(300, marks=pytest.mark.long)])
def test_a_closed_checkpointer_leaves_no_threads(ranks: Pools, place: str, times: int) -> None:
    for threads in ranks(2).run(_again_and_again, place, times):
        assert threads[-1] <= threads[4]


def _after_closing(place: str) -> str:
    checkpoints = Checkpointer("run", place)
    checkpoints.close()
    try:
        checkpoints.save({"x": 1}, step=1)
    except CheckpointError as exc:
        return str(exc)
    return ""


def test_a_closed_checkpointer_says_so(ranks: Pools, place: str) -> None:
    assert ["were closed" in said for said in ranks(2).run(_after_closing, place)] == [True] * 2
