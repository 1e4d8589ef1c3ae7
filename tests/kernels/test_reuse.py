"""A reused cell shows, and leaves behind in IPython, what a run would have."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

Start = Callable[..., Any]

SHOWN = {
    "streams": "import sys\nfor i in range(3):\n    print(i)\n    print(-i, file=sys.stderr)",
    "result": "print('first')\n[1, 2]",
    "rich": (
        "from IPython.display import HTML, Image, Latex, display\n"
        "display(HTML('<b>x</b>'), metadata={'text/html': {'isolated': True}})\n"
        "display({'application/json': {'a': [1, None, 2.5]}, 'text/plain': 'j'}, raw=True)\n"
        "Latex('$x$')"
    ),
    "updates": (
        "from IPython.display import display\n"
        "h = display(1, display_id='one')\nprint('between')\nh.update(2)\nh.update(3)"
    ),
    "clear output": (
        "from IPython.display import clear_output\n"
        "for i in range(3):\n    clear_output(wait=True)\n    print(i)\nclear_output()"
    ),
    "figure": "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2]); print('before')",
    "shell": "!echo from a shell",
    "thread": (
        "import threading\nt = threading.Thread(target=print, args=('t',)); t.start(); t.join()"
    ),
    "a traceback in a good cell": (
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    get_ipython().showtraceback()"
    ),
    "carriage returns": "for i in range(3): print(f'\\r{i}', end='')",
    "emoji and controls": "print('\\x1b[31mé\\U0001f600\\x00\\x1b[0m')",
    "await": "import asyncio\nawait asyncio.sleep(0)\nprint('waited')\n'value'",
}


def without_counts(outputs: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    return [(kind, {**c, "execution_count": 0}) for kind, c in outputs]


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory, launch_fake: Any) -> Any:
    front = launch_fake("replay", tmp_path_factory.mktemp("reuse"))
    yield front
    front.stop()


@pytest.mark.parametrize("name", SHOWN)
def test_the_same_messages_are_shown(name: str, replay: Any) -> None:
    first, again = replay.run(SHOWN[name]), replay.run(SHOWN[name])
    assert replay.control(op="report")["report"]["action"] == "reused"
    assert without_counts(again.outputs) == without_counts(first.outputs)
    assert first.outputs
    count = first.reply["execution_count"]
    assert again.reply["execution_count"] == count + 1
    assert again.reply["status"] == "ok"
    for kind, content in again.outputs:
        if kind == "execute_result":
            assert content["execution_count"] == count + 1


def test_in_out_and_underscores_are_those_of_a_run(start: Start) -> None:
    cells = ["11", "22", "11", "None", "33;", "22", "x = 5", "11"]
    look = "(_, __, ___, dict(Out), In[1:], _i, _ii, _iii, _8, _i8, get_ipython().execution_count)"
    seen = []
    for kind in ("plain", "fake-replay"):
        front = start(kind)
        for cell in cells:
            front.run(cell)
        seen.append(front.run(look).outputs)
        history = {"hist_access_type": "range", "session": 0, "start": 1, "stop": 9}
        for output in (False, True):
            asked = {**history, "raw": True, "output": output}
            seen[-1].append(front.ask("history_request", asked)["history"])
    assert seen[0] == seen[1]


def test_an_underscore_of_the_user_is_left_alone(start: Start) -> None:
    front = start("fake-replay")
    for cell in ("41", "_ = 'mine'", "41"):
        front.run(cell)
    assert front.run("_").outputs[0][1]["data"]["text/plain"] == "'mine'"


def test_an_update_reaches_the_display_of_a_reused_cell(start: Start) -> None:
    front = start("fake-replay")
    show = "from IPython.display import display\nh = display('old', display_id=True)"
    first, again = front.run(show), front.run(show)
    shown = again.outputs[0][1]["transient"]["display_id"]
    assert shown == first.outputs[0][1]["transient"]["display_id"]
    update = front.run("h.update('new')").outputs[0]
    assert update[0] == "update_display_data"
    assert update[1]["transient"]["display_id"] == shown


def test_no_code_runs_not_even_event_callbacks(start: Start) -> None:
    front = start("fake-replay")
    front.run(
        "calls = []\nfor e in ('pre_execute', 'post_execute', 'pre_run_cell'):\n"
        "    get_ipython().events.register(e, lambda *a, e=e: calls.append(e))"
    )
    front.run("print('once')")
    before = front.run("len(calls)").outputs[0][1]["data"]["text/plain"]
    front.run("print('once')")
    # The cells that look have themselves called three callbacks in between.
    assert int(front.run("len(calls) + 0").outputs[0][1]["data"]["text/plain"]) == int(before) + 3


def test_source_of_a_function_from_a_reused_cell_is_found(start: Start) -> None:
    front = start("fake-replay")
    define = "def f():\n    return 1 / 0"
    front.run(define)
    front.run(define)
    assert "1 / 0" in front.run("import inspect; print(inspect.getsource(f))").text()
    shown = re.sub(r"\x1b\[[\d;]*m", "", "".join(front.run("f()").reply["traceback"]))
    assert "return 1 / 0" in shown


def test_user_expressions_of_a_reused_cell_load_what_they_name(start: Start) -> None:
    front = start("fake-replay")
    cell = "# fake: lazy\nbig = [1, 2, 3]"
    front.run(cell)
    reply = front.run(cell, user_expressions={"b": "big"}).reply
    assert reply["user_expressions"]["b"]["data"]["text/plain"] == "[1, 2, 3]"


class TestNotLoaded:
    CELL = "# fake: lazy\nlazy_list = [3, 1, 2]\nlazy_text = 'abc'"

    @pytest.fixture
    def front(self, start: Start) -> Any:
        front = start("fake-replay")
        front.run(self.CELL)
        front.run(self.CELL)
        assert not front.journal("materialise")
        return front

    def complete(self, front: Any, code: str) -> list[str]:
        content = {"code": code, "cursor_pos": len(code)}
        return list(front.ask("complete_request", content)["matches"])

    def test_names_complete_without_being_loaded(self, front: Any) -> None:
        assert {"lazy_list", "lazy_text"} <= set(self.complete(front, "print(lazy_"))
        assert not front.journal("materialise")

    def test_members_complete_and_only_their_owner_is_loaded(self, front: Any) -> None:
        assert any("reverse" in m for m in self.complete(front, "f(lazy_text, lazy_list.re"))
        assert [c["names"] for c in front.journal("materialise")] == [["lazy_list"]]

    def test_inspection_loads_what_it_shows(self, front: Any) -> None:
        content = {"code": "lazy_text", "cursor_pos": 4, "detail_level": 0}
        reply = front.ask("inspect_request", content)
        assert "abc" in reply["data"]["text/plain"]
        assert [c["names"] for c in front.journal("materialise")] == [["lazy_text"]]

    def test_hidden_requests_see_everything(self, front: Any) -> None:
        front.run("seen = sorted(n for n in dir() if n.startswith('lazy'))", silent=True)
        shown = front.run("print(seen, lazy_list)", store_history=False)
        assert shown.text() == "['lazy_list', 'lazy_text'] [3, 1, 2]\n"
        front.run("1")
        assert len(front.journal("absorb")) == 1
        assert not any("seen" in call["source"] for call in front.journal("begin"))

    def test_a_silent_request_for_one_variable_loads_that_one(self, front: Any) -> None:
        front.run("", silent=True, user_expressions={"l": "lazy_list"})
        assert [c["names"] for c in front.journal("materialise")] == [["lazy_list"]]

    def test_the_debugger_sees_everything(self, front: Any) -> None:
        front.debug("initialize", 1, clientID="t", adapterID="python")
        front.debug("attach", 2)
        variables = front.debug("inspectVariables", 3)["body"]["variables"]
        assert {"lazy_list", "lazy_text"} <= {v["name"] for v in variables}
        front.debug("disconnect", 4, restart=False)

    def test_status_lists_them(self, front: Any) -> None:
        shown = front.run("%rewind status").outputs[0][1]["data"]["text/plain"]
        assert "known but not loaded: lazy_list, lazy_text" in shown
