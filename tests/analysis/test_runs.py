"""A training run stays the same when only its number of steps or ranks changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from nbrewind.model.records import Group, Variable
from nbrewind_analysis.cells import analyse_cell
from nbrewind_analysis.runs import ends_at, run_name
from nbrewind_analysis.surroundings import DiskSurroundings
from nbrewind_analysis.validity import Situation

transform = TransformerManager().transform_cell

LOOP = "for step, b in run.steps(loader, until=100):\n    train(b, lr)"
MAGIC = "%%torchrun -n 2 --timeout 60\n" + LOOP
LAUNCH = "def f():\n    return rate\nnt.launch(f, nproc=2)"


def name(source: str, folder: Path, **versions: str) -> str:
    now = Situation(DiskSurroundings(folder, None))
    for variable, version in versions.items():
        now.table.put(Group({variable: Variable(version)}))
    return run_name(analyse_cell(source, transform), now, transform=transform)


@pytest.mark.parametrize(
    ("source", "edited"),
    [
        (LOOP, LOOP.replace("100", "2_000")),
        (LOOP, "# longer\n" + LOOP.replace("100", "2000")),
        (LOOP, LOOP.replace("loader, until=100", "loader, 100")),
        (MAGIC, MAGIC.replace("100", "2000")),
        (MAGIC, MAGIC.replace("-n 2", "-n 4")),
        (MAGIC, MAGIC.replace("-n 2", "--nproc=4")),
        (LAUNCH, LAUNCH.replace("nproc=2", "nproc=4")),
        (LAUNCH, LAUNCH.replace("nproc=2", "4")),
    ],
)
def test_the_same_run(source: str, edited: str, tmp_path: Path) -> None:
    assert name(source, tmp_path, lr="1") == name(edited, tmp_path, lr="1")


@pytest.mark.parametrize(
    ("source", "edited"),
    [
        (LOOP, LOOP.replace("lr", "2 * lr")),
        (LOOP, LOOP.replace("100", "2 * 50")),
        (LOOP, LOOP.replace("100", "n")),
        (LOOP, LOOP.replace("until=100", "until=100, more=1")),
        (MAGIC, MAGIC.replace("60", "61")),
        (MAGIC, MAGIC.replace("lr", "2 * lr")),
        (LAUNCH, LAUNCH.replace("rate", "2 * rate")),
    ],
)
def test_another_run(source: str, edited: str, tmp_path: Path) -> None:
    assert name(source, tmp_path, lr="1") != name(edited, tmp_path, lr="1")


def test_a_run_depends_on_what_the_cell_reads_and_on_nothing_else(tmp_path: Path) -> None:
    known = name(LOOP, tmp_path, lr="1", other="1")
    assert known == name(LOOP, tmp_path, lr="1", other="2")
    assert known != name(LOOP, tmp_path, lr="2", other="1")


def test_a_run_depends_on_local_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    source = "import nbrewind_test_net\n" + LOOP
    (tmp_path / "nbrewind_test_net.py").write_text("def net(): return 1\n")
    known = name(source, tmp_path)
    assert known == name(source, tmp_path)
    (tmp_path / "nbrewind_test_net.py").write_text("def net(): return 2\n")
    assert known != name(source, tmp_path)


def test_where_a_loop_ends() -> None:
    assert ends_at(analyse_cell(LOOP, transform)) == 100
    assert ends_at(analyse_cell(MAGIC, transform)) == 100
    assert ends_at(analyse_cell(LOOP.replace("100", "n"), transform)) is None
    assert ends_at(analyse_cell(f"{LOOP}\n{LOOP}", transform)) is None
