"""Notebooks whose store is a bucket, or a chain that ends in one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import nbformat
import pytest

from tests.store.remote.conftest import bucket, server

__all__ = ["bucket", "server"]

pytestmark = pytest.mark.long

CELLS = (
    "import random; data = random.Random(1).randbytes(3_000_000)",
    "total = sum(data)",
    "print(total)",
)


def actions(ran) -> list[str]:  # type: ignore[no-untyped-def]
    assert ran.returncode == 0, ran
    return [cell["action"] for cell in json.loads(ran.stdout)["cells"]]


def test_what_a_job_recorded_on_its_own_disk_is_reused_from_the_bucket(
    nbrewind, write, tmp_path: Path, bucket: str
) -> None:
    path = write(*CELLS)
    chain = f"{tmp_path}/scratch,{bucket}"
    assert actions(nbrewind("audit", path, "--store", chain, "--json", "-")) == ["executed"] * 3
    assert nbrewind("store", "promote", path, "--store", chain, "--wait", "60").returncode == 0
    shutil.rmtree(tmp_path / "scratch")  # as it is at the end of a job
    ran = nbrewind("replay", path, "--store", chain, "--json", "-")
    assert actions(ran) == ["reused"] * 3
    path = write(*CELLS[:2], "print(total, len(data))")
    ran = nbrewind("replay", path, "--store", chain, "--json", "-")
    assert actions(ran) == ["reused", "reused", "executed"]
    assert nbformat.read(path, 4).cells[2].outputs[0].text.split()[1] == "3000000"
    status = nbrewind("status", path, "--store", bucket, "--json", "-")
    assert status.returncode == 0, status


def test_a_notebook_may_write_to_a_bucket_at_once(nbrewind, write, bucket: str) -> None:
    path = write(*CELLS)
    assert actions(nbrewind("audit", path, "--json", "-", NBREWIND_STORE=bucket)) == [
        "executed",
        "executed",
        "executed",
    ]
    ran = nbrewind("replay", path, "--json", "-", NBREWIND_STORE=bucket)
    assert actions(ran) == ["reused"] * 3


def test_cells_run_when_the_bucket_cannot_be_reached(nbrewind, write, tmp_path: Path) -> None:
    path = write(*CELLS)
    away = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "the-secret",
    }
    chain = f"{tmp_path}/fast,s3://bucket/x"
    ran = nbrewind("audit", path, "--store", chain, "--json", "-", **away)
    assert actions(ran) == ["executed"] * 3
    assert "the-secret" not in ran.stdout + ran.stderr
    assert (
        actions(nbrewind("replay", path, "--store", chain, "--json", "-", **away)) == ["reused"] * 3
    )
    ran = nbrewind("audit", path, "--store", "s3://bucket/x", "--json", "-", **away)
    assert actions(ran) == ["executed"] * 3
    assert any("nothing is recorded" in line for line in json.loads(ran.stdout)["warnings"])
    assert "the-secret" not in ran.stdout + ran.stderr
