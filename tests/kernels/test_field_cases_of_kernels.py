"""Cases from public trackers that need kernels and front ends: magics, displays, threads, ids.

Numbered and counted in `tests/oracle/test_field_cases.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import ARGV, launch
from .front_page import Page, run_page


def replay(before: list[str], after: list[str], tmp_path: Path, **options: Any) -> Page:
    """Audit one version, replay another, which must show what a plain kernel shows."""
    store, ours = tmp_path / "store", tmp_path / "ours"
    environ = {k: v for k, v in options.items() if k.isupper()}
    run_page("audit", before, ours, store=store, **environ)
    page = run_page("replay", after, ours, store=store, **options)
    assert page.comparable() == run_page("plain", after, tmp_path / "plain", **environ).comparable()
    return page


@pytest.mark.case(20)
def test_names_that_magics_define_are_followed_like_others(tmp_path: Path) -> None:
    # The original NBRewind parses plain Python only.
    before = [
        "def f(): return 5",
        "%time x = f()",
        "!touch a",
        "%%capture c\nprint('hidden'); y = x + 1",
        "z = !ls a",
        "x, y, z, c.stdout",
        "k = 1",
    ]
    after = [before[0].replace("5", "6"), *before[1:]]
    assert replay(before, after, tmp_path).actions[6] == "reused"


@pytest.mark.case(47)
def test_a_display_shows_its_last_update_wherever_it_is_shown(tmp_path: Path) -> None:
    # nteract#1447
    before = [
        "from IPython.display import display\nh = display(1, display_id='one')",
        "h.update(2)",
        "display('again', display_id='one');",
        "h.update(3)",
    ]
    page = replay(before, before, tmp_path)
    assert set(page.actions) == {"reused"}
    shown = [page.outputs[0][0][1], page.outputs[2][0][1]]
    assert [content["data"]["text/plain"] for content in shown] == ["3", "3"]


@pytest.mark.case(48)
def test_what_a_thread_prints_late_belongs_to_the_cell_that_started_it(tmp_path: Path) -> None:
    # dfnotebook#86, jupyterlab#14925, ipykernel#1186
    cells = [
        "import threading\ngo = threading.Event()\n"
        "def work():\n    go.wait(); print('late')\n"
        "t = threading.Thread(target=work); t.start()",
        "print('second'); go.set(); t.join()",
        "print('third')",
    ]
    store, ours = tmp_path / "store", tmp_path / "ours"
    audited = run_page("audit", cells, ours, store=store)
    assert audited.comparable() == run_page("plain", cells, tmp_path / "plain").comparable()
    again = run_page("replay", cells, ours, store=store)
    assert again.comparable() == audited.comparable()
    assert again.actions[0] == "executed"
    assert run_page("replay", ["k = 1", cells[2]], ours, store=store).actions[1] == "reused"


@pytest.mark.case(49)
def test_hidden_code_between_cells_is_no_part_of_the_notebook(start: Any, tmp_path: Path) -> None:
    # vscode-jupyter#11745
    inspector = "_names = [n for n in dir() if not n.startswith('_')]; del _names"
    store = str(tmp_path / "store")
    actions = []
    for kind in ("audit", "replay"):
        page = Page(start(kind, NBREWIND_STORE=store))
        for cell in ("x = [1]", "x.append(2)", "sum(x)"):
            page.run(cell)
            page.front.run(inspector, silent=True)
            page.front.run("print(len(x))", store_history=False)
            page.note_report()
            actions.append(page.actions[-1])
    assert actions == ["executed"] * 3 + ["reused"] * 3


@pytest.mark.case(50)
@pytest.mark.parametrize(
    "ids", [["", "", "", ""], ["a", "a", "a", "a"], ["w", "x", "y", "z"], ["c3", "c2", "c1", "c0"]]
)
def test_cells_are_known_by_what_they_say_whatever_their_ids(
    ids: list[str], tmp_path: Path
) -> None:
    # nbformat#209, vscode#143396
    cells = ["import uuid", "i = uuid.uuid4()", "j = uuid.uuid4()", "i != j"]
    page = replay(cells, cells, tmp_path, ids=ids)
    assert page.actions == ["reused"] * 4


@pytest.mark.case(51)
def test_a_widget_is_alive_after_a_replay(tmp_path: Path) -> None:
    # jupyter-cache#31, jupyterlab#15361
    before = [
        "import ipywidgets as W\nseen = []",
        "s = W.IntSlider(value=3); s.observe(lambda c: seen.append(c['new']), 'value'); s",
        "k = 1",
        "s.value = 4 + k\nprint(seen, s.value, s.comm is not None)",
    ]
    page = replay(before, [*before[:2], "k = 2", before[3]], tmp_path)
    assert page.actions[1] == "executed"
    assert any(kind == "comm_open" for kind, _ in page.outputs[1])


@pytest.mark.case(56)
def test_local_modules_are_found_as_a_plain_kernel_finds_them(tmp_path: Path) -> None:
    # Flinc notes
    cells = [
        "open('mine.py', 'w').write('N = 4'); import importlib; importlib.invalidate_caches()",
        "try:\n    import mine\n    n = mine.N\nexcept ImportError:\n    n = 'hidden'",
        "k = 1",
        "n, k",
    ]
    replay(cells, [*cells[:2], "k = 2", cells[3]], tmp_path, PYTHONSAFEPATH="1")


@pytest.mark.case(56)
def test_replays_at_the_same_time_in_one_folder_do_not_disturb_each_other(tmp_path: Path) -> None:
    # Flinc notes
    cells = ["x = list(range(5))", "open('out.txt', 'w').write(str(x));", "k = 1", "sum(x) + k"]
    store, ours = tmp_path / "store", tmp_path / "ours"
    run_page("audit", cells, ours, store=store)
    after = [[*cells[:2], f"k = {number}", cells[3]] for number in (2, 3)]
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
        (folder / "work").symlink_to(ours / "work")
    environ = {
        "NBREWIND_STORE": str(store),
        "NBREWIND_NOTEBOOK": str(ours / "work" / "notebook.ipynb"),
    }
    fronts = [launch(ARGV["replay"], folder, **environ) for folder in folders]
    pages = [Page(front) for front in fronts]
    for step in range(4):
        for page, cells_of_page in zip(pages, after, strict=True):
            page.run(cells_of_page[step])
            page.note_report()
    for front in fronts:
        front.stop()
    for number, page in zip((2, 3), pages, strict=True):
        assert page.outputs[3][0][1]["data"]["text/plain"] == str(10 + number)
        assert page.actions == ["reused", "reused", "executed", "executed"]
    assert (ours / "work" / "out.txt").read_text() == str(list(range(5)))
