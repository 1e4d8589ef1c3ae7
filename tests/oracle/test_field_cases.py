"""Cases from the public trackers of neighbouring systems, as small notebooks.

Each name says the behaviour; the comment says where the story comes from. All are
held against runs without NBRewind. The mark `case` numbers the stories, here and in the
other modules that have some; `test_every_case_has_a_test` counts them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nbrewind.testing.memory_store import MemoryStore
from nbrewind.testing.oracle import checked, compare, shown

pytestmark = pytest.mark.filterwarnings("ignore")

PANDAS = "import pandas as pd"
FRAME = "df = pd.DataFrame({'x': [3, 1, 2], 'n': ['A', 'B', 'A']})"


@pytest.mark.case(1)
def test_a_list_is_changed_from_where_the_previous_cell_left_it(root: Path) -> None:
    # ipyflow#173
    before = ["ll = [[1], [2], [3]]", "ll.pop(1)", "len(ll)"]
    assert compare(before, [before[0], "ll.pop(2)", before[2]], root).executed == [1, 2]


@pytest.mark.case(2)
def test_an_alias_of_an_edited_function_is_the_edited_one(root: Path) -> None:
    # ipyflow#173
    rest = ["g = f; l = []", "g(l)", "l"]
    run = compare(["def f(x): x.append(1)", *rest], ["def f(x): x.append(2)", *rest], root)
    assert run.executed == [0, 1, 2, 3]


@pytest.mark.case(3)
def test_a_later_change_is_not_seen_by_an_earlier_cell(root: Path) -> None:
    # marimo#1383, marimo#754
    cells = ["d = {'k': 1}", "print(d['k'])", "d['k'] = 2"]
    assert compare(cells, cells, root).executed == []
    assert compare(cells, [*cells, "d"], root).executed == [3]


@pytest.mark.case(4)
def test_a_frame_sorted_in_place_stays_one_object_with_its_alias(root: Path) -> None:
    # wrattler#168
    cells = [
        PANDAS,
        FRAME,
        "df.sort_values('x', inplace=True)",
        "df2 = df",
        "df2 is df, df2.x.tolist()",
    ]
    after = [*cells[:2], "df.sort_values('n', inplace=True)", *cells[3:]]
    assert compare(cells, after, root).executed == [2, 3, 4]


@pytest.mark.case(5)
@pytest.mark.parametrize(
    "use",
    [
        "df.query('n == @foo').x.tolist()",
        "pd.eval('foo + \"!\"') if False else eval('foo')",
        "f'{foo}!'",
        "__import__('string').Template('$foo').substitute(globals())",
    ],
)
def test_a_name_used_in_a_string_is_an_input(use: str, root: Path) -> None:
    # marimo#10485
    before = [PANDAS, FRAME, "foo = 'A'", use]
    assert compare(before, [PANDAS, FRAME, "foo = 'B'", use], root).executed == [2, 3]


@pytest.mark.case(6)
def test_callers_of_callers_follow_an_edited_function(root: Path) -> None:
    # joblib#1621, joblib#1287
    rest = ["def b(): return a() + 1", "def c(): return b() + 1", "c()", "k = 1"]
    run = compare(["def a(): return 1", *rest], ["def a(): return 2", *rest], root)
    assert run.executed == [0, 3]


@pytest.mark.case(7)
def test_a_local_module_that_failed_to_import_is_imported_once_it_is_mended(root: Path) -> None:
    # marimo#1542, marimo#6501
    cells = ["import mymod", "mymod.f()", "k = 1"]
    run = compare(
        cells,
        cells,
        root,
        files={"mymod.py": "raise ValueError"},
        edited_files={"mymod.py": "def f(): return 1"},
    )
    assert run.executed == [0, 1, 2]


@pytest.mark.case(8)
def test_a_changed_data_file_runs_its_readers_only(root: Path) -> None:
    # jupyter-book#1633, MyST-NB#299, quarto-cli#6793
    cells = [PANDAS, "df = pd.read_csv('d.csv')", "df.x.sum()", "k = 1"]
    run = compare(
        cells, cells, root, files={"d.csv": "x\n1\n2\n"}, edited_files={"d.csv": "x\n1\n3\n"}
    )
    assert run.executed == [1, 2]


@pytest.mark.case(10)
def test_comments_blank_lines_and_formatting_run_nothing(root: Path) -> None:
    # MyST-NB#350, QuartoNotebookRunner.jl#291
    before = ["def f(a,b=1):\n  return a+b", "x=f(1)", "x"]
    after = ["# add\ndef f(a, b=1):\n\n    # sum\n    return a + b", "x = f(1)  # two", "x"]
    assert compare(before, after, root).executed == []


@pytest.mark.case(11)
def test_another_kernel_in_a_moved_folder_reuses_everything(root: Path) -> None:
    # joblib#1210, joblib#1312, joblib#1498
    cells = ["text = open('d.txt').read()", "def f(): return text", "f()"]
    store = MemoryStore()
    here, there = root / "here", root / "there"
    here.mkdir()
    (here / "d.txt").write_text("1")
    checked(cells, "audit", store, here)
    here.rename(there)
    assert checked(cells, "replay", store, there).executed == []


@pytest.mark.case(12)
def test_two_notebooks_with_different_functions_of_one_name_are_kept_apart(root: Path) -> None:
    # joblib#1097
    folder = root / "two"
    folder.mkdir()
    store = MemoryStore()
    one = ["def f(): return 1", "f()"]
    other = ["def f(): return 2", "f()"]
    checked(one, "audit", store, folder)
    checked(other, "audit", store, folder)
    assert checked(one, "replay", store, folder).executed == []
    assert checked(other, "replay", store, folder).executed == []


@pytest.mark.case(13)
def test_a_dictionary_changed_by_a_reused_call_is_changed(root: Path) -> None:
    # joblib PR#82
    before = ["d = {}", "def f(x): x['k'] = 1", "f(d)", "print(1)"]
    assert compare(before, [*before[:3], "print(d)"], root).executed == [3]


@pytest.mark.case(14)
def test_a_draw_after_reused_draws_is_that_of_a_full_run(root: Path) -> None:
    # ArcticTraining#81
    before = [
        "import numpy as np",
        "np.random.seed(3)",
        "a = np.random.rand(3)",
        "np.random.rand()",
    ]
    run = compare(before, [*before[:3], "np.random.rand(2)"], root)
    assert run.executed == [3]


@pytest.mark.case(15, 22)
def test_a_cell_that_raised_half_way_runs_again_on_what_it_had_found(root: Path) -> None:
    # ipyflow#113
    cells = ["l = [1]", "l.append(2); 1 / 0"]
    assert compare(cells, cells, root).executed == [1]
    assert compare(cells, ["l = [1]", "l.append(3)", "l"], root).executed == [1, 2]


@pytest.mark.case(16)
def test_a_run_that_died_goes_on_where_it_died(root: Path) -> None:
    # papermill#824, papermill#524
    first = [f"x{i} = {i}" for i in range(8)]
    after = [*first, "sum([x0, x7])"]
    assert compare([*first, "raise MemoryError"], after, root).executed == [8]


@pytest.mark.case(17)
def test_an_inserted_rebinding_is_seen(root: Path) -> None:
    # The original NBRewind keys by prefix.
    run = compare(["x = 1", "y = x + 1", "y"], ["x = 1", "x = 100", "y = x + 1", "y"], root)
    assert run.executed == [1, 2, 3]


@pytest.mark.case(18)
def test_cells_after_an_edit_that_do_not_depend_on_it_are_reused(root: Path) -> None:
    # The original NBRewind runs everything after an edit.
    assert compare(["x = 1", "y = 10", "y * 2"], ["x = 2", "y = 10", "y * 2"], root).executed == [0]


@pytest.mark.case(19)
def test_equal_cells_show_their_own_outputs(root: Path) -> None:
    cells = ["i = 0", "i += 1; i", "i += 1; i"]
    run = compare(cells, cells, root)
    assert run.executed == []
    assert shown(run.outputs[1]) != shown(run.outputs[2])


@pytest.mark.case(21)
def test_none_is_a_value(root: Path) -> None:
    assert compare(["x = None", "x is None"], ["x = None", "[x]"], root).executed == [1]


@pytest.mark.case(23)
@pytest.mark.parametrize("look", ["df.isnull().sum()", "repr(df)[:5]", "len(df)", "df.x.mean()"])
def test_looking_at_a_value_does_not_write_it(look: str, root: Path) -> None:
    # kishu#394
    cells = [PANDAS, FRAME, look, "df.x.tolist()"]
    assert compare(cells, [PANDAS, FRAME, "df.shape", cells[3]], root).executed == [2]
    assert "df" not in compare(cells, [PANDAS, FRAME, look, "9"], root).reports[2].writes


@pytest.mark.case(24)
def test_globals_stored_by_functions_and_dictionaries_are_seen(root: Path) -> None:
    # kishu: namespaces that are subclasses of dict
    before = ["def f():\n    global x\n    x = 2", "f()", "x", "globals().update(y=3)", "y"]
    after = ["def f():\n    global x\n    x = 4", *before[1:3], "globals().update(y=5)", "y"]
    assert compare(before, after, root).executed[:3] == [0, 1, 2]


@pytest.mark.case(25)
def test_arrays_that_share_nothing_are_apart(root: Path) -> None:
    # kishu
    before = ["import numpy as np; a = np.zeros(9); b = np.ones(9)", "a[0] = 1", "b.sum()"]
    assert compare(before, [before[0], "a[0] = 2", before[2]], root).executed == [1]


@pytest.mark.case(26)
def test_objects_without_a_module_are_no_failure(root: Path) -> None:
    # kishu: `rand.__module__` is None
    cells = ["from numpy.random import rand, seed", "seed(1)", "rand()"]
    assert not compare(cells, [*cells, "callable(rand)"], root).warnings


@pytest.mark.case(27)
def test_a_frame_changed_under_copy_on_write_is_changed(root: Path) -> None:
    # kishu's experimental tracker
    cells = [PANDAS, FRAME, "df.loc[0, 'x'] = 1", "df.x.tolist()"]
    assert compare(cells, [*cells[:2], "df.loc[0, 'x'] = 7", cells[3]], root).executed == [2, 3]


DISTINCT = [
    ("np.array([1, 0], 'int32')", "np.array([1], 'int64')"),
    ("np.zeros((2, 6))", "np.zeros((2, 3, 2))"),
    ("1.0", "4607182418800017408"),
    ("True", "1"),
    ("[1]", "(1,)"),
    ("'a'", "b'a'"),
    ("-0.0", "0.0"),
    ("2 ** 70", "2 ** 71"),
    ("{1: 1, 'b': 2}", "{'b': 2, 1: 1}"),
    ("np.array([float('nan')]).view('int64') + 0", "np.array([float('nan')]).view('int64') + 1"),
    ("'long' * 99 + 'a'", "'long' * 99 + 'b'"),
]


@pytest.mark.case(28, 30)
@pytest.mark.parametrize(("one", "other"), DISTINCT)
def test_values_that_look_alike_are_told_apart(one: str, other: str, root: Path) -> None:
    # marimo, dask#6844, pydra#457
    rest = ["type(v), repr(v), getattr(v, 'dtype', None)"]
    start = "import numpy as np"
    assert compare([start, f"v = {one}", *rest], [start, f"v = {other}", *rest], root).executed == [
        1,
        2,
    ]


@pytest.mark.case(30)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "def make(k): return lambda: k\nf = make(1)",
            "def make(k): return lambda: k\nf = make(2)",
        ),
        ("def f(k=1): return k", "def f(k=2): return k"),
        ("K = 1\ndef f(): return K", "K = 2\ndef f(): return K"),
    ],
)
def test_functions_that_differ_by_what_they_hold_are_told_apart(
    one: str, other: str, root: Path
) -> None:
    # cctools vine_cache, pydra#457
    assert compare([one, "f()"], [other, "f()"], root).executed == [0, 1]


@pytest.mark.case(30)
def test_swapped_input_files_are_told_apart(root: Path) -> None:
    # pydra#457
    cells = ["a = open('a').read(); b = open('b').read()", "a, b"]
    run = compare(cells, cells, root, files={"a": "1", "b": "2"}, edited_files={"a": "2", "b": "1"})
    assert run.executed == [0, 1]


@pytest.mark.case(31)
def test_sharing_inside_a_value_is_part_of_it(root: Path) -> None:
    # joblib#393, joblib#1283, joblib#121
    before = ["v = [1]; x = [{'a': v}, v]", "x[0]['a'] is x[1]"]
    after = ["v = [1]; x = [{'a': [1]}, v]", "x[0]['a'] is x[1]"]
    assert compare(before, after, root).executed == [0, 1]


@pytest.mark.case(33)
def test_a_comment_above_a_function_does_not_change_it(root: Path) -> None:
    # cloudpickle#385, cloudpickle#453, dill#19
    before = ["def f(): return 1", "f()"]
    assert compare(before, ["\n\n# above\ndef f(): return 1", "f()"], root).executed == []


@pytest.mark.case(34)
def test_objects_that_answer_everything_are_handled_as_what_they_are(root: Path) -> None:
    # marimo#9563
    cells = [
        "class Any:\n    def __getattr__(self, name): return 1",
        "a = Any()",
        "a.whatever",
    ]
    compare(cells, [*cells, "a.other"], root)


@pytest.mark.case(36)
def test_views_stay_views_of_one_array(root: Path) -> None:
    # dill#767, xarray#1058
    cells = ["import numpy as np; a = np.zeros(100)", "v = [a[i:] for i in range(50)]", "1"]
    compare(cells, [*cells[:2], "a[99] = 5; sum(x[-1] for x in v)"], root)


@pytest.mark.case(37)
@pytest.mark.parametrize(
    "cells",
    [
        ["class C: pass", "c = C()", "isinstance(c, C), type(c) is C"],
        [
            "import enum\nclass Color(enum.Enum):\n    RED = 1",
            "r = Color.RED",
            "r is Color.RED, Color(1) is r",
        ],
        [
            "class A:\n    class B:\n        class D: n = 1",
            "d = A.B.D()",
            "isinstance(d, A.B.D), type(d).__qualname__",
        ],
    ],
)
def test_identity_survives_restoring(cells: list[str], root: Path) -> None:
    # cloudpickle#195, cloudpickle#101, dill#393, ipython#11588, ipython#12399, ipython#13258
    compare([*cells[:2], "0"], cells, root)


@pytest.mark.case(38)
def test_old_instances_keep_their_class_when_it_is_redefined(root: Path) -> None:
    # dill#243, dill#375, dill#512
    cells = ["class C:\n    n = 1", "c = C()", "class C:\n    n = 2", "c.n, C.n, isinstance(c, C)"]
    compare([*cells[:3], "0"], cells, root)


@pytest.mark.case(39)
def test_functions_see_the_list_of_the_notebook_after_restoring(root: Path) -> None:
    # dill#466
    cells = ["L = []", "def add(v): L.append(v)", "def get(): return L", "add(1)"]
    compare([*cells, "0"], [*cells, "add(2); get(), get() is L"], root)


@pytest.mark.case(40)
def test_deleted_names_stay_deleted_and_no_name_appears(root: Path) -> None:
    # dill#498, dill#462
    cells = ["x = 1; y = 2", "del x", "sorted(n for n in globals() if n in ('x', 'y', 'z'))"]
    compare([*cells[:2], "0"], cells, root)


@pytest.mark.case(45)
def test_cursors_are_made_again_and_never_unpickled(root: Path) -> None:
    # pysqlite#19
    cells = [
        "import sqlite3; c = sqlite3.connect(':memory:')",
        "_c = c.execute('create table t (x)'); _c = c.execute('insert into t values (1)')",
        "1",
    ]
    run = compare(cells, [*cells[:2], "c.execute('select x from t').fetchall()"], root)
    assert run.executed == [0, 1, 2]


def test_every_case_has_a_test() -> None:
    tests = Path(__file__).parents[1].rglob("test_*.py")
    marks = re.findall(
        r"^@pytest\.mark\.case\(([\d, ]+)\)", "\n".join(map(Path.read_text, tests)), re.M
    )
    numbers = {int(number) for mark in marks for number in mark.split(",")}
    assert numbers == set(range(1, 57))
