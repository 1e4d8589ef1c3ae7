"""Law L3: under either kernel everything is as under plain ipykernel."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

Same = Callable[[Callable[[Any], Any]], Any]

CELLS = {
    "streams": "import sys\nfor i in range(3):\n    print(i)\n    print(-i, file=sys.stderr)",
    "no newline": "print('a', end=''); print('b', end='', flush=True); print('c')",
    "result": "[1, 2, {'a': (3,)}]",
    "no result": "None",
    "semicolon": "41;",
    "several expressions": "1\n2\n3",
    "rich": (
        "from IPython.display import HTML, display\ndisplay(HTML('<b>x</b>'))\nHTML('<i>y</i>')"
    ),
    "display id": (
        "from IPython.display import display\n"
        "h = display(1, display_id='fixed')\nh.update(2)\nprint('x')\nh.update(3)"
    ),
    "clear output": (
        "from IPython.display import clear_output\n"
        "for i in range(3):\n    clear_output(wait=True)\n    print(i)"
    ),
    "figure": ("import matplotlib.pyplot as plt\nplt.plot([1, 3, 2]); print('before the figure')"),
    "raises": "def f():\n    return 1 / 0\nf()",
    "syntax error": "x = (",
    "raises in a repr": "class R:\n    def __repr__(self): raise ValueError('no')\nR()",
    "exits": "raise SystemExit(3)",
    "after an error": "'still here'",
    "await": "import asyncio\nawait asyncio.sleep(0)\nprint('later')\n7",
    "line magic": "%pwd\n%timeit -n1 -r1 1",
    "cell magic": "%%capture caught\nprint('hidden')",
    "what was captured": "caught.stdout",
    "time": "%time 1 + 1",
    "shell": "!echo from a shell\nlines = !echo one\nlines",
    "bash": "%%bash\necho from bash",
    "help": "len?",
    "assignment magic": "here = %pwd\ntype(here).__name__",
    "who": "%who str",
    "history variables": "In[-2], _i, _ii, sorted(k for k in Out)[-2:]",
    "last results": "10\n",
    "last results used": "_, __, _ + 1",
    "identity": "a = [1]; b = a; a is b, type(get_ipython()).__name__, type(sys.stdout)",
    "shell config": "'IPKernelApp' in get_ipython().config",
    "class": "class C: pass\nc = C()\nisinstance(c, C), C.__module__, __name__",
    "frames": "import inspect\ndef g():\n    return inspect.stack()[1].function\ng()",
    "source": "inspect.getsource(g)",
    "warning": "import warnings\nwarnings.warn('careful')",
    "empty": "",
    "blank": "  \n# nothing\n",
    "globals": "'a' in globals() and globals() is get_ipython().user_ns",
    "future": "from __future__ import annotations\ndef h(x: undefined): pass\nh.__annotations__",
    "run cell": "r = get_ipython().run_cell('nested = 5; nested'); r.result",
    "thread": (
        "import threading\n"
        "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()"
    ),
    "logging": "import logging\nlogging.getLogger('x').warning('logged')",
    "paste": "get_ipython().set_next_input('next')",
}


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_shows_replies_and_counts_as_under_ipykernel(name: str, same: Same) -> None:
    same(lambda front: front.run(CELLS[name]))


def test_user_expressions(same: Same) -> None:
    same(lambda f: f.run("u = 3", user_expressions={"a": "u * 2", "b": "missing"}))


def test_silent_and_unstored_requests_leave_no_trace(same: Same) -> None:
    same(lambda f: f.run("s = 1; print('silent')", silent=True))
    same(lambda f: f.run("s + 1", store_history=False))
    same(lambda f: f.run("s, len(In) - len(In), _"))


OWN_MAGICS = frozenset({"%rewind", "%%torchrun"})


@pytest.mark.parametrize(
    "code", ["prin", "import o", "text = 'abc'\ntext.upp", "%tim", "d = {'key': 1}\nd['k", "open("]
)
def test_completion(code: str, same: Same) -> None:
    same(lambda f: f.run(code.split("\n")[0] if "\n" in code else "1"))

    def complete(front: Any) -> Any:
        reply = front.ask("complete_request", {"code": code, "cursor_pos": len(code)})
        known = reply["metadata"]["_jupyter_types_experimental"]
        # For all builtins at once a busy machine runs into IPython's time limit on types.
        kept = [match for match in known if match["text"] not in OWN_MAGICS]
        reply["metadata"] = [m["text"] for m in kept] if code == "open(" else kept
        reply["matches"] = [match for match in reply["matches"] if match not in OWN_MAGICS]
        return reply

    assert same(complete)["status"] == "ok"


def test_inspection(same: Same) -> None:
    same(lambda f: f.run("def documented(x):\n    'Says so.'"))
    content = {"code": "documented(", "cursor_pos": 5, "detail_level": 0}
    assert same(lambda f: f.ask("inspect_request", content))["found"]
    content = {"code": "nowhere", "cursor_pos": 3, "detail_level": 1}
    assert not same(lambda f: f.ask("inspect_request", content))["found"]


def test_is_complete(same: Same) -> None:
    for code in ("x = 1", "for i in x:", "x = (", "x ="):
        same(lambda f, code=code: f.ask("is_complete_request", {"code": code}))


def test_history(same: Same) -> None:
    for content in (
        {"hist_access_type": "tail", "n": 5, "raw": True, "output": False},
        {
            "hist_access_type": "range",
            "session": 0,
            "start": 1,
            "stop": 9,
            "raw": False,
            "output": True,
        },
        {"hist_access_type": "search", "pattern": "*sys*", "n": 3, "raw": True, "output": False},
    ):
        same(lambda f, content=content: f.ask("history_request", content)["history"])


def test_kernel_info(same: Same) -> None:
    def info(front: Any) -> dict[str, Any]:
        reply = front.ask("kernel_info_request", {})
        reply["banner"] = reply["banner"].split("Tip:")[0]  # a tip by chance
        return dict(reply)

    reply = same(info)
    assert "kernel subshells" in reply["supported_features"]
    assert "debugger" in reply["supported_features"]


def test_input(same: Same) -> None:
    answer = same(lambda f: f.run("input('name? ')", stdin="Ada"))
    assert answer.outputs[0][1]["data"]["text/plain"] == "'Ada'"
    same(lambda f: f.run("from getpass import getpass\ngetpass('secret? ')", stdin="s3"))
    same(lambda f: f.run("input('refused')"))


@pytest.mark.parametrize(
    "code",
    [
        # Short naps: a signal may reach the process on another thread than the one that sleeps.
        "print('busy', flush=True)\nimport time\nfor _ in range(600):\n    time.sleep(0.1)",
        "import asyncio\nprint('busy', flush=True)\n"
        "for _ in range(600):\n    await asyncio.sleep(0.1)",
    ],
)
def test_interrupt(code: str, same: Same) -> None:
    def interrupted(front: Any) -> Any:
        msg_id = front.start(code)
        messages = front.published(msg_id)
        assert next(messages)["msg_type"] == "stream"
        front.manager.interrupt_kernel()
        shown = [m["content"]["ename"] for m in messages if m["msg_type"] == "error"]
        return shown, front.reply(msg_id)["ename"]

    same(interrupted)
    same(lambda f: f.run("'alive'"))


def test_an_error_aborts_the_cells_that_wait(same: Same) -> None:
    def queue(front: Any) -> list[str]:
        # The first cell is long enough for the others to be waiting when it raises.
        ids = [front.start("import time; time.sleep(0.5); 1/0"), front.start("2"), front.start("3")]
        return [front.reply(msg_id)["status"] for msg_id in ids]

    assert same(queue) == ["error", "aborted", "aborted"]
    same(lambda f: f.run("'goes on'", stop_on_error=False))


def test_comms(same: Same) -> None:
    same(
        lambda f: f.run(
            "from comm import get_comm_manager\n"
            "def opened(comm, message):\n"
            "    comm.on_msg(lambda m: comm.send({'twice': m['content']['data']['n'] * 2}))\n"
            "    comm.send({'hello': message['content']['data']})\n"
            "get_comm_manager().register_target('echo', opened)"
        )
    )

    def talk(front: Any) -> list[Any]:
        common = {"comm_id": "c" * 32, "data": {"n": 21}}
        said = []
        for kind in ("comm_open", "comm_msg", "comm_close"):
            msg_id = front.send(kind, {**common, "target_name": "echo"})
            said += [(m["msg_type"], m["content"]) for m in front.published(msg_id)]
        said.append(front.ask("comm_info_request", {}))
        return said

    said = same(talk)
    assert said[1][1]["data"] == {"twice": 42}


def test_a_subshell_runs_beside_a_busy_cell(same: Same) -> None:
    def beside(front: Any) -> Any:
        subshell = front.ask("create_subshell_request", {}, channel="control")["subshell_id"]
        front.run("import threading\ngate = threading.Event()")
        waiting = front.start("gate.wait(30), print('through')")
        beside = front.start("print('beside'); gate.set()", subshell=subshell)
        seen: dict[str, list[Any]] = {waiting: [], beside: []}
        idle: set[str] = set()
        deadline = time.monotonic() + 60
        while len(idle) < 2 and time.monotonic() < deadline:
            message = front.client.get_iopub_msg(timeout=60)
            parent = message["parent_header"].get("msg_id")
            if parent in seen and message["msg_type"] == "stream":
                seen[parent].append(message["content"]["text"])
            if parent in seen and message["content"].get("execution_state") == "idle":
                idle.add(parent)
        statuses = {front.client.get_shell_msg(timeout=60)["content"]["status"] for _ in seen}
        front.ask("delete_subshell_request", {"subshell_id": subshell}, channel="control")
        return ["".join(texts) for texts in seen.values()], sorted(statuses)

    assert same(beside) == (["through\n", "beside\n"], ["ok"])


def test_debugger(same: Same) -> None:
    def session(front: Any) -> list[Any]:
        front.run("debugged = 5")
        answers = [front.debug("debugInfo", 1)["body"]["isStarted"]]
        answers.append(front.debug("initialize", 2, clientID="t", adapterID="python")["success"])
        answers.append(front.debug("attach", 3)["success"])
        front.send(
            "debug_request",
            {
                "type": "request",
                "seq": 4,
                "command": "configurationDone",
                "arguments": {},
            },
            channel="control",
        )
        variables = front.debug("inspectVariables", 5)["body"]["variables"]
        answers.append(sorted(v["value"] for v in variables if v["name"] == "debugged"))
        source = "debugged += 1\ndebugged"
        answers.append(front.debug("dumpCell", 6, code=source)["success"])
        answers.append(front.run(source).comparable())
        answers.append(front.debug("disconnect", 7, restart=False)["success"])
        return answers

    assert same(session)[3] == ["5"]


def test_a_library_s_warning_is_shown_once_however_many_cells_raise_it(same: Same) -> None:
    same(lambda f: f.run("lib = {'__name__': 'lib', 'warn': warnings.warn}"))
    raises = "exec('warn(\"careful\")', lib)"
    assert "careful" in same(lambda f: f.run(raises)).text("stderr")
    assert not same(lambda f: f.run(f"{raises}  # again")).outputs
