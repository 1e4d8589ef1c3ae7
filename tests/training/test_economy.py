"""Saving again and again takes no more memory or files; loading reads every tile once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from nbrewind.training.boxes import Box
from nbrewind.training.checkpointer import Checkpointer
from nbrewind.training.finding import find
from nbrewind.training.reading import CheckpointReader, Wanted
from nbrewind.training.tensors import empty_array

LONG = float(os.environ.get("NBREWIND_LONG_SAMPLE", "1"))


def resident() -> int:
    """Bytes of memory that this process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("saves", [60, pytest.param(1000, marks=pytest.mark.long)])
def test_memory_and_files_stay_as_they_are(tmp_path: Path, saves: int) -> None:
    saves = saves if saves < 100 else max(200, int(saves * LONG))
    state = {f"x{number}": torch.randn(1000, 50) for number in range(10)}  # 2 MB
    with Checkpointer("run", tmp_path / "store") as checkpoints:
        files = memory = 0
        for step in range(saves):
            state[f"x{step % 10}"].add_(1)
            checkpoints.save_later(state, step=step)
            if step == saves // 3:
                checkpoints.wait()
                files, memory = len(os.listdir("/proc/self/fd")), resident()
        checkpoints.wait()
        assert len(os.listdir("/proc/self/fd")) <= files + 8
        # Each save lets go of the 200 KB that it added; the store knows some more names.
        assert resident() - memory < 8e6 + saves * 10_000


def test_a_tile_that_several_need_is_read_once(tmp_path: Path) -> None:
    value = torch.arange(1000 * 1000, dtype=torch.float32).reshape(1000, 1000)
    with Checkpointer("run", tmp_path / "store") as checkpoints:
        checkpoints.save({"x": value}, step=1)
        reader = CheckpointReader(checkpoints.store, find(checkpoints.store, "run")[1])
        boxes = [Box((0, column), (1000, 100)) for column in range(0, 1000, 100)]
        boxes += [Box((0, 0), (1000, 1000)), Box((3, 5), (700, 1))]
        wanted = [Wanted("x", box, empty_array(box.lengths, 4)) for box in boxes]
        reader.read(wanted)
        tiles = sum(len(part.tiles) for _, part in reader.parts("x"))
    assert reader.objects_read == tiles
    assert reader.bytes_read == value.nbytes
    for one in wanted:
        found = torch.from_numpy(one.target).view(torch.float32)
        assert torch.equal(found, value[one.box.slices])
