"""`%load_ext nbrewind` in a plain ipykernel and in terminal IPython."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Start = Callable[..., Any]

# The small engine of these tests in place of the real one.
FAKE = (
    "import sys; sys.path.insert(0, {folder!r})\n"
    "import fake_kernel, nbrewind_kernels.extension as e\n"
    "e.start_engine = lambda shell, mode, location: fake_kernel.FakeEngine(shell, mode)"
)


def fake() -> str:
    return FAKE.format(folder=str(Path(__file__).parent))


def test_it_audits_a_plain_kernel(start: Start) -> None:
    front = start("plain")
    front.run(fake())
    front.run("%load_ext nbrewind")
    assert front.run("print('a'); x = 4\nx * 2").reply["status"] == "ok"
    front.run("1 / 0")
    front.run("await __import__('asyncio').sleep(0)")
    front.run("hidden = 1", silent=True)
    finished = front.journal("finish")
    assert [c["status"] for c in finished] == ["ok", "error", "ok"]
    assert finished[0]["outputs"] == ["stream", "execute_result"]
    assert finished[0]["result"] == "8"
    shown = front.run("%rewind report").outputs[0][1]["data"]["text/plain"]
    assert "3 executed" in shown
    front.run("%unload_ext nbrewind")
    front.run("5")
    assert len(front.journal("finish")) == 3
    assert len(front.journal("close")) == 1
    assert "not found" in str(front.run("%rewind report").outputs)


def test_it_changes_nothing_for_the_cell(start: Start) -> None:
    plain, audited = start("plain"), start("plain")
    for front in (plain, audited):
        front.run(fake())
    audited.run("%load_ext nbrewind")
    plain.run("1;")
    for cell in ("print(1)\n2", "_ + 1", "1/0", "get_ipython().run_cell('3');", "x = 1", "In[2:]"):
        expected, seen = plain.run(cell).comparable(), audited.run(cell).comparable()
        if cell == "In[2:]":
            continue
        assert seen == expected


def test_a_second_load_and_our_own_kernels_are_left_alone(start: Start) -> None:
    front = start("fake-audit")
    front.run(fake())
    front.run("%load_ext nbrewind")
    front.run("x = 1")
    assert len([c for c in front.journal("finish") if c["visible"]]) == 3


def test_an_engine_that_does_not_start_is_told(start: Start) -> None:
    front = start("plain", FAKE_BREAK="start")
    front.run(fake())
    assert front.run("%load_ext nbrewind").reply["status"] == "ok"
    assert front.run("6").reply["status"] == "ok"
    assert "Could not start" in front.run("%rewind status").outputs[0][1]["data"]["text/plain"]


def test_what_it_audits_is_reused_by_the_replay_kernel(start: Start, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    cells = ["a = [1, 2]", "a.append(3)\nprint('now', a)\nlen(a)"]
    plain = start("plain", NBREWIND_STORE=store)
    plain.run("%load_ext nbrewind")
    first = [plain.run(cell) for cell in cells]
    plain.run("%unload_ext nbrewind")
    replay = start("replay", NBREWIND_STORE=store)
    replay.run("pass")
    again = [replay.run(cell) for cell in cells]
    assert [a.comparable() for a in again] == [f.comparable() for f in first]
    shown = replay.run("%rewind report").outputs[0][1]["data"]["text/plain"]
    assert "1 executed, 2 reused" in shown


def test_it_audits_a_terminal(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    lines = [*fake().splitlines(), "%load_ext nbrewind", "y = 3", "y + 1", "%rewind status", "exit"]
    environ = {**os.environ, "FAKE_JOURNAL": str(journal), "IPYTHONDIR": str(tmp_path / "i")}
    environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    run = subprocess.run(
        [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--classic"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        env=environ,
        cwd=tmp_path,
        timeout=60,
        check=True,
    )
    assert "2 executed" in run.stdout, run.stdout + run.stderr
    assert '"result": "4"' in journal.read_text()
