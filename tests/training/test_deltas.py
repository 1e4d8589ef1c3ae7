"""Differences between saves: shorter, and read back to the bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nbrewind.model.checkpoints import SavedPart
from nbrewind.store import open_store
from nbrewind.store.check import check_store
from nbrewind.store.gc import collect
from nbrewind.training.checkpointer import Checkpointer
from nbrewind.training.deltas import LONGEST
from nbrewind.training.finding import find
from nbrewind.training.reading import CheckpointReader

from ..store.collecting import AT_ONCE


def stored(place: Path) -> int:
    return sum(file.stat().st_size for file in place.rglob("*.pack"))


def test_weights_of_half_precision_take_less_and_come_back(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(700, 1000, bias=False).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    versions = []
    with Checkpointer("run", tmp_path / "deltas", deltas=True) as checkpoints:
        for step in range(20):
            optimizer.zero_grad()
            model(torch.randn(8, 700).bfloat16()).pow(2).sum().backward()
            optimizer.step()
            checkpoints.save_later({"model": model}, step=step)
            versions.append(model.weight.detach().clone())
        checkpoints.wait()
        for step, weight in enumerate(versions):
            checkpoints.load({"model": model}, step=step)
            assert torch.equal(model.weight, weight)
        longest = 0
        for step in range(20):
            reader = CheckpointReader(checkpoints.store, find(checkpoints.store, "run", step)[1])
            parts: list[SavedPart] = [part for _, part in reader.parts("model.weight")]
            longest = max(longest, *(max(part.layers or (1,)) for part in parts))
        assert longest == LONGEST
    assert stored(tmp_path / "deltas") < 0.6 * 20 * versions[0].nbytes


def test_a_chain_needs_all_its_links(tmp_path: Path) -> None:
    """A collection keeps what a difference is from, also when that checkpoint is gone."""
    place = tmp_path / "store"
    weight = torch.zeros(300_000, dtype=torch.bfloat16).normal_()
    with Checkpointer("run", place, deltas=True) as checkpoints:
        for step in range(3):
            checkpoints.save({"x": weight}, step=step)
            weight += (torch.rand_like(weight) < 0.1) * weight / 128
            expected = weight.clone() if step == 1 else None
            if step == 1:
                last = expected
    store = open_store(place)
    for name in ("checkpoint/run", "fragment/run"):
        for ref in store.refs(name)[1:]:
            from nbrewind.store.trash import move_ref_to_trash

            move_ref_to_trash(str(place), ref.body.lineage, ref.body.seq, 0)
    for _ in range(3):
        store.refresh()
        collect(store, apply=True, patience=AT_ONCE)
    assert check_store(store).sound
    store.close()
    with Checkpointer("run", place) as checkpoints:
        assert checkpoints.steps() == [2]
        assert torch.equal(checkpoints.load({"x": None}).values["x"], last)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_what_does_not_pay_is_stored_whole(tmp_path: Path, share: float) -> None:
    value = torch.randn(300_000)
    with Checkpointer("run", tmp_path / "store", deltas=True) as checkpoints:
        for step in range(3):
            saved = checkpoints.save({"x": value}, step=step)
            expected = value.clone()
            value = torch.where(torch.rand(300_000) < share, torch.randn(300_000), value)
            if step and share == 0.0:
                assert saved.bytes_added < 10_000
        assert torch.equal(checkpoints.load({"x": None}).values["x"], expected)
        reader = CheckpointReader(checkpoints.store, find(checkpoints.store, "run")[1])
        assert all(part.layers == () for _, part in reader.parts("x"))
