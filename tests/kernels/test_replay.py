"""Law L1 through real kernels: a replay looks like a fresh run of ipykernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., Any]

NOTEBOOK = [
    "import sys\nimport numpy as np\nimport pandas as pd\nimport matplotlib.pyplot as plt",
    "a = np.arange(6.0)\nb = a[2:]\nprint('made', file=sys.stderr)\na",
    "b[0] = 50\nprint(a.sum())",
    "df = pd.DataFrame({'x': a, 'y': a ** 2})\ndf",
    "h = display('first', display_id='shown')",
    "h.update('second')",
    "plt.plot(df.x, df.y); plt.title('curve')\nplt.show()",
    "class Model:\n    def __init__(self, k): self.k = k\n"
    "    def __repr__(self): return f'M({self.k})'",
    "m = Model(3)\nmodels = [m, m]\nm",
    "_.k + 1",
    "%%capture caught\nprint('caught')",
    "caught.stdout, models[0] is models[1], isinstance(m, Model)",
    "await __import__('asyncio').sleep(0)\n'awaited'",
    "len(Out), In[1][:10]",
    "!echo from a shell",
]


def run_all(front: Any, cells: list[str]) -> list[Any]:
    return [front.run(cell).comparable() for cell in cells]


def actions(front: Any, cells: list[str]) -> tuple[list[Any], list[str]]:
    shown, done = [], []
    for cell in cells:
        shown.append(front.run(cell).comparable())
        done.append(front.control(op="report")["report"]["action"])
    return shown, done


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store")


def test_a_replay_shows_what_a_fresh_run_shows(start: Start, store: str) -> None:
    expected = run_all(start("plain"), NOTEBOOK)
    audit = start("audit", NBREWIND_STORE=store)
    assert run_all(audit, NOTEBOOK) == expected
    assert not audit.control(op="report")["warnings"]
    audit.stop()
    shown, done = actions(start("replay", NBREWIND_STORE=store), NOTEBOOK)
    assert shown == expected
    assert done.count("reused") >= len(NOTEBOOK) - 4, done


def test_an_edit_executes_the_cell_and_what_depends_on_it(start: Start, store: str) -> None:
    cells = ["x = 1", "y = 10", "z = y * 2\nz", "w = x + 1\nw"]
    start("audit", NBREWIND_STORE=store).run("0;")
    audit = start("audit", NBREWIND_STORE=store)
    run_all(audit, cells)
    audit.stop()
    edited = ["x = 5", *cells[1:]]
    replay = start("replay", NBREWIND_STORE=store)
    shown, done = actions(replay, edited)
    assert done == ["executed", "reused", "reused", "executed"]
    assert shown == run_all(start("plain"), edited)
    table = replay.run("%rewind report").outputs[0][1]["data"]["text/plain"]
    assert "2 executed, 2 reused" in table
    assert "source-changed" in table
    assert "input-changed x" in table


def test_what_is_reused_loads_when_it_is_looked_at(start: Start, store: str) -> None:
    cells = ["big = list(range(1000))\ntext = 'abc'", "n = len(big)"]
    audit = start("audit", NBREWIND_STORE=store)
    run_all(audit, cells)
    audit.stop()
    replay = start("replay", NBREWIND_STORE=store)
    actions(replay, cells)
    status = "%rewind status"
    assert "not loaded: big, n, text" in replay.run(status).outputs[0][1]["data"]["text/plain"]
    asked = {"code": "big.", "cursor_pos": 4}
    assert "append" in str(replay.ask("complete_request", asked)["matches"])
    assert "not loaded: n, text" in replay.run(status).outputs[0][1]["data"]["text/plain"]
    assert replay.run("print(text, n)", store_history=False).text() == "abc 1000\n"
    assert "not loaded" not in replay.run(status).outputs[0][1]["data"]["text/plain"]


def test_a_cell_with_a_widget_or_a_question_is_executed_again(start: Start, store: str) -> None:
    cells = ["from comm import create_comm", "c = create_comm(target_name='t');", "1 + 1"]
    audit = start("audit", NBREWIND_STORE=store)
    run_all(audit, cells)
    audit.run("answer = input()", stdin="yes")
    audit.stop()
    replay = start("replay", NBREWIND_STORE=store)
    _, done = actions(replay, cells)
    assert done == ["reused", "executed", "reused"]
    assert replay.run("answer = input()", stdin="no").reply["status"] == "ok"
    assert replay.control(op="report")["report"]["action"] == "executed"


BAR = """\
from comm import create_comm
state = {"_model_module": "@jupyter-widgets/controls", "value": 0}
state["_model_name"] = "FloatProgressModel"
bar = create_comm(target_name="jupyter.widget", data={"state": state})
view = {"application/vnd.jupyter.widget-view+json": {"model_id": bar.comm_id}}
display(view, raw=True)
for value in (1, 2, 3):
    bar.send({"method": "update", "state": {"value": value}})
