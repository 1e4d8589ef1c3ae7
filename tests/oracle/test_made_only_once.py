"""Values that are not stored, of cells that are not run again unseen: they run in their places."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from nbrewind.testing.memory_store import MemoryStore
from nbrewind.testing.oracle import Session, check, checked, compare, write_files
from nbrewind_analysis.repeating import awaits


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"answer")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("planned", [False, True])
def test_an_open_answer_of_a_server_is_there_for_the_cell_that_reads_it(
    planned: bool, address: str, root: Path
) -> None:
    cells = [
        "from urllib.request import urlopen",
        f"answer = urlopen({address!r})",
        "k = 1",
        "print(answer.read(), k)",
        "answer.close(); del answer",
    ]
    run = compare(cells, [*cells[:2], "k = 2", *cells[3:]], root, planned=planned)
    assert {1, 2, 3} <= set(run.executed)
    assert not run.warnings


def test_without_anybody_who_needs_it_a_planned_replay_does_not_ask_again(
    address: str, root: Path
) -> None:
    cells = [
        "from urllib.request import urlopen",
        f"answer = urlopen({address!r}); answer.close()",
        "k = 1",
        "print(k)",
        "del answer",
    ]
    assert compare(cells, cells, root).executed == []
    assert compare(cells, [*cells[:2], "k = 2", *cells[3:]], root).executed == [2, 3]


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        ("await x", True),
        ("r = [i async for i in g()]", True),
        ("async with c: pass", True),
        ("if x:\n    await y", True),
        ("%time await x", True),
        ("async def f(): await x", False),
        ("class C:\n    async def f(self): await x", False),
        ("waited = 'await'", False),
        ("x = 1", False),
    ],
)
def test_cells_that_need_the_event_loop_are_told(source: str, answer: bool) -> None:
    assert awaits(source) is answer


def test_a_function_that_is_made_again_on_the_way_keeps_what_it_shares(root: Path) -> None:
    # `odd` is not stored: making it again runs the cell, which makes another `f`, too.
    cells = ["kept = [1]", "def f(x): return x\nf.note = kept\nodd = (i for i in [1])", "k = 1"]
    compare(cells, [*cells[:2], "k = 2"], root)
    compare(cells, [*cells[:2], "print(next(odd), f.note is kept)"], root)


def test_a_cell_that_imports_a_module_first_is_not_repeated_once_it_is_there(root: Path) -> None:
    # The generator of `drawing` is not stored. Making it again by running `import user` needs it
    # as the first cell left it; that cell, run again, would draw from what is imported by now.
    files = {
        "drawing.py": "stream = (i * i for i in range(9))\ndef draw(): return next(stream)\n",
        "user.py": "import drawing\n",
    }
    cells = ["import drawing; b = drawing.draw()", "import user", "print(b)"]
    ours, plain = root / "ours", root / "plain"
    for folder in (ours, plain):
        folder.mkdir()
        write_files(folder, files)
    store = MemoryStore()
    checked(cells, "audit", store, ours)
    session, reference = Session(ours, "replay", store), Session(plain)
    for source in [*cells, *cells]:
        session.execute(source)
        reference.execute(source)
        session.look()
        reference.look()
    check(session.end(), reference.end(), "live")
