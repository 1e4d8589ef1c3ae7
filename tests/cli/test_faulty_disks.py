"""L6: a disk that is full, broken or slow under the store costs records, never the notebook."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import nbformat
import pytest

from nbrewind.store import open_store
from nbrewind.testing.faults import Fault, environment

CELLS = (
    "x = bytes(range(256)) * 4000\nprint(len(x))",
    "y = x[::-1]\ny[:3]",
    "z = [len(y)]\nz",
    "import sys\nprint('to stderr', file=sys.stderr)\nz + [1]",
)
TEXTS = [
    ["1024000\n"],
    [r"b'\xff\xfe\xfd'"],
    ["[1024000]"],
    ["to stderr\n", "[1024000, 1]"],
]
"""What a plain kernel shows."""

BOOTSTRAP = """
import os
if "NBREWIND_TEST_FAULTS" in os.environ:
    from nbrewind.testing.faults import install_from_environ
    install_from_environ()
"""


def texts(path: Path) -> list[list[str]]:
    cells = nbformat.read(path, 4).cells
    return [
        [output.get("text") or output["data"]["text/plain"] for output in cell.outputs]
        for cell in cells
    ]


@pytest.fixture
def faulty(tmp_path: Path) -> dict[str, str]:
    """What makes every Python process install the faults of its environment."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(BOOTSTRAP)
    paths = [str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


@pytest.mark.parametrize(
    ("fault", "warnings", "recorded"),
    [
        (Fault(operation="write", errno=errno.ENOSPC, nth=3, times=0, path="*.pack"), 1, False),
        (Fault(operation="fsync", errno=errno.EIO, nth=2, times=0, path="*.pack*"), 1, False),
        (Fault(operation="write", effect="delay", amount=0.05, times=0), 0, True),
    ],
    ids=["full", "fsync fails", "slow"],
)
def test_a_faulty_disk_costs_records_and_not_the_notebook(
    tmp_path: Path, nbrewind, write, faulty, fault: Fault, warnings: int, recorded: bool
) -> None:
    path = write(*CELLS)
    ran = nbrewind("audit", path, "--json", "-", **faulty, **environment(tmp_path, [fault]))
    assert ran.returncode == 0, ran
    assert texts(path) == TEXTS
    assert len([w for w in ran.stderr.splitlines() if w.startswith("warning:")]) == warnings, ran
    if warnings:
        assert str(tmp_path) in ran.stderr
    assert json.loads(ran.stdout)["executed"] == len(CELLS)
    with open_store(tmp_path / ".nbrewind") as store:
        assert not store.info().damaged
        assert (len(store.refs()) == len(CELLS)) is recorded
        for ref in store.refs():
            store.get(ref.body.record)
    # Once the disk is well again, everything is.
    again = nbrewind("replay", path, "--json", "-")
    assert again.returncode == 0, again
    assert texts(path) == TEXTS
    with open_store(tmp_path / ".nbrewind") as store:
        assert len(store.refs()) >= len(CELLS)
