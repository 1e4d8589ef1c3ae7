"""Every guard of law L1 is needed: with one taken away, a replay that was right goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nbrewind_analysis.validity as validity
import nbrewind_kernels.recording as recording
from nbrewind.model.versions import Version
from nbrewind.state.ambient import AmbientTracker
from nbrewind.state.capture import Examination
from nbrewind.state.command_lines import Told
from nbrewind.state.files import FileTracker
from nbrewind.state.folder_watch import FolderWatch
from nbrewind.state.modules import LocalModules
from nbrewind.state.places import Places
from nbrewind.state.rng import PythonRandom
from nbrewind.state.sharing import Sharing
from nbrewind.state.unseen import Unseen
from nbrewind.testing.oracle import compare
from nbrewind_analysis.table import Closure, VersionTable
from nbrewind_kernels.live import LiveNamespace
from nbrewind_kernels.observers import Observers

Remove = Callable[[pytest.MonkeyPatch], None]
GUARDS: dict[str, tuple[Remove, list[str], list[str], dict[str, Any]]] = {}


def guard(before: list[str], after: list[str], **options: Any) -> Callable[[Remove], Remove]:
    """Register how a guard is taken away, and a notebook and edit that need it."""

    def register(remove: Remove) -> Remove:
        GUARDS[remove.__name__.replace("_", " ").strip()] = remove, before, after, options
        return remove

    return register


@guard(["a = [1]", "b = a", "a.append(2)", "b"], ["a = [1]", "b = a", "a.append(3)", "b"])
def _alias_detection(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Sharing, "_join", lambda self, one, other: None)


@guard(
    ["import numpy as np", "a = np.zeros(3)", "b = a[1:]", "a[2] = 1", "b.sum()"],
    ["import numpy as np", "a = np.zeros(3)", "b = a[1:]", "a[2] = 2", "b.sum()"],
)
def _alias_detection_among_views(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Sharing, "_join", lambda self, one, other: None)


@guard(["l = [1]", "l.append(2)", "l"], ["l = [1]", "l.append(3)", "l"])
def _fingerprints(patch: pytest.MonkeyPatch) -> None:
    whole = recording._find_changed

    def unchanged(live: LiveNamespace, table: VersionTable, changes: recording.Changes) -> None:
        whole(live, table, changes)
        changes.changed = {name for name in changes.changed if name not in table}

    patch.setattr(recording, "_find_changed", unchanged)


@guard(
    ["k = 1", "def f(): return k", "f()"],
    ["k = 2", "def f(): return k", "f()"],
)
def _closure_over_functions(patch: pytest.MonkeyPatch) -> None:
    def own_names_only(
        self: VersionTable, names: Any, *, modules: Any = (), dynamic: bool = False
    ) -> Closure:
        closure = Closure(modules=set(modules), dynamic=dynamic)
        for name in names:
            (closure.names if name in self else closure.absent).add(name)
        return closure

    patch.setattr(VersionTable, "closure", own_names_only)


@guard(["x = max(1, 2)", "x"], ["max = min", "x = max(1, 2)", "x"])
def _absent_names(patch: pytest.MonkeyPatch) -> None:
    whole = VersionTable.closure

    def present_only(
        self: VersionTable, names: Any, *, modules: Any = (), dynamic: bool = False
    ) -> Closure:
        closure = whole(self, names, modules=modules, dynamic=dynamic)
        closure.absent.clear()
        return closure

    patch.setattr(VersionTable, "closure", present_only)


@guard(
    ["a = [1]", "b = [1]", "a.append(2)", "b"],
    ["a = [1]", "b = a", "a.append(2)", "b"],
)
def _former_groups(patch: pytest.MonkeyPatch) -> None:
    whole = validity._sharing_mismatches

    def without_former(record: Any, table: VersionTable) -> Any:
        return [r for r in whole(record, table) if "share it now" not in r.detail]

    patch.setattr(validity, "_sharing_mismatches", without_former)


@guard(
    ["a = [1]", "b = [1]", "a += [2]", "b"],
    ["a = [1]", "b = a", "a += [2]", "b"],
)
def _co_variables_read_and_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recording, "_read_and_lost", lambda live, table, touch, lost: [])


@guard(
    ["a = [1]", "b = [1]", "a is b"],
    ["a = [1]", "b = a", "a is b"],
)
def _sharing_among_names_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(VersionTable, "sharing", lambda self, names: {})


@guard(
    ["import random", "random.seed(1)", "x = random.random()", "x"],
    ["import random", "random.seed(2)", "x = random.random()", "x"],
)
def _tracking_of_random_numbers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PythonRandom, "peek", lambda self: "still")


@guard(
    ["import random", "random.seed(1)", "x = random.random()"],
    ["import random", "random.seed(1)", "x = [random.random()]"],
)
def _putting_generators_in_place(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AmbientTracker, "set", lambda self, provider, version, state: True)


@guard(
    ["open('d.txt').read()"],
    ["open('d.txt').read()"],
    files={"d.txt": "1"},
    edited_files={"d.txt": "2"},
)
def _tracking_of_files(patch: pytest.MonkeyPatch) -> None:
    whole = FileTracker.end

    def nothing(self: FileTracker) -> Any:
        found = whole(self)
        found.accesses.clear()
        return found

    patch.setattr(FileTracker, "end", nothing)


_READ_IN_C = [
    "import ctypes",
    "libc = ctypes.CDLL(None); text = ctypes.create_string_buffer(8)\n"
    "n = libc.open(b'd.txt', 0); x = libc.read(n, text, 8); x = libc.close(n)\n"
    "v = text.value; del libc, text, n",
    "v",
]


@guard(_READ_IN_C, _READ_IN_C, files={"d.txt": "1"}, edited_files={"d.txt": "2"})
def _watching_of_folders(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FolderWatch, "end", lambda self: ({}, True))


_TEST_BY_PROCESS = ["import os", "x = os.system('[ -f d.txt ]')", "x"]


@guard(_TEST_BY_PROCESS, _TEST_BY_PROCESS, edited_files={"d.txt": "2"})
def _reading_of_command_lines(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Told, "shell", lambda self, text, folder: None)


_APPENDING = ["import os", "x = os.system('echo 1 >> d.txt')", "open('d.txt').read()"]


@guard(_APPENDING, _APPENDING, files={"d.txt": "1"}, edited_files={"d.txt": "2"})
def _what_was_there_before_processes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Unseen, "_depends", lambda self, one: False)


@guard(
    [
        "import pathlib",
        "pathlib.Path('o.txt').write_text('1')",
        "pathlib.Path('o.txt').read_text()",
    ],
    [
        "import pathlib",
        "pathlib.Path('o.txt').write_text('2')",
        "pathlib.Path('o.txt').read_text()",
    ],
)
def _tracking_of_files_between_cells(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(validity, "_file_mismatches", lambda record, now: [])


@guard(
    ["import mod", "mod.f()"],
    ["import mod", "mod.f()"],
    files={"mod.py": "def f(): return 1"},
    edited_files={"mod.py": "def f(): return 2"},
)
def _digests_of_modules(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LocalModules, "reach", lambda self, names, imported=(): [])


LOOKED_FOR = "import importlib.util; there = importlib.util.find_spec('maybe') is not None"


@guard([LOOKED_FOR, "there"], [LOOKED_FOR, "there"], edited_files={"maybe.py": "n = 1"})
def _searches_for_modules(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Observers, "_not_there", lambda self, sought: [])


@guard(
    ["o = {'a': 1}", "def f(x=o): return x", "o['b'] = 2", "f()"],
    ["o = {'a': 1}", "def f(x=o): return x", "o['b'] = 3", "f()"],
)
def _functions_kept_for_names_not_loaded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LiveNamespace, "keep_for_lazy", lambda self, table: None)


@guard(
    ["class C:\n    ids = (i for i in range(9))", "next(C.ids)", "a = next(C.ids)", "a"],
    ["class C:\n    ids = (i for i in range(9))", "'none'", "a = next(C.ids)", "a"],
)
def _marks_of_classes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Examination, "_class_fingerprint", lambda self, cls: b"the same")


@guard(
    ["def f(): return 1", "def g(): return f()", "g()"],
    ["def f(): return 2", "def g(): return f()", "g()"],
)
def _versions_of_functions(patch: pytest.MonkeyPatch) -> None:
    whole = VersionTable.own

    def own(self: VersionTable, name: str) -> Version:
        return "same" if name in ("f", "g") or name.startswith("@") else whole(self, name)

    patch.setattr(VersionTable, "own", own)


@guard(
    ["l = [3]", "def f():\n    l.append(1)", "f()", "l"],
    ["l = [3]", "def f():\n    l.append(2)", "f()", "l"],
)
def _a_look_at_what_functions_reach(patch: pytest.MonkeyPatch) -> None:
    whole = recording.look_at_changes

    def shallow(live: Any, table: Any, touch: recording.Touch, hidden: Any) -> Any:
        touch = recording.Touch(
            frozenset(), touch.may_store, touch.must_store, touch.must_delete, False
        )
        return whole(live, table, touch, hidden)

    import nbrewind_kernels.engine as engine

    patch.setattr(engine, "look_at_changes", shallow)


@guard(
    ["import mod", "mod.count(1)", "mod.count(0)"],
    ["import mod", "mod.count(2)", "mod.count(0)"],
    files={"mod.py": "n = 0\ndef count(by):\n    global n\n    n += by\n    return n"},
)
def _state_of_modules(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Places, "present", lambda self: set())


@guard(
    ["import logging", "logging.getLogger('a').setLevel(10)", "logging.getLogger('a').level"],
    ["import logging", "logging.getLogger('a').setLevel(30)", "logging.getLogger('a').level"],
)
def _state_of_logging(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(VersionTable, "_places_of", lambda self, modules: set())


@guard(
    ["l = []\nclass A:\n    def __del__(self): l.append(self.x)\na = A(); a.x = 1", "a = 0", "l"],
    ["l = []\nclass A:\n    def __del__(self): l.append(self.x)\na = A(); a.x = 2", "a = 0", "l"],
)
def _finalisers_of_what_a_cell_lets_go(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(VersionTable, "ended_by", lambda self, names: None)


@guard(["5", "x = 1", "y = [_]"], ["6", "x = 1", "y = [_]"])
def _results_of_earlier_cells(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(validity.Situation, "_result_version", lambda self, name: "same")


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("name", GUARDS)
def test_a_replay_is_right_with(name: str, root: Path) -> None:
    _, before, after, options = GUARDS[name]
    compare(before, after, root, **options)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("name", GUARDS)
def test_a_replay_is_wrong_without(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remove, before, after, options = GUARDS[name]
    remove(monkeypatch)
    with pytest.raises(AssertionError):
        compare(before, after, root, **options)
