"""`nbrewind store gc|check|prune|pin|unpin|pins` on the store of a real notebook."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat


def records(nbrewind, path: Path) -> int:
    ran = nbrewind("store", "info", path, "--json", "-")
    return json.loads(ran.stdout)["refs"]


def test_a_store_is_pruned_and_collected(nbrewind, write) -> None:
    path = write("x = 1", "y = x + 1\ny")
    assert nbrewind("audit", path).returncode == 0
    nb = nbformat.read(path, 4)
    nb.cells[0].source = "x = 2"
    nbformat.write(nb, path)
    assert nbrewind("audit", path).returncode == 0
    assert records(nbrewind, path) == 4

    pinned = nbrewind("store", "pin", nb.cells[1].id, path, "--note", "figure 1")
    assert pinned.stdout.startswith("pinned ")
    (pin,) = json.loads(nbrewind("store", "pins", path, "--json", "-").stdout)
    assert (pin["cell_id"], pin["note"]) == (nb.cells[1].id, "figure 1")

    dry = json.loads(nbrewind("store", "prune", path, "--keep-last", "1", "--json", "-").stdout)
    assert (len(dry["pruned"]), dry["applied"]) == (2, False)
    assert records(nbrewind, path) == 4
    done = nbrewind("store", "prune", path, "--keep-last", "1", "--apply")
    assert "2 of 4 records moved to trash" in done.stdout
    assert records(nbrewind, path) == 2

    collected = nbrewind("store", "gc", path, "--json", "-")
    assert json.loads(collected.stdout)["condemned"] > 0
    apply = ("store", "gc", path, "--apply", "--grace", "0", "--trash", "0")
    assert nbrewind(*apply).returncode == 0
    assert nbrewind("store", "check", path).returncode == 0
    replayed = json.loads(nbrewind("replay", path, "--json", "-").stdout)
    assert (replayed["executed"], replayed["reused"]) == (0, 2)

    assert nbrewind("store", "unpin", nb.cells[1].id, path).returncode == 0
    assert json.loads(nbrewind("store", "pins", path, "--json", "-").stdout) == []


def test_damage_is_told_and_repaired(nbrewind, write) -> None:
    path = write("x = 1", "x + 1")
    assert nbrewind("audit", path).returncode == 0
    pack = next((path.parent / ".nbrewind" / "packs").rglob("*.pack"))
    content = bytearray(pack.read_bytes())
    content[100] ^= 1
    pack.write_bytes(content)
    assert nbrewind("store", "check", path).returncode == 1
    found = nbrewind("store", "check", path, "--repair", "--json", "-")
    assert json.loads(found.stdout)["salvaged"] > 0
    assert found.returncode == 0
    assert nbrewind("store", "gc", path, "--apply").returncode == 0


def test_requests_that_cannot_be_understood(nbrewind, write) -> None:
    path = write("x = 1")
    assert nbrewind("audit", path).returncode == 0
    for wrong in (
        ("prune", path),
        ("prune", path, "--max-size", "much"),
        ("pin", "nothing", path),
        ("unpin", "nothing", path),
        ("gc", path, "--store", "s3://bucket/x"),
    ):
        ran = nbrewind("store", *wrong)
        assert (ran.returncode, "nbrewind: " in ran.stderr) == (2, True), wrong