"""


def test_a_progress_bar_is_shown_again_as_the_run_left_it(start: Start, store: str) -> None:
    cells = [BAR, "1 + 1"]
    audit = start("audit", NBREWIND_STORE=store)
    run_all(audit, cells)
    audit.stop()
    replay = start("replay", NBREWIND_STORE=store)
    answer = replay.run(cells[0])
    assert replay.control(op="report")["report"]["action"] == "reused"
    (opened,) = [content for kind, content in answer.outputs if kind == "comm_open"]
    assert opened["data"]["state"]["value"] == 3
    (shown,) = [content["data"] for kind, content in answer.outputs if kind == "display_data"]
    assert shown["application/vnd.jupyter.widget-view+json"]["model_id"] == opened["comm_id"]


def test_a_widget_that_can_be_operated_needs_a_run(start: Start, store: str) -> None:
    cell = BAR.replace("FloatProgressModel", "IntSliderModel")
    audit = start("audit", NBREWIND_STORE=store)
    run_all(audit, [cell])
    audit.stop()
    _, done = actions(start("replay", NBREWIND_STORE=store), [cell])
    assert done == ["executed"]


def test_hidden_code_between_cells_is_seen(start: Start, store: str) -> None:
    cells = ["v = 1", "w = v + 1\nw"]
    audit = start("audit", NBREWIND_STORE=store)
    run_all(audit, cells)
    audit.stop()
    replay = start("replay", NBREWIND_STORE=store)
    replay.run(cells[0])
    replay.run("len([n for n in dir() if not n.startswith('_')])", silent=True)
    replay.run(cells[1])
    assert replay.control(op="report")["report"]["action"] == "reused"
    replay.run("v = 7", silent=True)
    assert replay.run(cells[1]).outputs[0][1]["data"]["text/plain"] == "8"


def test_results_keep_their_places_when_they_are_not_loaded(start: Start, store: str) -> None:
    cells = [
        "class P:\n    def __init__(self, n): self.n = n\n"
        "    def __repr__(self): return f'P{self.n}'",
        "p = P(1)\np",
        "P(2)",
        "3",
    ]
    looks = ["(_, __, ___)", "_, __", "4", "(_, len(Out))"]
    expected = run_all(start("plain"), cells + looks)
    audit = start("audit", NBREWIND_STORE=store)
    run_all(audit, cells)
    audit.stop()
    replay = start("replay", NBREWIND_STORE=store)
    _, done = actions(replay, cells)
    assert done == ["reused"] * 4
    assert run_all(replay, looks) == expected[len(cells) :]


def test_future_imports_of_reused_cells_hold(start: Start, store: str) -> None:
    cells = ["from __future__ import annotations", "def g(q: nope): pass", "g.__annotations__"]
    audit = start("audit", NBREWIND_STORE=store)
    run_all(audit, cells)
    audit.stop()
    replay = start("replay", NBREWIND_STORE=store)
    _, done = actions(replay, cells)
    assert done == ["reused"] * 3
    assert replay.run("def h(q: nope): pass\nh.__annotations__").reply["status"] == "ok"


def test_the_history_of_a_reused_cell_that_looks_like_a_magic_is_its_text(
    start: Start, store: str
) -> None:
    cells = ["mv = [5, 6]", "mv [1]", "k = 1", "In[2], k"]
    audit = start("audit", NBREWIND_STORE=store)
    run_all(audit, cells)
    audit.stop()
    edited = [*cells[:2], "k = 2", cells[3]]
    shown, done = actions(start("replay", NBREWIND_STORE=store), edited)
    assert shown == run_all(start("plain"), edited)
    assert done == ["reused", "reused", "executed", "executed"]


def test_commands_are_reused_while_their_files_and_names_are_the_same(
    start: Start, store: str
) -> None:
    cells = [
        "_ = open('a.txt', 'w').write('1\\n')",
        "name = 'a.txt'",
        "!cat {name} > b.txt",
        "%%bash\nwc -c < b.txt",
        "found = !cat b.txt\nfound",
        "!false",
        "print(_exit_code)",
        "!cat b.txt | date -f - > /dev/null",
    ]
    audit = start("audit", NBREWIND_STORE=store)
    expected = run_all(audit, cells)
    audit.stop()
    shown, done = actions(start("replay", NBREWIND_STORE=store), cells)
    assert done == [*["reused"] * 7, "executed"]
    assert shown == expected
    edited = ["_ = open('a.txt', 'w').write('2\\n')", *cells[1:5], "!true", *cells[6:]]
    shown, done = actions(start("replay", NBREWIND_STORE=store), edited)
    assert done == ["executed", "reused", *["executed"] * 6]
    assert shown == run_all(start("plain"), edited)
