"""IPython as the engine sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PORT = (
    "from nbrewind_kernels.shell_port import IPythonShellPort as Port\n"
    "port = Port(get_ipython())\n"
    "def quietly(source):\n"
    "    o = port.run_quietly(source)\n"
    "    print(o.status, repr(o.result), o.has_result, o.error)"
)


@pytest.fixture(scope="module")
def front(
    tmp_path_factory: pytest.TempPathFactory, launch_fake: Callable[[str, Path], Any]
) -> Iterator[Any]:
    front = launch_fake("audit", tmp_path_factory.mktemp("port"))
    front.run(PORT)
    yield front
    front.stop()


QUIET = [
    ("q = 5\nq + 1", "ok 6 True "),
    ("print('no'); import sys; print('no', file=sys.stderr)", "ok None False "),
    ("display(1); display({'text/plain': 'x'}, raw=True)\n7;", "ok None False "),
    ("1 / 0", "error None False ZeroDivisionError: division by zero"),
    ("raise SystemExit(2)", "error None False SystemExit: 2"),
    ("raise KeyboardInterrupt", "interrupted None False KeyboardInterrupt: "),
    ("await x", "error None False needs an event loop"),
    ("x = (", "error None False SyntaxError: "),
    ("%pwd\n", "ok '"),
    ("%%time\nt = 3\nt", "ok 3 True "),
    ("!echo no", "ok None False "),
    ("%run missing.py", "error None False "),
    ("from comm import create_comm\ncreate_comm(target_name='t');", "ok None False "),
    ("def f():\n    return 8\nf()", "ok 8 True "),
    ("import matplotlib.pyplot as plt\nplt.plot([1]);", "ok None False "),
    ("None", "ok None False "),
]


@pytest.mark.parametrize(("source", "told"), QUIET)
def test_a_quiet_run_shows_nothing_and_keeps_its_value(source: str, told: str, front: Any) -> None:
    answer = front.run(f"quietly({source!r})")
    assert answer.reply["status"] == "ok"
    assert [kind for kind, _ in answer.outputs] == ["stream"]
    assert answer.text().startswith(told)


def test_a_quiet_run_leaves_no_trace_in_the_history(front: Any) -> None:
    front.run("12")
    look = "print(_, len(In) - get_ipython().execution_count, len(Out), In[-2])"
    before = front.run(look).text().split()
    front.run("port.run_quietly('99');")
    after = front.run(look).text().split()
    assert before[:3] == after[:3]


def test_figures_that_are_being_drawn_stay_open(front: Any) -> None:
    answer = front.run(
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\n"
        "port.run_quietly('plt.figure(); plt.plot([3])')\nprint(plt.get_fignums())"
    )
    assert answer.text() == "[1]\n"
    assert [kind for kind, _ in answer.outputs].count("display_data") == 1


def test_future_imports_of_earlier_cells_hold_in_quiet_runs(front: Any) -> None:
    front.run("before = port.compile_flags()")
    front.run("from __future__ import annotations")
    front.run("port.run_quietly('def g(a: nowhere): pass')")
    assert front.run("print(g.__annotations__, port.compile_flags() != before)").text() == (
        "{'a': 'nowhere'} True\n"
    )


def test_a_quiet_run_can_be_interrupted(front: Any) -> None:
    # The signal comes from the quiet code itself, so that it cannot come before it.
    msg_id = front.start(
        "quietly('import os, signal, time\\nos.kill(os.getpid(), signal.SIGINT)\\n"
        "for _ in range(600): time.sleep(0.1)'); print('on')"
    )
    texts = [
        message["content"]["text"]
        for message in front.published(msg_id)
        if message["msg_type"] == "stream"
    ]
    assert "interrupted None False KeyboardInterrupt" in "".join(texts)
    front.reply(msg_id)


CHANGES = [
    (
        "line-magics",
        "from IPython.core.magic import register_line_magic\n"
        "@register_line_magic\ndef mine(line): pass",
    ),
    ("line-magics", "%alias bye echo bye"),
    ("line-magics", "%alias bye echo good bye"),
    ("line-magics", "%alias_magic t timeit"),
    (
        "cell-magics",
        "from IPython.core.magic import register_cell_magic\n"
        "@register_cell_magic\ndef minec(line, cell): pass",
    ),
    ("input-transformers", "get_ipython().input_transformers_cleanup.append(lambda lines: lines)"),
    ("post-transformers", "get_ipython().input_transformers_post.append(lambda lines: lines)"),
    (
        "ast-transformers",
        "import ast\nget_ipython().ast_transformers.append(ast.NodeTransformer())",
    ),
    ("events", "get_ipython().events.register('post_execute', lambda: None)"),
    ("extensions", "%load_ext autoreload"),
    (
        "formatters",
        "class Z: pass\nget_ipython().display_formatter.formatters['text/html']"
        ".for_type(Z, lambda z: 'z')",
    ),
    ("formatters", "%precision 3"),
    ("inline-figures", "%config InlineBackend.figure_formats = ['svg']"),
    ("exceptions", "get_ipython().set_custom_exc((KeyError,), lambda *a, **k: None)"),
    ("settings", "get_ipython().ast_node_interactivity = 'all'"),
    ("settings", "%xmode Plain"),
]


@pytest.mark.parametrize(("registry", "source"), CHANGES)
def test_a_changed_registry_shows(registry: str, source: str, front: Any) -> None:
    front.run("before = dict(port.registries())")
    front.run(source)
    answer = front.run("print([k for k, v in port.registries().items() if before[k] != v])")
    assert registry in answer.text()


@pytest.mark.parametrize(
    "source",
    [
        "x = 1",
        "1 + 1",
        "%pwd",
        "!true",
        "import matplotlib.pyplot as plt\nplt.plot([1]);",
        "import pandas as pd\npd.DataFrame({'a': [1]})",
        "def f(): pass",
        "%time 1",
        "%who",
    ],
)
def test_ordinary_cells_change_no_registry(
    source: str, launch_fake: Callable[[str, Path], Any], tmp_path: Path
) -> None:
    front = launch_fake("audit", tmp_path)
    try:
        front.run(PORT)
        front.run("before = dict(port.registries())")
        front.run(source)
        answer = front.run("print([k for k, v in port.registries().items() if before[k] != v])")
    finally:
        front.stop()
    assert answer.text() == "[]\n"
