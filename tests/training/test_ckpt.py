"""`nbrewind ckpt`: the verbs, on real checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from nbrewind.cli.app import app
from nbrewind.errors import NBRewindError, UsageError
from nbrewind.store import open_store
from nbrewind.store.gc import collect
from nbrewind.training.checkpointer import Checkpointer
from nbrewind.training.finding import find
from nbrewind.training.reading import CheckpointReader

from ..store.collecting import AT_ONCE


def ckpt(place: Path, *arguments: str, code: int = 0) -> str:
    """What a command prints, which ends with a code; in this process, which has torch."""
    done = CliRunner().invoke(app, ["ckpt", *arguments, "--store", str(place)])
    if isinstance(done.exception, NBRewindError):
        assert code == (2 if isinstance(done.exception, UsageError) else 1), done.exception
        return str(done.exception)
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two runs with two checkpoints each."""
    place = tmp_path / "store"
    for number, run in enumerate(["first", "second"]):
        model = torch.nn.Linear(300, 200).bfloat16()
        with torch.no_grad():
            model.weight.fill_(number + 1.0)
            model.bias.fill_(number + 0.5)
        with Checkpointer(run, place) as checkpoints:
            for step in (10, 20):
                state = {"model": model, "count": torch.tensor(step), "list": [1, (2, 3)]}
                checkpoints.save(state, step=step, final=step == 20)
    return place


def test_list_and_inspect(place: Path) -> None:
    lines = ckpt(place, "ls").splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["second", "20"],
        ["second", "10"],
        ["first", "20"],
        ["first", "10"],
    ]
    assert "final" in lines[1]
    found = json.loads(ckpt(place, "ls", "first", "--json", "-"))
    assert [(one["step"], one["world"], one["trusted"]) for one in found] == [
        (20, 1, True),
        (10, 1, True),
    ]
    said = ckpt(place, "inspect", "first@10")
    assert "model.weight  bfloat16  200×300" in said
    one = json.loads(ckpt(place, "inspect", found[1]["save"][:8], "--json", "-"))
    assert one["checkpoint"]["step"] == 10
    assert {tensor["name"] for tensor in one["tensors"]} == {"model.weight", "model.bias", "count"}
    assert {"look", "plan", "stage", "tiles"} <= {*one["ranks"][0]["seconds"]}
    assert "stage" in ckpt(place, "inspect", "first", "--timing")


def test_a_heat_map_is_a_picture(place: Path, tmp_path: Path) -> None:
    ckpt(place, "inspect", "first", "--heat-map", str(tmp_path / "map.svg"))
    picture = (tmp_path / "map.svg").read_text()
    assert picture.startswith("<svg")
    assert "rank 0" in picture


def test_differences(place: Path) -> None:
    assert "all tensors are equal" in ckpt(place, "diff", "first", "first@20")
    said = ckpt(place, "diff", "first@10", "second@20", code=1)
    assert [line.split()[:2] for line in said.splitlines()[1:]] == [
        ["count", "values"],
        ["model.bias", "values"],
        ["model.weight", "values"],
    ]


def test_verify_reads_everything(place: Path) -> None:
    assert ckpt(place, "verify").count("sound") == 4
    with Checkpointer("third", place) as checkpoints:
        checkpoints.save({"x": torch.randn(500, 500)}, step=1)
    pack = max(place.rglob("*.pack"), key=lambda path: path.stat().st_size)
    with open(pack, "r+b") as file:
        file.seek(pack.stat().st_size // 3)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))
    said = ckpt(place, "verify", code=1)
    assert "does not match its id" in said or "damaged" in said
    assert "x (rank 0)" in said
    assert said.count("sound") == 4


def test_merged_is_the_weighted_sum(place: Path) -> None:
    said = ckpt(place, "merge", "first", "second", "--weights", "0.25,0.5", "--run", "both")
    assert said.startswith("both@0")
    with open_store(place) as store:
        reader = CheckpointReader(store, find(store, "both")[1])
        weight = torch.from_numpy(reader.get("model.weight")).view(torch.bfloat16)
        assert torch.equal(weight, torch.full((200, 300), 1.25).bfloat16())
        assert int(reader.get("count")) == 20
    into: dict[str, Any] = {"model": torch.nn.Linear(300, 200).bfloat16(), "list": None}
    with Checkpointer("both", place) as checkpoints:
        assert checkpoints.load(into).values["list"] == [1, (2, 3)]
    assert torch.equal(into["model"].bias, torch.full((200,), 0.875).bfloat16())


def test_a_copy_is_equal(place: Path) -> None:
    ckpt(place, "reshard", "second", "--run", "copy")
    assert "all tensors are equal" in ckpt(place, "diff", "copy", "second@20")


def test_old_ones_go_and_their_space_with_them(place: Path) -> None:
    assert "1 would go" in ckpt(place, "prune", "first", "--keep", "1")
    assert "1 went" in ckpt(place, "prune", "first", "--keep", "1", "--apply")
    with open_store(place) as store:
        assert len(store.refs("fragment/first")) == 1
        for _ in range(3):
            collect(store, apply=True, patience=AT_ONCE)
    assert ckpt(place, "verify").count("sound") == 3
    assert "0 would go" in ckpt(place, "prune", "first", "--keep", "1")
    assert "0 would go" in ckpt(place, "prune", "second", "--keep", "1", "--every", "10")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["inspect", "third"], "no checkpoint third; it has those of first, second"),
        (["inspect", "first@15"], "no checkpoint of step 15; it has those of 10, 20"),
        (["inspect", "first@x"], "a number of steps is meant after @"),
        (["merge", "first", "second", "--run", "x", "--weights", "1"], "1 numbers for 2"),
        (["merge", "first", "second", "--run", "x", "--weights", "a,b"], "numbers with commas"),
    ],
)
def test_what_cannot_be_done_is_said(place: Path, arguments: list[str], problem: str) -> None:
    code = 1 if "no checkpoint" in problem else 2
    assert problem in ckpt(place, *arguments, code=code)
