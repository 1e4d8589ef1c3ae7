"""More cases from public trackers: values that are stored, lost, or cannot be stored."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nbrewind.state.restoring as restoring
import nbrewind_kernels.live as live
from nbrewind.store.local import open_store
from nbrewind.testing.memory_store import MemoryStore
from nbrewind.testing.oracle import Run, Session, check, checked, compare, run_plainly
from nbrewind_analysis.surroundings import DiskSurroundings

pytestmark = pytest.mark.filterwarnings("ignore")

PANDAS = "import pandas as pd"


@pytest.fixture
def folder(root: Path) -> Iterator[Path]:
    folder = root / "case"
    folder.mkdir()
    yield folder
    folder.rename(root / f"case-{len(list(root.iterdir()))}")


def replayed(cells: list[str], store: Any, folder: Path, **options: Any) -> Run:
    """A replay, held against a run without NBRewind."""
    session = Session(folder, "replay", store, **options)
    for cell in cells:
        if not session.execute(cell):
            break
    run = session.end()
    check(run, run_plainly(cells, folder), "replay")
    return run


@pytest.mark.case(9)
@pytest.mark.parametrize("policy", ["rerun", "accept"])
def test_an_upgraded_package_runs_its_users_or_is_told(
    policy: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # TuringLang/docs#496
    cells = ["import pandas as pd", "s = pd.Series([1, 2])", "s.sum()", "k = 1"]
    store = MemoryStore()
    checked(cells, "audit", store, folder)
    monkeypatch.setattr(
        DiskSurroundings, "distribution", lambda self, name: "99" if name == "pandas" else "1"
    )
    run = replayed(cells, store, folder, environment=policy)
    if policy == "rerun":
        assert run.executed == [0, 1, 2]
        assert "environment-changed" in {r.kind for c in run.reports for r in c.reasons}
    else:
        assert run.executed == []
        assert any("pandas" in note for note in run.reports[1].notes)
        assert any("pandas" in warning for warning in run.warnings)


@pytest.mark.case(29)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("memo = memo + [1]", "memo = memo + [2]"),
        ("memo += [1]", "memo += [2]"),
        ("a[0] = 1", "a[0] = 2"),
    ],
)
def test_a_memoised_call_never_gives_the_stale_result(before: str, after: str, root: Path) -> None:
    # ipyflow
    start = [
        "import numpy as np, functools\nmemo = []; a = np.zeros(2)",
        "@functools.cache\ndef f(n): return n + len(memo) + a[0]",
        "f(1)",
    ]
    rest = ["f(1), f(2), memo, a"]
    compare([*start, before, *rest], [*start, after, *rest], root)


@pytest.mark.case(32)
def test_what_was_restored_has_the_version_of_what_was_saved(root: Path) -> None:
    # joblib#1611
    cells = [
        PANDAS,
        "df = pd.DataFrame({'x': [3, 1, 2]}); part = df[df.x > 1]",
        "k = 1",
        "part.x.sum(), k",
        "df.x.max()",
    ]
    assert compare(cells, [*cells[:2], "k = 2", *cells[3:]], root).executed == [2, 3]
    copied = [cells[0], "df = pd.DataFrame({'x': [3, 1, 2]}); part = df.loc[df.x > 1]"]
    run = compare(cells, [*copied, *cells[2:]], root)
    assert run.executed == [1], "equal frames differ by a hidden reference only"


@pytest.mark.case(34)
def test_a_mock_answers_as_it_was_told(root: Path) -> None:
    # marimo#9563
    cells = [
        "from unittest.mock import Mock, MagicMock\nm = Mock(return_value=3); mm = MagicMock()",
        "m(1); m.g.return_value = 5",
        "k = 1",
        "m.call_count, m.g(k), len(mm)",
        "del m, mm",
    ]
    compare(cells, [*cells[:2], "k = 2", *cells[3:]], root)


@pytest.mark.case(35)
def test_an_open_file_goes_on_where_it_was_and_nothing_is_truncated(root: Path) -> None:
    # dill#657, dill#552, dill#296, dill#423
    cells = [
        "f = open('in'); first = f.readline()",
        "log = open('log', 'w'); n = log.write('x'); log.flush()",
        "k = 1",
        "print(first, f.readline(), k)",
        "n = log.write('y'); log.close(); print(open('log').read())",
        "f.close()",
    ]
    files = {"in": "a\nb\nc\n"}
    compare(cells, [*cells[:2], "k = 2", *cells[3:]], root, files=files)
    compare(cells, [*cells[:4], cells[4].replace("y", "z"), cells[5]], root, files=files)
    compare(cells, [*cells[:2], "k = 2", *cells[3:]], root, files=files, planned=False)


@pytest.mark.case(37)
@pytest.mark.parametrize("planned", [False, True])
def test_registrations_with_a_generic_function_survive(planned: bool, root: Path) -> None:
    # cloudpickle#195, dill#393
    cells = [
        "from functools import singledispatch\n@singledispatch\ndef f(x): return 'any'",
        "@f.register\ndef _(x: int): return 'int'",
        "class C: pass\n@f.register\ndef _(x: C): return 'C'",
        "k = 1",
        "f(1), f(C()), f(''), k",
    ]
    compare([*cells[:4], "0"], [*cells[:3], "k = 2", cells[4]], root, planned=planned)
    compare(cells, [cells[0], cells[1].replace("'int'", "'INT'"), *cells[2:]], root)


@pytest.mark.case(38)
def test_restoring_alters_no_live_class_and_no_closure(folder: Path) -> None:
    # cloudpickle#376
    cells = [
        "class C:\n    n = 1\n    def f(self): return self.n",
        "def counter():\n    c = 0\n    def inc():\n        nonlocal c\n        c += 1\n"
        "        return c\n    return inc\ninc = counter()",
        "c = C(); c.n = 5",
        "inc(), c.f()",
    ]
    store = MemoryStore()
    checked(cells, "audit", store, folder)
    session, plain = Session(folder, "replay", store), Session(folder)
    # What runs now is live when the cells after it are reused and loaded.
    live_cells = [cells[0], cells[1], "C.n = 2", "inc()", cells[2], "C.n, inc(), c.n, C().f()"]
    for cell in [*live_cells, cells[2], "C.n, inc(), type(c) is C"]:
        session.execute(cell)
        plain.execute(cell)
    check(session.end(), plain.end(), "live")


@pytest.mark.case(41)
def test_code_of_another_python_is_made_from_its_source(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # cloudpickle#564, cloudpickle#293
    cells = ["def f(x): return x + 1", "g = [f]; h = lambda: f(2)", "k = 1", "g[0](k), h()"]
    store = MemoryStore()
    checked(cells, "audit", store, folder)
    for module in (restoring, live):
        monkeypatch.setattr(module, "PYTHON", "3.99")
    after = [*cells[:2], "k = 2", cells[3]]
    assert replayed(after, store, folder).executed == [2, 3]
    monkeypatch.setattr(DiskSurroundings, "platform", lambda self: ("3.99", "x86_64"))
    assert replayed(after, store, folder).executed == [0, 1, 2, 3]


@pytest.mark.case(42)
def test_a_module_that_is_absent_now_fails_as_in_a_full_run(folder: Path) -> None:
    # cloudpickle#417, distributed#6464
    cells = ["import mine", "p = mine.Point()", "k = 1", "p.x + k"]
    module = folder / "mine.py"
    module.write_text("class Point:\n    x = 4\n")
    store = MemoryStore()
    checked(cells, "audit", store, folder)
    module.unlink()
    run = replayed([*cells[:2], "k = 2", cells[3]], store, folder)
    assert "ModuleNotFoundError" in run.errors[-1]


@pytest.mark.case(43)
@pytest.mark.parametrize("planned", [False, True])
def test_a_figure_can_be_drawn_into_and_saved_and_is_the_current_one(
    planned: bool, root: Path
) -> None:
    # matplotlib#17201, ipykernel#231
    cells = [
        "import matplotlib; matplotlib.use('Agg')\nimport matplotlib.pyplot as plt",
        "plt.close('all'); fig, ax = plt.subplots(); ax.plot([1, 2]);",
        "k = 1",
        "plt.gcf() is fig, plt.gca() is ax, plt.get_fignums(), k",
        "ax.plot([2, 1]); fig.savefig('f.svg', metadata={'Date': None}); len(ax.lines)",
        "plt.close('all'); del fig, ax",
    ]
    style = "import matplotlib; matplotlib.rcParams['svg.hashsalt'] = 's'\n"
    cells[0] = style + cells[0]
    compare(cells, [*cells[:2], "k = 2", *cells[3:]], root, planned=planned)


@pytest.mark.case(44)
def test_a_tensor_of_another_device_is_made_again(root: Path) -> None:
    # skorch#101; a device that every host has stands for one that it may lack
    cells = ["import torch", "t = torch.zeros(3, device='meta')", "k = 1", "t.device.type, k"]
    run = compare(cells, [*cells[:2], "k = 2", cells[3]], root)
    assert run.executed[-2:] == [2, 3]


@pytest.mark.case(45)
@pytest.mark.parametrize(
    ("make", "use"),
    [
        ("import socket; s = socket.socketpair(); s[0].send(b'1');", "s[1].recv(1)"),
        ("import itertools; s = itertools.count(3); next(s)", "next(s)"),
        ("import threading; s = threading.Lock(); s.acquire();", "s.locked()"),
        ("import tempfile; s = tempfile.TemporaryFile(); s.write(b'12'); s.seek(1);", "s.read()"),
    ],
)
def test_what_lives_in_the_process_is_made_again(make: str, use: str, root: Path) -> None:
    cells = [make, "k = 1", f"{use}, k", "del s"]
    compare(cells, [make, "k = 2", *cells[2:]], root, planned=False)
    compare(cells, [make, "k = 2", *cells[2:]], root)


@pytest.mark.case(46)
@pytest.mark.parametrize("lost", ["manifest", "chunk"])
def test_a_value_whose_load_fails_is_made_again_and_never_none(lost: str, folder: Path) -> None:
    # langgraph#6970
    cells = ["a = [1, 2]; b = {'k': a}", "c = list(range(9))", "k = 1", "a, b['k'] is a, c, k"]
    store = MemoryStore()
    checked(cells, "audit", store, folder)
    store.objects = {i: found for i, found in store.objects.items() if found[0] != lost}
    replayed([*cells[:2], "k = 2", cells[3]], store, folder)


@pytest.mark.case(54)
def test_nothing_of_a_store_somebody_else_wrote_is_loaded(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # joblib#977, cloudpickle#512, anemoi-utils#343
    cells = ["def f(): return [1]", "x = f()", "x"]
    with monkeypatch.context() as patch:
        patch.setenv("NBREWIND_CONFIG_DIR", str(tmp_path / "foreign"))
        checked(cells, "audit", open_store(tmp_path / "store"), folder)

    def forbidden(*_: object) -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr(restoring.Restore, "load", forbidden)
    run = replayed(cells, open_store(tmp_path / "store"), folder)
    assert run.executed == [0, 1, 2]
    assert {reason.kind for report in run.reports for reason in report.reasons} == {"untrusted"}


@pytest.mark.case(52)
def test_two_kernels_of_one_notebook_and_a_copy_of_it_keep_apart(folder: Path) -> None:
    # kishu#276, kishu#440
    store = MemoryStore()
    one = ["x = [1]", "x.append(2)", "sum(x)"]
    other = ["x = [10]", "x.append(2)", "sum(x)"]
    sessions = [Session(folder, "audit", store) for _ in range(2)]
    for cells in zip(one, other, strict=True):
        for session, cell in zip(sessions, cells, strict=True):
            assert session.execute(cell)
    for session in sessions:
        with contextlib.suppress(OSError):
            session.end()
    for cells in (one, other, one):
        assert replayed(cells, store, folder).executed == []


@pytest.mark.case(55)
@pytest.mark.parametrize(
    "use",
    [
        "import importlib\nm = importlib.import_module('pandas')\nm.Series([1]).sum()",
        "def late():\n    import pandas\n    return pandas.Series([1]).sum()\nlate()",
        "m = __import__('pandas'); m.Series([1]).sum()",
    ],
)
def test_a_module_imported_late_belongs_to_the_environment(
    use: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # reprozip#260
    store = MemoryStore()
    cells = [use, "k = 1"]
    checked(cells, "audit", store, folder)
    real = DiskSurroundings.distribution
    monkeypatch.setattr(
        DiskSurroundings,
        "distribution",
        lambda self, name: "99" if name == "pandas" else real(self, name),
    )
    assert replayed(cells, store, folder).executed == [0]
