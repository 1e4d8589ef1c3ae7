"""What is recorded of a cell: its own outputs, and the flags only a kernel can know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Start = Callable[..., Any]


def last(front: Any) -> dict[str, Any]:
    front.control(op="report")  # answered when the cell is captured
    call: dict[str, Any] = front.journal("finish")[-1]
    return call


def test_a_thread_of_an_earlier_cell_prints_into_that_cell(start: Start) -> None:
    """Case 48: what cell 1's thread prints during cell 2 is no output of cell 2."""
    front = start("fake-audit")
    front.run(
        "import threading\ngo, gone = threading.Event(), threading.Event()\n"
        "def late():\n    go.wait(30); print('late', flush=True); gone.set()\n"
        "threading.Thread(target=late).start()"
    )
    answer = front.run("go.set(); gone.wait(30); print('mine')")
    assert answer.text() in ("late\nmine\n", "mine\nlate\n")  # shown where ipykernel shows it
    assert last(front)["outputs"] == ["stream"]
    assert last(front)["flags"] == []
    again = start("fake-replay")
    again.run(
        "import threading\ngo, gone = threading.Event(), threading.Event()\n"
        "def late():\n    go.wait(30); print('late', flush=True); gone.set()\n"
        "threading.Thread(target=late).start()"
    )
    cell = "go.set(); gone.wait(30); print('mine')"
    again.run(cell)
    assert again.run(cell).text() == "mine\n"


def test_a_pool_of_an_earlier_cell_makes_its_user_unfollowable(start: Start) -> None:
    front = start("fake-audit")
    front.run(
        "from concurrent.futures import ThreadPoolExecutor\np = ThreadPoolExecutor(1)\n"
        "p.submit(int).result()"
    )
    assert front.run("p.submit(print, 'pooled').result()").text() == "pooled\n"
    assert last(front)["outputs"] == ["stream"]
    assert last(front)["flags"] == ["untracked"]


def test_a_thread_of_the_cell_itself_is_recorded(start: Start) -> None:
    front = start("fake-audit")
    front.run(
        "import threading\nt = threading.Thread(target=print, args=('own',))\nt.start(); t.join()"
    )
    assert last(front)["outputs"] == ["stream"]


@pytest.mark.parametrize(
    ("code", "flag"),
    [
        ("from comm import create_comm\nc = create_comm(target_name='t')", "widgets"),
        ("%load_ext autoreload\nlen?", "untracked"),
        ("get_ipython().set_next_input('x')", "untracked"),
        ("display({'application/json': {'n': 2**70}}, raw=True)", "untracked"),
    ],
)
def test_flags(code: str, flag: str, start: Start) -> None:
    front = start("fake-audit")
    front.run(code)
    assert last(front)["flags"] == [flag]
    front.run("1")
    assert last(front)["flags"] == []


def test_a_cell_that_asks_is_flagged(start: Start) -> None:
    front = start("fake-audit")
    front.run("input('? ')", stdin="yes")
    assert last(front)["flags"] == ["stdin"]
    front.run("from getpass import getpass; getpass()", stdin="yes")
    assert last(front)["flags"] == ["stdin"]


def test_a_subshell_beside_a_cell_makes_it_unfollowable(start: Start) -> None:
    front = start("fake-audit")
    subshell = front.ask("create_subshell_request", {}, channel="control")["subshell_id"]
    front.run("import threading\ngate = threading.Event()")
    waiting = front.start("gate.wait(30)")
    beside = front.start("print('beside'); gate.set()", subshell=subshell)
    replies = {}
    while len(replies) < 2:
        message = front.client.get_shell_msg(timeout=60)
        replies[message["parent_header"]["msg_id"]] = message["content"]["status"]
    assert replies == {waiting: "ok", beside: "ok"}
    front.run("'next'")
    flags = [call["flags"] for call in front.journal("finish")]
    assert flags == [[], ["untracked"], []]
    assert [c["source"] for c in front.journal("begin")][1:] == ["gate.wait(30)", "'next'"]


def test_a_comm_handler_is_looked_at_before_the_next_cell(start: Start) -> None:
    front = start("fake-audit")
    front.run(
        "from comm import get_comm_manager\nheard = []\n"
        "get_comm_manager().register_target('t', lambda comm, m: heard.append(1))"
    )
    front.run("1")
    assert not front.journal("absorb")
    msg_id = front.send("comm_open", {"comm_id": "c", "target_name": "t", "data": {}})
    list(front.published(msg_id))
    front.send("comm_open", {"comm_id": "d", "target_name": "unknown", "data": {}})
    assert front.run("len(heard)").outputs[0][1]["data"]["text/plain"] == "1"
    assert len(front.journal("absorb")) == 1


def test_how_a_cell_ended_is_told(start: Start) -> None:
    front = start("fake-audit")
    front.run("1 / 0")
    assert (last(front)["status"], last(front)["error"]) == (
        "error",
        "ZeroDivisionError: division by zero",
    )
    msg_id = front.start(
        "print('busy', flush=True)\nimport time\nfor _ in range(600): time.sleep(0.1)"
    )
    for message in front.published(msg_id):
        if message["msg_type"] == "stream":
            front.manager.interrupt_kernel()
    assert last(front)["status"] == "interrupted"
    front.run("x = (")
    assert last(front)["status"] == "error"


def test_results_are_handed_over_and_not_kept_alive(start: Start) -> None:
    cells = [
        "class C: pass\nimport weakref, gc, sys",
        "c = C(); r = weakref.ref(c); c",
        *"1234",
        "del c\nOut.clear()\nfor n in range(50): globals().pop(f'_{n}', None)",
        "gc.collect();",
        "print(r() is None)",
        "d = C(); print(sys.getrefcount(d))",
        "s = weakref.ref(d); del d; print(s() is None)",
    ]
    printed = []
    for kind in ("plain", "fake-audit"):
        front = start(kind)
        printed.append([front.run(cell).text() for cell in cells])
    assert printed[0] == printed[1]
    assert printed[0][-1] == "True\n"
    assert front.journal("finish")[1]["has_result"]
    for code in ("None", "c2 = 1", "5;", "Out"):
        front.run(code)
        assert not last(front)["has_result"]


def test_variables_of_the_shell_are_hidden_and_those_of_the_user_are_not(start: Start) -> None:
    front = start("fake-audit")
    front.run("1")
    front.run("2")
    assert last(front)["visible"] == []
    front.run("!true")
    assert last(front)["visible"] == ["_exit_code"]  # what a command binds is the user's
    front.run("_ = 'mine'\n_x = 1\n__private = 2\nopen = 3\n_5b = 4\n__version__ = '1'")
    assert last(front)["visible"] == [
        *("_", "_5b", "__private", "__version__", "_exit_code", "_x", "open")
    ]


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.system('echo from a process');",
        "import multiprocessing as mp\n"
        "p = mp.get_context('fork').Process(target=print, args=('child',))\np.start(); p.join()",
    ],
)
def test_output_of_processes_is_recorded(code: str, start: Start) -> None:
    front = start("fake-audit")
    recorded = []
    for _ in range(20):  # it comes through a pipe: under ipykernel too it may be late
        front.run(code)
        recorded = last(front)["outputs"]
        if recorded:
            break
    assert recorded == ["stream"]
