"""Cells on ranks, under the kernels: recorded, reused, and run again when what they use changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from .notebook_runs import actions, command

SETUP = """import torch, threading
later = threading.Lock()
rate = 0.5
def scaled(x):
    return x * rate
class Net:
    value = 1.0
net = Net()"""
ON_RANKS = """%%torchrun -n 2
import os
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([scaled(float(os.environ["RANK"]) + 1)])
dist.all_reduce(total)
print("total", total.item())
def later(x):
    return scaled(x) + total.item()
net.value = total.item()
trained = net
mesh = dist.group.WORLD"""
AFTER = """from __future__ import annotations
print(total, later(2), type(trained) is Net, trained.value, net.value)"""
LAUNCHED = """import nbrewind.training as nt
def work(k):
    import os
    return int(os.environ["RANK"]) * k * rate
nt.launch(work, nproc=2, args=(10,))"""


def test_a_cell_on_ranks_is_recorded_and_runs_again_when_a_function_it_calls_is_edited(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ranks.ipynb"
    cells = [SETUP, ON_RANKS, AFTER, LAUNCHED]
    report, shown = command("audit", path, cells)
    assert shown == [
        "",
        "[rank 0] total 1.5\n[rank 1] total 1.5",
        "tensor([1.5000]) 2.5 True 1.5 1.0",
        "[0.0, 5.0]",
    ]
    assert report["cells"][1]["writes"] == ["dist", "later", "os", "total", "trained"]
    cells[0] = cells[0].replace("return x * rate", "return 2 * x * rate")
    report, shown = command("replay", path, cells)
    assert actions(report) == ["executed", "executed", "executed", "reused"]
    assert shown[1] == "[rank 0] total 3.0\n[rank 1] total 3.0"


@pytest.mark.long
def test_cells_on_ranks_are_reused_until_a_value_they_use_is_edited(tmp_path: Path) -> None:
    path = tmp_path / "ranks.ipynb"
    cells = [SETUP, ON_RANKS, AFTER, LAUNCHED]
    _, shown = command("audit", path, cells)
    cells[1] = cells[1].replace("import os\n", "# what torchrun tells\nimport os\n\n")
    report, again = command("replay", path, cells)
    assert actions(report) == ["reused"] * 4
    assert again == shown
    cells[0] = cells[0].replace("rate = 0.5", "rate = 0.25")
    report, shown = command("replay", path, cells)
    assert actions(report) == ["executed"] * 4
    assert shown[2:] == ["tensor([0.7500]) 1.25 True 0.75 1.0", "[0.0, 2.5]"]
