"""`nbrewind store gc|check|prune|pin|unpin|pins|trash|restore` on the store of a real notebook."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from typer.testing import CliRunner

from nbrewind.errors import UsageError
from nbrewind.store.opening import open_store
from tests.store.collecting import run_cell
from tests.store.remote.conftest import bucket, server

__all__ = ["bucket", "server"]


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

    pinned = nbrewind("store", "pin", nb.cells[1].id, path, "--note", "figure 1", "--json", "-")
    (pin,) = json.loads(pinned.stdout)
    assert (pin["cell_id"], pin["note"]) == (nb.cells[1].id, "figure 1")
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

    unpinned = nbrewind("store", "unpin", nb.cells[1].id, path)
    assert unpinned.stdout == f"unpinned {pin['lineage']}/{pin['seq']}\n"
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
        ("restore", "nothing", path),
        ("gc", path, "--store", "s3://bucket/x"),
    ):
        ran = nbrewind("store", *wrong)
        assert (ran.returncode, "nbrewind: " in ran.stderr) == (2, True), wrong


VERBS = [
    ("gc", ()),
    ("gc", ("--apply",)),
    ("check", ()),
    ("check", ("--repair",)),
    ("prune", ("--keep-last", "1")),
    ("pin", ("c0",)),
    ("unpin", ("c0",)),
    ("pins", ()),
    ("trash", ()),
    ("restore", ("c0",)),
]


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run the command in this process; what it refuses is raised."""
    from nbrewind.cli.app import app

    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> str:
        ran = CliRunner().invoke(app, arguments)
        if ran.exception is not None and not isinstance(ran.exception, SystemExit):
            raise ran.exception
        assert ran.exit_code == 0, ran.output
        return ran.output

    return run


def test_what_was_pruned_is_listed_and_restored(invoke, tmp_path: Path) -> None:
    place = ("--store", str(tmp_path / "store"))
    with open_store(place[1]) as store:
        for at, cell in enumerate(("c0", "c1", "c0", "c1")):
            run_cell(store, cell, b"%d" % at, created=float(at))
    assert invoke("store", "trash", *place) == "no record is in trash\n"
    invoke("store", "prune", "--keep-last", "1", "--apply", *place)
    trashed = json.loads(invoke("store", "trash", "--json", "-", *place))
    assert [(one["cell_id"], one["missing"]) for one in trashed] == [("c1", 0), ("c0", 0)]
    assert invoke("store", "restore", "c1", *place).startswith("restored ")
    assert len(invoke("store", "trash", *place).splitlines()) == 2
    restored = json.loads(invoke("store", "restore", "all", "--json", "-", *place))
    assert [one["created"] for one in restored] == [0.0]
    assert json.loads(invoke("store", "info", "--json", "-", *place))["refs"] == 4
    with pytest.raises(UsageError, match="store trash"):
        invoke("store", "restore", "c1", *place)


@pytest.mark.parametrize(("verb", "options"), VERBS)
def test_verbs_of_directories_say_what_to_do_with_a_bucket(
    invoke, bucket: str, verb: str, options: tuple[str, ...]
) -> None:
    open_store(bucket).close()
    assert bucket in invoke("store", "info", "--store", bucket)
    with pytest.raises(UsageError, match="copy the store to a directory"):
        invoke("store", verb, *options, "--store", bucket)


@pytest.mark.parametrize("second", ["bucket", "directory"])
def test_verbs_of_directories_name_those_of_a_chain(
    invoke, tmp_path: Path, bucket: str, second: str
) -> None:
    fast, slow = f"{tmp_path}/fast", bucket if second == "bucket" else f"{tmp_path}/slow"
    with open_store(fast) as store:
        run_cell(store, "c0", b"1")
    named = f"--store {fast}" + ("" if second == "bucket" else f" or --store {slow}")
    for verb, options in VERBS:
        with pytest.raises(UsageError) as caught:
            invoke("store", verb, *options, "--store", f"{fast},{slow}")
        assert str(caught.value).endswith(named)
        if verb not in ("unpin", "restore"):  # there is nothing to
            invoke("store", verb, *options, *caught.value.args[0].split(" with ")[1].split()[:2])
