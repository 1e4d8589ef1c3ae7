"""The commands on a real notebook with the real kernels: audit, edit, replay, look."""

from __future__ import annotations

import json
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import nbformat

CELLS = ("x = 1", "y = 10", "z = y * 2\nprint(z)", "w = x + 1\nw")
CELL_KEYS = {
    "index",
    "id",
    "action",
    "reasons",
    "seconds",
    "recorded_seconds",
    "reads",
    "writes",
    "checkpoint_bytes",
}
RUN_KEYS = {"notebook", "kernel", "seconds", "executed", "reused", "saved_seconds", "cells"}


def report(ran: subprocess.CompletedProcess[str]) -> dict:
    assert ran.returncode == 0, ran
    return json.loads(ran.stdout)


def actions(made: dict) -> list[str]:
    return [cell["action"] for cell in made["cells"]]


def edit(path: Path, index: int, source: str) -> None:
    nb = nbformat.read(path, 4)
    nb.cells[index].source = source
    nbformat.write(nb, path)


def test_an_edit_executes_the_cell_and_its_dependents_only(nbrewind, write) -> None:
    path = write(*CELLS)
    audited = report(nbrewind("audit", path, "--json", "-"))
    assert audited.keys() >= RUN_KEYS
    assert all(cell.keys() >= CELL_KEYS for cell in audited["cells"])
    assert audited["kernel"] == "nbrewind-audit"
    assert audited["notebook"] == str(path)
    assert (audited["executed"], audited["reused"]) == (4, 0)
    edit(path, 0, "x = 2")
    status = report(nbrewind("status", path, "--json", "-"))
    assert [cell["status"] for cell in status["cells"]][:3] == [
        "would-run",
        "reusable",
        "reusable",
    ]
    replayed = report(nbrewind("replay", path, "--json", "-"))
    assert actions(replayed) == ["executed", "reused", "reused", "executed"]
    kinds = [[reason["kind"] for reason in cell["reasons"]] for cell in replayed["cells"]]
    assert kinds == [["source-changed"], [], [], ["input-changed"]]
    done = nbformat.read(path, 4)
    assert done.cells[2].outputs[0].text == "20\n"
    assert done.cells[3].outputs[0].data["text/plain"] == "3"
    assert [cell.execution_count for cell in done.cells] == [1, 2, 3, 4]
    again = report(nbrewind("replay", path, "--json", "-"))
    assert actions(again) == ["reused"] * 4


def test_parameters_replay_only_what_depends_on_them(nbrewind, write) -> None:
    path = write(("a = 1", ["parameters"]), "b = 5", "print(a + b)")
    report(nbrewind("audit", path, "-p", "a=2", "--json", "-"))
    other = report(nbrewind("replay", path, "-p", "a=3", "--json", "-"))
    assert actions(other) == ["reused", "executed", "reused", "executed"]
    back = report(nbrewind("replay", path, "-p", "a=2", "--json", "-"))
    assert actions(back) == ["reused"] * 4
    assert nbformat.read(path, 4).cells[3].outputs[0].text == "7\n"


def test_what_came_before_a_raising_cell_is_reused(nbrewind, write, tmp_path: Path) -> None:
    path = write("x = 1", "raise ValueError('no')", "x")
    ran = nbrewind("audit", path, "--json", tmp_path / "report.json")
    assert ran.returncode == 1
    assert "ValueError: no" in ran.stderr
    assert "\x1b" not in ran.stderr
    assert "failed 1" in ran.stdout
    made = json.loads((tmp_path / "report.json").read_text())
    assert actions(made) == ["executed", "failed", "not-run"]
    edit(path, 1, "pass")
    assert actions(report(nbrewind("replay", path, "--json", "-"))) == [
        "reused",
        "executed",
        "executed",
    ]


def test_what_came_before_a_dead_kernel_is_reused(nbrewind, write) -> None:
    path = write("x = 1", "import os\nos._exit(9)")
    ran = nbrewind("audit", path)
    assert ran.returncode == 1
    assert "code cell 1 (import os)" in ran.stderr
    edit(path, 1, "x")
    assert actions(report(nbrewind("replay", path, "--json", "-"))) == ["reused", "executed"]


