"""Law L1 for files that Python does not open itself: code in C and child processes do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from nbrewind.model.reports import CellReport
from nbrewind.testing.memory_store import MemoryStore
from nbrewind.testing.oracle import Run, checked, compare, run_with_engine
from nbrewind_kernels.engine import Mode

pytestmark = pytest.mark.filterwarnings("ignore")

READERS: dict[str, tuple[str, str, str]] = {
    # library: (imports, how a file with {n} in it is made, how it is read into v)
    "h5py": (
        "import h5py",
        "with h5py.File('d.h5', 'w') as f: f['x'] = [1, {n}]",
        "with h5py.File('d.h5') as f: v = f['x'][:].tolist()",
    ),
    "tables": (
        "import tables",
        "with tables.open_file('d.h5', 'w') as f:\n"
        "  x = f.create_array('/', 'x', [1, {n}], track_times=False)\ndel f, x",
        "with tables.open_file('d.h5') as f: v = f.root.x[:]\ndel f",
    ),
    "netCDF4": (
        "import netCDF4",
        "with netCDF4.Dataset('d.nc', 'w') as f:\n"
        "  f.createDimension('n', 1); f.createVariable('v', 'f8', ('n',))[:] = {n}\ndel f",
        "with netCDF4.Dataset('d.nc') as f: v = f['v'][:].tolist()\ndel f",
    ),
    "xarray": (
        "import xarray",
        "xarray.Dataset({{'a': ('x', [1, {n}])}}).to_netcdf('d.nc')",
        "v = xarray.load_dataset('d.nc').a.values.tolist()",
    ),
    "pyarrow": (
        "import pyarrow as pa, pyarrow.parquet as pq",
        "pq.write_table(pa.table({{'a': [1, {n}]}}), 'd.parquet')",
        "v = pq.read_table('d.parquet')['a'].to_pylist()",
    ),
    "pandas": (
        "import pandas as pd, pyarrow",
        "pd.DataFrame({{'a': [1, {n}]}}).to_parquet('d.parquet')",
        "v = pd.read_parquet('d.parquet').a.tolist()",
    ),
    "polars": (
        "import polars as pl",
        "pl.DataFrame({{'a': [1, {n}]}}).write_csv('d.csv')",
        "v = pl.scan_csv('*.csv').collect()['a'].to_list()",
    ),
    "cv2": (
        "import cv2, numpy as np",
        "x = cv2.imwrite('d.png', np.full((2, 2, 3), {n}, 'u1'))",
        "v = cv2.imread('d.png').tolist()",
    ),
    "torch": (
        "import torch",
        "torch.save({{'a': {n}}}, 'd.pt')",
        "v = torch.load('d.pt')",
    ),
    "xgboost": (
        "import xgboost, numpy as np",
        "open('d.svm', 'w').write('{n} 0:1\\n')",
        "v = xgboost.DMatrix('d.svm?format=libsvm').get_label().tolist()",
    ),
    "duckdb": (
        "import duckdb",
        "open('d.csv', 'w').write('a\\n{n}\\n')",
        "v = duckdb.sql(\"select a from 'd.csv'\").fetchall()",
    ),
    "pyogrio": (
        "import pyogrio, json",
        "json.dump({{'type': 'FeatureCollection', 'features': [{{'type': 'Feature', 'properties':"
        " {{'a': {n}}}, 'geometry': {{'type': 'Point', 'coordinates': [0, 0]}}}}]}},"
        " open('d.geojson', 'w'))",
        "v = pyogrio.raw.read('d.geojson')[3][0].tolist()",
    ),
    "zarr": (
        "import zarr, numpy as np",
        "z = zarr.open('d.zarr', mode='w', shape=2, dtype=int); z[:] = [1, {n}]; del z",
        "v = zarr.load('d.zarr').tolist()",
    ),
    "sqlite3": (
        "import sqlite3, os",
        "if os.path.exists('d.db'): os.remove('d.db')\n"
        "with sqlite3.connect('d.db') as c: x = c.execute('create table t as select {n} as a')\n"
        "c.close(); del c, x",
        "with sqlite3.connect('d.db') as c: v = c.execute('select a from t').fetchall()\n"
        "c.close(); del c",
    ),
    "numpy": (
        "import numpy as np",
        "np.array([1, {n}]).tofile('d.bin')",
        "v = np.memmap('d.bin', dtype=int, mode='r').tolist()",
    ),
}


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    pytest.importorskip(request.param)
    if request.param == "pandas":
        pytest.importorskip("pyarrow")  # which reads and writes the file
    return READERS[request.param]


@pytest.fixture
def folder(root: Path) -> Path:
    made = root / "notebook"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    return made


def test_what_an_edited_cell_writes_is_read_anew(reader: tuple[str, str, str], root: Path) -> None:
    imports, write, read = reader
    before = [imports, write.format(n=3), read, "v", "k = 1"]
    after = [imports, write.format(n=4), read, "v", "k = 1"]
    assert compare(before, after, root).executed == [1, 2, 3]


def test_a_file_changed_or_lost_outside_is_put_back_or_read_anew(
    reader: tuple[str, str, str], folder: Path
) -> None:
    imports, write, read = reader
    store, cells = MemoryStore(), [imports, read, "v"]
    make = [imports, write.format(n=3)]
    checked(make, "audit", MemoryStore(), folder)
    checked(cells, "audit", store, folder)
    assert checked(cells, "replay", store, folder).executed == []
    checked([imports, write.format(n=4)], "audit", MemoryStore(), folder)
    assert checked(cells, "replay", store, folder).executed == [1, 2]


COMMANDS: dict[str, tuple[str, str]] = {
    "output": ("print(os.popen('cat a.csv').read())", ""),
    "redirection": ("x = os.system('cat a.csv > b')", "open('b').read()"),
    "words": ("x = subprocess.run(['cp', 'a.csv', 'c']).returncode", "open('c').read()"),
    "pattern": ("print(os.popen('cat *.csv').read())", ""),
    "python": ("x = subprocess.run([sys.executable, 's.py']).returncode", "open('o').read()"),
    "module": (
        "x = subprocess.run([sys.executable, '-m', 'pack.main']).returncode",
        "open('p').read()",
    ),
    "script": ("x = subprocess.run(['sh', 's.sh']).returncode", "open('n').read()"),
    "removed and appended to": (
        "x = os.system('rm -f e/b; mkdir -p e; cat a.csv >> e/b')",
        "open('e/b').read()",
    ),
    "executable": ("x = subprocess.run('sh ./s.sh', shell=True).returncode", "open('n').read()"),
    "folders": (
        "x = os.system('mkdir -p e/f && cp a.csv e/f/g')",
        "open('e/f/g').read(), os.listdir('e')",
    ),
    "archive": (
        "x = os.system('tar cf t a.csv; mkdir -p u; tar xf t -C u; rm t')",
        "open('u/a.csv').read()",
    ),
    "renaming": ("x = os.system('cp a.csv q; mv q r')", "open('r').read(), os.path.exists('q')"),
    "pool": (
        "import multiprocessing\n"
        "def f(name): return open(name).read()\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool: v = pool.map(f, ['a.csv'])\n"
        "del pool",
        "v",
    ),
    "executor": (
        "import concurrent.futures\n"
        "def f(name): return open(name).read()\n"
        "with concurrent.futures.ProcessPoolExecutor(1) as pool: v = list(pool.map(f, ['a.csv']))\n"
        "del pool",
        "v",
    ),
    "fork": (
        "child = os.fork()\n"
        "if not child:\n"
        "    open('w', 'w').write(open('a.csv').read()); os._exit(0)\n"
        "x = os.waitpid(child, 0)[1]; del child",
        "open('w').read()",
    ),
}
FILES = {
    "a.csv": "x\n1\n2\n",
    "s.py": "import helper\nopen('o', 'w').write(helper.read())\n",
    "helper.py": "def read(): return open('a.csv').read().upper()\n",
    "s.sh": "wc -l a.csv > n\ncat a.csv >> n\n",
    "pack/__init__.py": "",
    "pack/main.py": "open('p', 'w').write(open('a.csv').read())\n",
}
EDITED = {"a.csv": "x\n1\n3\n"}
IMPORTS = "import os, subprocess, sys"


@pytest.mark.parametrize(("command", "look"), COMMANDS.values(), ids=COMMANDS)
def test_a_process_runs_again_when_and_only_when_its_files_differ(
    command: str, look: str, root: Path
) -> None:
    cells = [IMPORTS, command, look or "None", "k = 1"]
    repeated = compare(cells, cells, root, files=FILES)
    # A script that appends depends on what it finds: once more for what it has left.
    assert repeated.executed in ([], [1]) if "s.sh" in command else repeated.executed == []
    edited = compare(cells, cells, root, files=FILES, edited_files=EDITED).executed
    assert edited[:1] == [1]
    assert set(edited) <= {1, 2}


def test_what_a_process_wrote_is_put_back(folder: Path) -> None:
    store = MemoryStore()
    cells = [IMPORTS, "x = os.system('mkdir -p e; cat a.csv > e/b')", "open('e/b').read()"]
    (folder / "a.csv").write_text("1")
    checked(cells, "audit", store, folder)
    shutil.rmtree(folder / "e")
    assert checked(cells, "replay", store, folder).executed == []
    (folder / "e/b").write_text("changed")
    assert checked([*cells, "print(open('e/b').read())"], "replay", store, folder).executed == [3]


CAUSES: dict[str, tuple[str, Mapping[str, str], Mapping[str, str]]] = {
    "a source imported by a script": (
        "x = subprocess.run([sys.executable, 's.py']).returncode",
        FILES,
        {"helper.py": "def read(): return 'other'\n"},
    ),
    "a listing": ("print(os.popen('ls').read())", {"a": ""}, {"b": ""}),
    "a pattern": ("print(os.popen('cat *.txt').read())", {"a.txt": "1"}, {"b.txt": "2"}),
    "a file that was missing": (
        "print(os.popen('[ -f z.txt ] && echo yes || echo no').read())",
        {},
        {"z.txt": ""},
    ),
    "a file that could not be read": ("x = os.system('cat z.txt 2>/dev/null')", {}, {"z.txt": "1"}),
    "a script": ("print(os.popen('sh s.sh').read())", {"s.sh": "echo 1"}, {"s.sh": "echo 2"}),
    "what it appends to": ("x = os.system('echo 1 >> log')", {"log": "0\n"}, {"log": "5\n"}),
    "what it edits": ("x = os.system(\"sed -i 's/0/1/' log\")", {"log": "0\n"}, {"log": "00\n"}),
    "what only a word names": ("print(os.popen('stat -c %s d').read())", {"d": "1"}, {"d": "12"}),
}


@pytest.mark.parametrize(("command", "files", "edited"), CAUSES.values(), ids=CAUSES)
def test_everything_a_process_depends_on_makes_it_run_again(
    command: str, files: Mapping[str, str], edited: Mapping[str, str], root: Path
) -> None:
    cells = [IMPORTS, command, "k = 1"]
    run = compare(cells, cells, root, files=files, edited_files=edited)
    assert run.executed == [1]
    assert run.reports[1].reasons[0].kind == "file-changed"


def test_working_folder_and_environment_are_inputs_of_a_process(root: Path) -> None:
    cells = ["import os", "os.environ['V'] = '1'", "print(os.popen('echo $V').read())"]
    edited = [cells[0], "os.environ['V'] = '2'", cells[2]]
    assert compare(cells, edited, root).executed == [1, 2]
    cells = ["import os", "os.chdir('d')", "print(os.popen('cat a').read())"]
    edited = [cells[0], "os.chdir('e')", cells[2]]
    assert compare(cells, edited, root, files={"d/a": "1", "e/a": "2"}).executed == [1, 2]


def test_packages_that_a_script_imports_belong_to_its_environment(folder: Path) -> None:
    # reprozip#260
    (folder / "s.py").write_text("import helper\n")
    (folder / "helper.py").write_text("import msgspec\n")
    store = MemoryStore()
    run = checked(
        [IMPORTS, "x = subprocess.run([sys.executable, 's.py']).returncode"], "audit", store, folder
    )
    assert "msgspec" in store_record(store, run.reports[1]).environment.distributions


def reused(report: CellReport) -> bool:
    return report.action == "reused"


@pytest.mark.parametrize(
    "command",
    [
        "x = os.popen('date +%Y').read()",
        "x = os.system('sleep 0.2 &')",
        "x = os.system(f'echo 1 > {other}/x')",
        "x = subprocess.run([sys.executable, '-c', 'import urllib.request']).returncode",
        "x = bool(subprocess.Popen(['sleep', '0.2']))",
    ],
)
def test_a_process_that_cannot_be_followed_runs_every_time(
    command: str, folder: Path, tmp_path: Path
) -> None:
    store, cells = MemoryStore(), [IMPORTS, f"other = {str(tmp_path)!r}", command]
    for mode in ("audit", "replay", "replay"):
        run = _run(cells, mode, store, folder)  # type: ignore[arg-type]
        assert run.reports[2].action == "executed"
    assert run.reports[2].reasons[0].kind in ("unsafe", "file-changed")


def test_a_fault_in_following_makes_processes_run_every_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [IMPORTS, "x = os.system('cat a > b')", "k = 1"]
    (folder / "a").write_text("1")
    for fault in ("too many folders", "a network file system", "lost events"):
        with monkeypatch.context() as patch:
            if fault == "too many folders":
                patch.setattr("nbrewind.state.folder_watch.MOST_FOLDERS", 0)
            elif fault == "lost events":
                patch.setattr("nbrewind.state.folder_watch._MOST_BYTES", -1)
            else:
                patch.setattr("nbrewind.state.files.is_remote", lambda path: True)
            store = MemoryStore()
            _run(cells, "audit", store, folder)
            run = _run(cells, "replay", store, folder)
            assert run.executed[0] == 1, fault
            assert str(run.reports[1].reasons[0]) == "unsafe subprocess"


def test_a_reused_process_is_mentioned(folder: Path) -> None:
    store, cells = MemoryStore(), ["import os; x = os.system('true')"]
    _run(cells, "audit", store, folder)
    run = _run(cells, "replay", store, folder)
    assert reused(run.reports[0])
    assert any(note.startswith("process:") for note in run.reports[0].notes)


def _run(cells: list[str], mode: Mode, store: MemoryStore, folder: Path) -> Run:
    return checked(cells, mode, store, folder)


# Code in C outside the folder, and in files that stay open


@pytest.mark.parametrize(
    "made", ["p = place / 'x'; p.mkdir(exist_ok=True)", "p = pathlib.Path(mkdtemp(dir=place))"]
)
def test_a_folder_made_elsewhere_is_made_again_once_it_is_gone(
    made: str, folder: Path, tmp_path: Path
) -> None:
    cells = [
        f"import pathlib; from tempfile import mkdtemp; place = pathlib.Path({str(tmp_path)!r})",
        made,
        "(p / 'a').write_text('1')",
        "print((p / 'a').read_text())",
        "k = 1",
    ]
    store = MemoryStore()
    assert run_with_engine(cells, "audit", store, folder).errors == [""] * 5
    assert run_with_engine(cells, "replay", store, folder).executed == []
    for path in tmp_path.iterdir():
        shutil.rmtree(path)
    run = run_with_engine(cells, "replay", store, folder)
    assert run.errors == [""] * 5
    assert run.executed[:2] == [1, 2]
    assert 4 not in run.executed


def test_a_folder_that_a_library_makes_elsewhere_is_its_own_affair(
    folder: Path, tmp_path: Path
) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "nbr_maker.py").write_text("import os\ndef make(path): os.makedirs(path)\n")
    path = tmp_path / "cache"
    cells = [
        f"import sys; sys.path.insert(0, {str(library)!r}); import nbr_maker",
        f"nbr_maker.make({str(path)!r})",
        "k = 1",
    ]
    store = MemoryStore()
    run_with_engine(cells, "audit", store, folder)
    shutil.rmtree(path)
    assert run_with_engine(cells, "replay", store, folder).executed == []


def test_files_outside_the_folder_are_followed_where_they_are_named(
    folder: Path, tmp_path: Path
) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "far.h5"

    def write(number: int) -> None:
        with h5py.File(path, "w") as file:
            file["x"] = number

    for name in (f"p = {str(path)!r}", f"import pathlib; p = pathlib.Path({str(path)!r})"):
        store = MemoryStore()
        cells = ["import h5py", name, "with h5py.File(p) as f: v = int(f['x'][()])", "v", "k = 1"]
        write(1)
        checked(cells, "audit", store, folder)
        assert checked(cells, "replay", store, folder).executed == []
        write(2)
        assert checked(cells, "replay", store, folder).executed == [2, 3]


def test_a_file_that_stays_open_is_followed_through_later_cells(root: Path) -> None:
    pytest.importorskip("h5py")
    rest = ["f['y'] = 2", "f.close(); del f", "g = h5py.File('d.h5'); v = list(g); g.close()", "v"]
    before = ["import h5py", "f = h5py.File('d.h5', 'w')", "f['x'] = 1", *rest]
    after = ["import h5py", "f = h5py.File('d.h5', 'w')", "f['z'] = 1", *rest]
    assert {2, 5, 6} <= set(compare(before, after, root).executed)


def test_writes_through_a_memory_map_are_seen_in_later_cells(root: Path) -> None:
    cells = ["import numpy as np", "np.zeros(3).tofile('d')", "m = np.memmap('d', mode='r+')"]
    last = ["m[0] = {n}; m.flush(); del m", "np.fromfile('d', 'u1')[0]"]
    before = [*cells, *(line.format(n=5) for line in last)]
    after = [*cells, *(line.format(n=6) for line in last)]
    assert {3, 4} <= set(compare(before, after, root).executed)


def test_writes_of_strangers_are_not_taken_for_the_cells(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbrewind.state.children._children", list)  # those of other tests
    # A stranger is one whose writing no audit event announces.
    source = (
        "import ctypes\n"
        "libc = ctypes.CDLL(None)\n"
        "n = libc.open(b'strange.txt', 0o101, 0o644); x = libc.close(n); del libc, n"
    )
    store = MemoryStore()
    run = checked([source, "k = 1"], "audit", store, folder)
    assert os.path.exists(folder / "strange.txt")
    (folder / "strange.txt").unlink()
    record = store_record(store, run.reports[0])
    assert not any(access.write for access in record.files)


def store_record(store: MemoryStore, report: CellReport):  # type: ignore[no-untyped-def]
    import msgspec

    from nbrewind.model.records import ExecutionRecord

    return msgspec.msgpack.decode(store.get(bytes.fromhex(report.record)), type=ExecutionRecord)


def test_a_forked_child_finds_what_reused_cells_have_made(root: Path) -> None:
    cells = [
        "import multiprocessing, os\ncontext = multiprocessing.get_context('fork')",
        "def f(x): return x + sum(k)",
        "k = [1]",
        "z = k",
        "m = 0; pool = context.Pool(1); pool.m = m",
        "v = pool.map(f, [1, 2]); pool.close(); pool.join(); del pool, context",
        "v",
    ]
    edited = [*cells[:4], cells[4].replace("m = 0", "m = 1"), *cells[5:]]
    assert {4, 5} <= set(compare(cells, edited, root).executed)


# What is put back

LIVES = {
    "a link": (
        ["import os", "os.symlink('a', 'l')", "os.path.islink('l'), open('l').read()"],
        {"a": "1"},
    ),
    "a link to a folder": (
        ["import os", "os.symlink('d', 'l')", "open('l/a').read(), os.readlink('l')"],
        {"d/a": "1"},
    ),
    "a link by a process": (
        ["import os", "x = os.system('ln -s a l')", "os.path.islink('l'), open('l').read()"],
        {"a": "1"},
    ),
    "a folder that is filled and emptied": (
        [
            "import os, shutil",
            "os.makedirs('d/e', exist_ok=True); x = [open(f'd/e/{i}', 'w').close() for i in 'ab']",
            "sorted(os.listdir('d/e'))",
            "shutil.rmtree('d')",
            "os.path.exists('d')",
        ],
        {},
    ),
    "a folder that is filled and emptied by processes": (
        [
            "import os",
            "x = os.system('mkdir -p d/e && touch d/e/a d/e/b')",
            "sorted(os.listdir('d/e'))",
            "x = os.system('rm -rf d')",
            "os.path.exists('d')",
        ],
        {},
    ),
}


@pytest.mark.parametrize(("cells", "files"), LIVES.values(), ids=LIVES)
def test_what_cells_make_of_the_folder_is_what_it_is(
    cells: list[str], files: Mapping[str, str], folder: Path
) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    store = MemoryStore()
    checked(cells, "audit", store, folder)
    if os.path.lexists(folder / "l"):
        (folder / "l").unlink()
    assert 1 not in checked(cells, "replay", store, folder).executed
    run = checked([*cells, "sorted(os.listdir())"], "replay", store, folder)
    assert not run.warnings


def test_a_removed_folder_is_removed_with_what_an_edited_cell_put_there(root: Path) -> None:
    before = ["import os", "x = os.system('mkdir -p d; touch d/a')", "x = os.system('rm -rf d')"]
    after = [before[0], "x = os.system('mkdir -p d; touch d/a d/b')", before[2], "os.listdir()"]
    assert compare(before, after, root).executed == [1, 2, 3]


def test_a_folder_emptied_beforehand_is_empty_for_what_comes_after(root: Path) -> None:
    before = ["import os", "x = os.system('rm -rf d; mkdir -p d')", "x = os.system('echo 1 > d/a')"]
    after = [*before[:2], "x = os.system('echo 1 > d/b')", "os.listdir('d')"]
    assert {2, 3} <= set(compare(before, after, root).executed)
