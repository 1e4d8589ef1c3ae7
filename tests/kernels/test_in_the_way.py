"""Law L6: whatever goes wrong on our side, the user's cells run as under ipykernel."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient

Start = Callable[..., Any]


@pytest.mark.parametrize("kind", ["fake-audit", "fake-replay"])
def test_an_engine_that_breaks_changes_nothing_but_a_warning(kind: str, start: Start) -> None:
    front = start(kind)
    for broken in ("break-begin", "break-finish"):
        answer = front.run(f"# fake: {broken}\nprint('runs')\n7")
        assert answer.reply["status"] == "ok"
        assert answer.text() == "runs\n"
        assert answer.outputs[-1][1]["data"]["text/plain"] == "7"
        report = front.control(op="report")
        assert report["report"] is None
        front.run(f"# fake: {broken}")
    assert [w for w in report["warnings"] if "broken begin" in w]
    assert [w for w in report["warnings"] if "broken finish" in w]
    assert len(report["warnings"]) == 2
    assert "warning: Could not" in front.run("%rewind status").outputs[0][1]["data"]["text/plain"]


def test_an_engine_that_does_not_start_leaves_a_plain_kernel(start: Start) -> None:
    front = start("fake-audit", FAKE_BREAK="start")
    assert front.run("6 * 7").outputs[0][1]["data"]["text/plain"] == "42"
    shown = front.run("%rewind status").outputs[0][1]["data"]["text/plain"]
    assert "not recording" in shown
    assert "Could not start recording" in shown


def test_an_interrupt_while_inputs_are_loaded_stops_the_cell(start: Start) -> None:
    front = start("fake-replay")
    msg_id = front.start("# fake: slow-begin\nprint('must not run')")
    front.wait_for("waiting")
    front.manager.interrupt_kernel()
    answer = front.wait(msg_id)
    assert answer.reply["ename"] == "KeyboardInterrupt"
    assert [kind for kind, _ in answer.outputs] == ["error"]
    assert front.journal("finish")[-1]["status"] == "interrupted"
    assert front.run("In[-2]").reply["execution_count"] == 2


def test_an_interrupt_during_a_capture_harms_nobody(start: Start) -> None:
    front = start("fake-audit")
    msg_id = front.start("# fake: slow-finish\n8")
    assert front.reply(msg_id)["status"] == "ok"  # the reply does not wait for the capture
    front.wait_for("capturing")
    front.manager.interrupt_kernel()
    answer = front.run("'next'")
    assert answer.reply["status"] == "ok"
    assert not front.control(op="report")["warnings"]


def test_idle_comes_after_the_capture(start: Start) -> None:
    front = start("fake-audit")
    front.run("# fake: slow-finish\n8")
    assert front.control(op="report")["report"]["action"] == "executed"


def test_cells_may_come_without_ids_or_with_a_document_uri(start: Start) -> None:
    front = start("fake-replay")
    uri = "vscode-notebook-cell:/home/me/my%20nb.ipynb#W0sZmlsZQ%3D%3D"
    for metadata in (None, {"cellId": uri}, {"cellId": None}, {"cellId": "a1"}, {"nbrewind": 3}):
        assert front.run("x = 1", metadata=metadata).reply["status"] == "ok"
    assert [c["cell"] for c in front.journal("begin")] == ["", uri, "", "a1", ""]


def test_policy_and_force_come_from_the_cell_s_metadata(start: Start) -> None:
    front = start("fake-audit")
    front.run("1", metadata={"nbrewind": {"cache": "never"}})
    front.run("2", metadata={"nbrewind": {"cache": "always", "force": True}})
    front.run("3", metadata={"nbrewind": {"cache": "nonsense"}})
    calls = front.journal("begin")
    assert [c["policy"] for c in calls] == ["never", "always", "auto"]
    assert [c["force"] for c in calls] == [False, True, False]


def test_the_driver_plans_asks_and_closes(start: Start) -> None:
    front = start("fake-replay")
    plan = [
        {"source": "a = 1", "cell_id": "x", "policy": "never", "force": True},
        {"source": "# only words"},
        {"source": "%rewind report"},
        {"source": "b = 2"},
    ]
    assert front.control(op="plan", cells=plan)["status"] == "ok"
    assert front.journal("plan")[0]["cells"] == [
        ["a = 1", "x", "never", True],
        ["b = 2", "", "auto", False],
    ]
    front.run("a = 1", metadata={"cellId": "x"})
    assert front.journal("begin")[-1]["force"]
    report = front.control(op="report")["report"]
    assert (report["id"], report["action"]) == ("x", "executed")
    assert front.control(op="nonsense")["status"] == "error"
    assert front.control(op="close")["status"] == "ok"
    assert len(front.journal("close")) == 1
    assert front.run("'plain now'").reply["status"] == "ok"
    assert front.control(op="report")["report"] is None


def test_shutting_down_ends_the_session(start: Start) -> None:
    front = start("fake-audit")
    front.run("1")
    front.ask("shutdown_request", {"restart": False}, channel="control")
    front.wait_for("close")


def test_empty_cells_and_rewind_commands_are_not_recorded(start: Start) -> None:
    front = start("fake-replay")
    for code in ("", "   \n", "# only words", "%rewind status", "%rewind report\n\n# why?"):
        front.run(code)
        assert front.control(op="report")["report"] is None
    assert not front.journal("begin")
    answer = front.run("%rewind nonsense")
    assert "Usage: %rewind" in str(answer.outputs)


def test_the_report_tells_what_was_done_and_why(start: Start) -> None:
    front = start("fake-replay")
    for code in ("y = 1", "y = 1", "1/0"):
        front.run(code)
    shown = front.run("%rewind report").outputs[0][1]["data"]
    for text in (shown["text/plain"], shown["text/html"]):
        for word in ("2 executed, 1 reused", "y = 1", "failed", "never-run"):
            assert word in text


def test_reused_cells_keep_their_place_in_the_queue(start: Start) -> None:
    front = start("fake-replay")
    front.run("z = 1")
    ids = [front.start(code) for code in ("z = 2", "z = 1", "print(z)")]
    assert [front.reply(i)["status"] for i in ids] == ["ok"] * 3
    assert [m["content"]["text"] for m in front.published(ids[-1])] == ["1\n"]


ORPHAN = """
import os, subprocess, sys
environ = {**os.environ, "JPY_PARENT_PID": str(os.getpid())}
kernel = subprocess.Popen(
    [sys.executable, *sys.argv[1:]], env=environ, start_new_session=True,
    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)
print(kernel.pid, flush=True)
sys.stdin.read()
"""


def test_a_kernel_whose_parent_dies_ends_its_session(tmp_path: Path) -> None:
    journal, connection = tmp_path / "journal", tmp_path / "connection.json"
    environ = {
        **os.environ,
        "FAKE_JOURNAL": str(journal),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "IPYTHONDIR": str(tmp_path),
    }
    fake = str(Path(__file__).with_name("fake_kernel.py"))
    with subprocess.Popen(
        [sys.executable, "-c", ORPHAN, fake, "audit", "-f", str(connection)],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        deadline = time.monotonic() + 60
        journal.touch()
        while not connection.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        client = BlockingKernelClient(connection_file=str(connection))
        client.load_connection_file()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        client.stop_channels()
        parent.kill()
    while "close" not in journal.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert '"close"' in journal.read_text()
    while _is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_alive(pid)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # An orphan that ended may wait for whoever adopted it.
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"
