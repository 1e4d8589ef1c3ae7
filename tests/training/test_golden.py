"""Checkpoints of every released format stay readable."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from nbrewind.store import open_store, trust
from nbrewind.training.finding import checkpoints
from nbrewind.training.loading import load_into
from nbrewind.training.verifying import verify

from .states import equal

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "golden"
FORMATS = sorted(path.name for path in GOLDEN.glob("checkpoint-format-*"))


def maker() -> Any:
    spec = importlib.util.spec_from_file_location("maker", GOLDEN / "make_checkpoints.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", FORMATS)
def test_every_tensor_and_value_is_read(name: str) -> None:
    golden = GOLDEN / name
    trust.trust_key((golden / "writer.key").read_text().strip(), "golden")
    expected = json.loads((golden / "contents.json").read_text())
    made = maker()
    with open_store(golden / "store", read_only=True) as store:
        found = list(checkpoints(store))
        assert [checkpoint.step for _, checkpoint in found] == [3, 2, 1]
        for ref, checkpoint in found:
            assert ref.trusted
            assert (checkpoint.run, checkpoint.world) == ("golden", 2)
            assert checkpoint.final == (checkpoint.step == 3)
            assert checkpoint.notes == {"made by": "make_checkpoints.py"}
            assert verify(store, checkpoint).sound
            for rank in range(2):
                loaded = load_into(
                    store, checkpoint, {"tensors": None, "values": None}, rank=rank, world=2
                )
                tensors = loaded.values["tensors"]
                assert torch.equal(tensors["own"], torch.full((5,), float(rank)))
                assert equal(loaded.values["values"], made.VALUES)
                if rank:
                    continue
                assert {
                    key: [str(each.dtype), list(each.shape), made.digest(each)]
                    for key, each in tensors.items()
                } == expected[str(checkpoint.step)]


def test_the_golden_checkpoints_have_chains() -> None:
    with open_store(GOLDEN / FORMATS[-1] / "store", read_only=True) as store:
        from nbrewind.training.describing import inspect

        ref, checkpoint = next(checkpoints(store))
        rows = {row.name: row for row in inspect(store, ref, checkpoint).tensors}
    assert rows["tensors.half"].longest_chain == 3
    assert rows["tensors.own"].own
