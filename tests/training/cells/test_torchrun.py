"""Cells on ranks, under the kernels: recorded, reused, and run again when what they use changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

SETUP = """import torch
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


def run(mode: str, path: Path, cells: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Run a notebook by the command; its report, and what its cells show."""
    made = [new_code_cell(source, id=f"c{index}") for index, source in enumerate(cells)]
    nbformat.write(new_notebook(cells=made), path)
    command = [sys.executable, "-m", "nbrewind", mode, str(path), "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = []
    for cell in nbformat.read(path, 4).cells:
        texts = [
            output.get("text") or output.get("data", {}).get("text/plain", "")
            for output in cell.outputs
            if output.get("name") != "stderr"
        ]
        shown.append("\n".join(sorted("".join(texts).splitlines())))
    return json.loads(done.stdout), shown


def actions(report: dict[str, Any]) -> list[str]:
    return [cell["action"] for cell in report["cells"]]


def test_a_cell_on_ranks_is_recorded_and_runs_again_when_a_function_it_calls_is_edited(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ranks.ipynb"
    cells = [SETUP, ON_RANKS, AFTER, LAUNCHED]
    report, shown = run("audit", path, cells)
    assert shown == [
        "",
        "[rank 0] total 1.5\n[rank 1] total 1.5",
        "tensor([1.5000]) 2.5 True 1.5 1.0",
        "[0.0, 5.0]",
    ]
    assert report["cells"][1]["writes"] == ["dist", "later", "os", "total", "trained"]
    cells[0] = cells[0].replace("return x * rate", "return 2 * x * rate")
    report, shown = run("replay", path, cells)
    assert actions(report) == ["executed", "executed", "executed", "reused"]
    assert shown[1] == "[rank 0] total 3.0\n[rank 1] total 3.0"


@pytest.mark.long
def test_cells_on_ranks_are_reused_until_a_value_they_use_is_edited(tmp_path: Path) -> None:
    path = tmp_path / "ranks.ipynb"
    cells = [SETUP, ON_RANKS, AFTER, LAUNCHED]
    _, shown = run("audit", path, cells)
    cells[1] = cells[1].replace("import os\n", "# what torchrun tells\nimport os\n\n")
    report, again = run("replay", path, cells)
    assert actions(report) == ["reused"] * 4
    assert again == shown
    cells[0] = cells[0].replace("rate = 0.5", "rate = 0.25")
    report, shown = run("replay", path, cells)
    assert actions(report) == ["executed"] * 4
    assert shown[2:] == ["tensor([0.7500]) 1.25 True 0.75 1.0", "[0.0, 2.5]"]