def test_ctrl_c_keeps_what_is_complete_and_replay_goes_on_from_there(
    nbrewind, write, tmp_path: Path
) -> None:
    path = write("x = 1", "import time\nopen('begun', 'w').close()\ntime.sleep(600)", "x")
    process = subprocess.Popen(
        [sys.executable, "-m", "nbrewind", "audit", str(path)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        while not (tmp_path / "begun").exists():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130, said
    assert "interrupted in code cell 1" in said
    edit(path, 1, "pass")
    made = report(nbrewind("replay", path, "--json", "-"))
    assert actions(made) == ["reused", "executed", "executed"]


def test_a_store_that_cannot_be_written_is_one_warning(nbrewind, write, tmp_path: Path) -> None:
    path = write("x = 1", "print(x)")
    (tmp_path / "store").write_text("a file where the store should be")
    ran = nbrewind("audit", path, "--store", tmp_path / "store")
    assert ran.returncode == 0, ran
    assert ran.stderr.count("warning: ") == 1, ran.stderr
    assert nbformat.read(path, 4).cells[1].outputs[0].text == "1\n"


def test_the_store_is_where_it_is_asked_for(nbrewind, write, tmp_path: Path) -> None:
    path = write("x = 1")
    nbrewind("audit", path, "--store", tmp_path / "one")
    nbrewind("audit", path, NBREWIND_STORE=str(tmp_path / "two"))
    assert (tmp_path / "one").is_dir()
    assert (tmp_path / "two").is_dir()
    assert not (tmp_path / ".nbrewind").exists()
    nbrewind("audit", path)
    assert (tmp_path / ".nbrewind").is_dir()


def test_log_show_graph_and_store_info_tell_what_was_recorded(nbrewind, write) -> None:
    path = write(*CELLS)
    nbrewind("audit", path)
    entries = report(nbrewind("log", path, "--json", "-"))
    assert [entry["source"] for entry in entries] == list(reversed(CELLS))
    assert all(entry["trusted"] and entry["status"] == "ok" for entry in entries)
    assert {entry["level"] for entry in entries} == {"local"}
    assert nbrewind("log", path, "-n", "2").stdout.count("\n") == 3
    shown = nbrewind("show", entries[0]["record"][:12], path).stdout
    assert "w = x + 1" in shown
    assert "read\n    x  v" in shown
    assert "wrote\n    w  v" in shown
    full = report(nbrewind("show", entries[0]["record"], path, "--json", "-"))
    assert full["source"] == CELLS[3]
    unknown = nbrewind("show", "0" * 64, path)
    assert unknown.returncode == 2
    assert "nbrewind log" in unknown.stderr
    graph = nbrewind("graph", path).stdout
    assert 'c0 -- "x" --> c3' in graph
    assert 'c1 -- "y" --> c2' in graph
    assert graph.count("-->") == 2
    assert nbrewind("graph", path, "--format", "dot").stdout.startswith("digraph")
    info = nbrewind("store", "info", path).stdout
    assert "4: 4 trusted, 0 not" in info
    assert report(nbrewind("store", "info", path, "--json", "-"))["refs"] == 4


def test_records_of_someone_else_are_reused_only_once_their_key_is_trusted(
    nbrewind, write, tmp_path: Path
) -> None:
    path = write("x = 1", "x + 1")
    nbrewind("audit", path, NBREWIND_CONFIG_DIR=str(tmp_path / "theirs"))
    mine = {"NBREWIND_CONFIG_DIR": str(tmp_path / "mine")}
    listed = nbrewind("trust", "list", path, **mine).stdout
    assert "NOT trusted" in listed
    key = next(line for line in listed.splitlines() if "NOT trusted" in line).split()[0]
    made = report(nbrewind("replay", path, "-o", tmp_path / "o.ipynb", "--json", "-", **mine))
    assert made["executed"] == 2
    assert made["cells"][0]["reasons"][0]["kind"] == "untrusted"
    shutil.rmtree(tmp_path / ".nbrewind")
    nbrewind("audit", path, NBREWIND_CONFIG_DIR=str(tmp_path / "theirs"))
    assert nbrewind("trust", "add", key[:10], path, "--comment", "them", **mine).returncode == 0
    assert actions(report(nbrewind("replay", path, "--json", "-", **mine))) == ["reused"] * 2
    assert nbrewind("trust", "remove", key[:10], **mine).returncode == 0
    assert "NOT trusted" in nbrewind("trust", "list", path, **mine).stdout
    assert nbrewind("trust", "remove", key, **mine).returncode == 1
    assert nbrewind("trust", "add", "xyz", **mine).returncode == 1


def test_the_notebooks_permissions_stay(nbrewind, write) -> None:
    path = write("1")
    path.chmod(0o600)
    nbrewind("audit", path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_demo_reuses_the_slow_cell_and_runs_the_edited_one(nbrewind, tmp_path: Path) -> None:
    ran = nbrewind("demo", "--keep", tmp_path / "demo")
    assert ran.returncode == 0, ran
    rows = ran.stdout.split("3. Replay")[1]
    assert "reused" in next(line for line in rows.splitlines() if "search = " in line)
    assert "executed" in next(line for line in rows.splitlines() if "top = 8" in line)
    assert "executed" in next(line for line in rows.splitlines() if "figure, axes" in line)
    nb = nbformat.read(tmp_path / "demo" / "tumours.ipynb", 4)
    assert "image/png" in nb.cells[-1].outputs[0].data
    refused = nbrewind("demo", "--keep", tmp_path / "demo")
    assert refused.returncode == 2
