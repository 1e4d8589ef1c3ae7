"""Law L1 for code that looks whether files are there: existence is an input like content."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nbrewind.testing.memory_store import MemoryStore
from nbrewind.testing.oracle import checked, compare
from nbrewind_kernels.engine import Mode

Replay = Callable[[list[str], Mode], list[int]]

CHECKS = {
    "exists": "os.path.exists('p')",
    "isfile": "os.path.isfile('p')",
    "access": "os.access('p', os.R_OK)",
    "Path.exists": "pathlib.Path('p').exists()",
    "Path.is_file": "pathlib.Path('p').is_file()",
    "stat": "[os.path.getsize('p')] if os.path.lexists('p') else None",
    "glob": "glob.glob('p')",
    "glob with a star": "sorted(glob.glob('p*'))",
    "listdir": "sorted(os.listdir())",
    "in a function of a module": "mod.there()",
}
IMPORTS = "import os, pathlib, glob, mod"
WRITE = "pathlib.Path('p').write_text('1')"
FILES = {"mod.py": "import os\ndef there(): return os.path.exists('p')"}


@pytest.fixture
def replay(root: Path) -> Iterator[Replay]:
    """Runs cells over one folder and store, again and again; returns which were executed."""
    folder = root / "existence"
    folder.mkdir(exist_ok=True)
    store = MemoryStore()

    def run(cells: list[str], mode: Mode) -> list[int]:
        return checked(cells, mode, store, folder).executed

    yield run
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.parametrize("planned", [True, False], ids=["planned", "unplanned"])
@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_file_written_by_an_inserted_cell_is_seen(check: str, planned: bool, root: Path) -> None:
    before = [IMPORTS, "x = 1", f"y = {check}", "y", "z = 2"]
    after = [IMPORTS, WRITE, "x = 1", f"y = {check}", "y", "z = 2"]
    assert compare(before, after, root, planned=planned, files=FILES).executed == [1, 3, 4]


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_file_that_an_edited_cell_writes_no_more_is_missed(check: str, root: Path) -> None:
    clean = "pathlib.Path('p').unlink(missing_ok=True)"
    before = [IMPORTS, clean, WRITE, f"y = {check}", "y"]
    after = [IMPORTS, clean, "w = 1", f"y = {check}", "y"]
    executed = compare(before, after, root, files=FILES).executed
    assert {2, 3} <= set(executed)


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_file_made_or_removed_outside_is_seen(check: str, root: Path, replay: Replay) -> None:
    folder = root / "existence"
    (folder / "mod.py").write_text(FILES["mod.py"])
    cells = [IMPORTS, f"y = {check}", "y"]
    replay(cells, "audit")
    assert replay(cells, "replay") == []
    (folder / "p").write_text("1")
    assert replay(cells, "replay") == [1, 2]
    (folder / "p").unlink()
    assert replay(cells, "replay") == []


def test_writing_unless_it_exists_runs_once_and_is_reused_then(root: Path, replay: Replay) -> None:
    cells = [
        "import os, pathlib",
        "if not os.path.exists('cache'):\n    pathlib.Path('cache').write_text('1')",
        "text = pathlib.Path('cache').read_text()",
    ]
    assert replay(cells, "audit") == [0, 1, 2]
    # A fresh kernel would find the file now, and not make it.
    assert replay(cells, "replay") == [1]
    assert replay(cells, "replay") == []
    assert replay(cells, "replay") == []
    (root / "existence/cache").unlink()
    assert replay(cells, "replay") == []
    assert (root / "existence/cache").read_text() == "1"


@pytest.mark.parametrize(
    "make",
    [
        "os.makedirs('d/e', exist_ok=True)",
        "pathlib.Path('d').mkdir(exist_ok=True)",
        "if not os.path.isdir('d'): os.mkdir('d')",
        "if not os.path.exists('out'): pathlib.Path('out').write_text('1')",
    ],
)
def test_making_what_is_missing_is_reused_from_the_second_replay_on(
    make: str, replay: Replay
) -> None:
    cells = [IMPORTS.replace(", mod", ""), make, "x = 1"]
    replay(cells, "audit")
    replay(cells, "replay")
    assert replay(cells, "replay") == []


@pytest.mark.parametrize("planned", [True, False], ids=["planned", "unplanned"])
@pytest.mark.parametrize(
    "look",
    [
        "sorted(os.listdir('d'))",
        "sorted(glob.glob('d/*'))",
        "sorted(p.name for p in pathlib.Path('d').iterdir())",
        "[sorted(names) for _, _, names in os.walk('d')]",
        "os.path.isdir('d'), os.path.exists('d/one'), os.path.exists('d/two')",
        "sorted(os.listdir())",
    ],
)
def test_files_that_reuse_has_not_written_yet_are_in_listings(
    look: str, planned: bool, root: Path
) -> None:
    """Reused cells make a folder and files that were removed: lookers are reused as well."""
    cells = [
        IMPORTS.replace(", mod", ""),
        "import shutil; shutil.rmtree('d', ignore_errors=True)",
        "os.mkdir('d'); pathlib.Path('d/one').write_text('1')",
        "pathlib.Path('d/two').write_text('2')",
        f"y = {look}",
        "os.remove('d/one')",
        f"z = {look}",
        "shutil.rmtree('d')",
        "end = os.path.exists('d')",
    ]
    assert compare(cells, cells, root, planned=planned).executed == []
    edited = [*cells[:3], "pathlib.Path('d/three').write_text('2')", *cells[4:]]
    executed = compare(cells, edited, root, planned=planned).executed
    assert 3 in executed
    assert not {0, 1, 2} & set(executed)


def test_a_listing_that_holds_more_than_reused_cells_made_is_read_again(
    root: Path, replay: Replay
) -> None:
    folder = root / "existence"
    cells = ["import os, pathlib", "pathlib.Path('a').write_text('1')", "y = sorted(os.listdir())"]
    replay(cells, "audit")
    assert replay(cells, "replay") == []
    (folder / "a").unlink()
    assert replay(cells, "replay") == []  # the first cell makes it
    (folder / "b").write_text("1")
    assert replay(cells, "replay") == [2]


@pytest.mark.parametrize("imports", ["from os import stat", "import os; stat = os.stat"])
def test_a_stand_in_in_a_variable_is_the_function_itself_after_reuse(
    imports: str, root: Path
) -> None:
    check = "import os; y = stat is os.stat, stat('/').st_mode, repr(stat)"
    before = [imports, "def f(p, ask=stat): return ask(p).st_mode", f"{check}, f('/')"]
    after = [*before[:2], f"{check}, f('/'), 2"]
    assert compare(before, after, root).executed == [2]
