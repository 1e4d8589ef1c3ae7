"""Ambient state: its versions, what moves it, and how it is put back."""

from __future__ import annotations

import decimal
import importlib.metadata
import os
import random
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbrewind.model.versions import ENTROPY, is_lineage
from nbrewind.state.ambient import AmbientTracker, Moved
from nbrewind.state.providers import START, Provider


@pytest.fixture
def tracker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AmbientTracker]:
    monkeypatch.chdir(tmp_path)
    tracker = AmbientTracker(tmp_path, plugins=False)
    saved = tracker.save()
    yield tracker
    tracker.restore_saved(saved)
    tracker.close()


def moves(tracker: AmbientTracker, cell: Callable[[], object]) -> dict[str, Moved]:
    tracker.begin()
    cell()
    return {move.provider: move for move in tracker.end()}


def fresh(tmp_path: Path, source: str) -> list[str]:
    """Lines that a program prints which starts with a tracker and no library imported."""
    start = """
        import sys, warnings
        from pathlib import Path
        from nbrewind.state.ambient import AmbientTracker
        tracker = AmbientTracker(Path.cwd(), plugins=False)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(start) + textwrap.dedent(source)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


# Generators


def test_an_untouched_generator_has_the_symbolic_version(tracker: AmbientTracker) -> None:
    assert tracker.versions()["random"] == ENTROPY
    assert tracker.versions()["numpy.random"] == ENTROPY
    assert moves(tracker, lambda: None) == {}


def test_a_draw_moves_the_generator_and_tells_where_it_started(tracker: AmbientTracker) -> None:
    drawn: list[float] = []
    move = moves(tracker, lambda: drawn.append(random.random()))["random"]
    assert (move.before, move.after[0]) == (ENTROPY, "v")
    after = random.random()
    assert tracker.set("random", ENTROPY, move.start)
    assert tracker.versions()["random"] == ENTROPY
    assert random.random() == drawn[0]
    assert tracker.set("random", move.after, move.state)
    assert random.random() == after


def test_equal_seeds_give_equal_versions_also_in_another_process(
    tracker: AmbientTracker, tmp_path: Path
) -> None:
    def cell() -> None:
        random.seed(7)
        np.random.seed(7)

    here = {name: move.after for name, move in moves(tracker, cell).items()}
    there = fresh(
        tmp_path,
        """
        import random, numpy
        random.seed(7); numpy.random.seed(7)
        print(tracker.versions()["random"], tracker.versions()["numpy.random"])
        """,
    )
    assert there == [f"{here['random']} {here['numpy.random']}"]


def test_numpy_state_is_restored_with_its_pending_gaussian_and_bit_generator(
    tracker: AmbientTracker,
) -> None:
    numpy_random: Any = np.random
    former = numpy_random.get_bit_generator()
    np.random.seed(1)
    np.random.randn()
    move = moves(tracker, lambda: np.random.rand())["numpy.random"]
    expected = np.random.randn(3).tolist()
    try:
        numpy_random.set_bit_generator(np.random.PCG64(5))
        other = tracker.versions()["numpy.random"]
        assert other != move.after
        assert tracker.set("numpy.random", move.after, move.state)
        assert np.random.randn(3).tolist() == expected
    finally:
        numpy_random.set_bit_generator(former)


def test_torch_generator_and_settings_are_followed(tmp_path: Path) -> None:
    lines = fresh(
        tmp_path,
        """
        tracker.begin()
        import torch
        print(sorted(move.provider for move in tracker.end() if "torch" in move.provider))
        tracker.begin()
        torch.manual_seed(3)
        torch.set_default_dtype(torch.float64)
        torch.use_deterministic_algorithms(True)
        moved = {move.provider: move for move in tracker.end()}
        print(sorted(moved))
        value = torch.rand(1).item()
        torch.set_default_dtype(torch.float32)
        torch.manual_seed(4)
        for move in moved.values():
            assert tracker.set(move.provider, move.after, move.state), move
        print(torch.rand(1).item() == value, torch.get_default_dtype())
        print(torch.are_deterministic_algorithms_enabled())
        tracker.set("torch.settings", "start", None)
        print(torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled())
        """,
    )
    assert lines == [
        "[]",
        "['torch.random', 'torch.settings']",
        "True torch.float64",
        "True",
        "torch.float32 False",
    ]


# Settings


def _change_everything(folder: Path) -> None:
    import matplotlib as mpl
    import pandas as pd

    os.environ["NBR_NEW"] = "1"
    os.environ.pop("NBR_GONE", None)
    sys.path.insert(0, str(folder / "lib"))
    (folder / "sub").mkdir(exist_ok=True)
    os.chdir(folder / "sub")
    warnings.filterwarnings("ignore", message="nbr.*", category=UserWarning)
    decimal.getcontext().prec = 7
    np.set_printoptions(precision=3)
    np.seterr(divide="ignore")
    pd.set_option("display.max_rows", 7)
    pd.set_option("display.float_format", "{:.1f}".format)
    mpl.rcParams["font.size"] = 5
    mpl.rcParams["font.sans-serif"].insert(0, "Nonesuch")


CHANGED = [
    "cwd",
    "decimal",
    "environ",
    "matplotlib.rcParams",
    "numpy.options",
    "pandas.options",
    "sys.path",
    "warnings",
]


def test_every_setting_is_versioned_restored_and_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import matplotlib as mpl
    import pandas as pd

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NBR_GONE", "here")
    tracker = AmbientTracker(tmp_path, plugins=False)
    saved = tracker.save()
    try:
        moved = moves(tracker, lambda: _change_everything(tmp_path))
        assert sorted(moved) == CHANGED
        assert {move.before for move in moved.values()} == {START}
        assert {move.start for move in moved.values()} == {None}
        filters = list(warnings.filters)

        for name in CHANGED:
            assert tracker.set(name, START, None), name
        assert set(tracker.versions().values()) == {START, ENTROPY}
        assert (mpl.rcParams["font.size"], pd.get_option("display.max_rows")) == (10.0, 60)
        assert os.environ["NBR_GONE"] == "here"
        assert "NBR_NEW" not in os.environ
        assert Path.cwd() == tmp_path

        for move in moved.values():
            assert tracker.set(move.provider, move.after, move.state), move.provider
        assert os.environ["NBR_NEW"] == "1"
        assert "NBR_GONE" not in os.environ
        assert sys.path[0] == str(tmp_path / "lib")
        assert Path.cwd() == tmp_path / "sub"
        assert list(warnings.filters) == filters
        assert decimal.getcontext().prec == 7
        assert np.get_printoptions()["precision"] == 3
        assert np.geterr()["divide"] == "ignore"
        assert pd.get_option("display.float_format")(1.25) == "1.2"
        assert mpl.rcParams["font.sans-serif"][0] == "Nonesuch"
    finally:
        tracker.restore_saved(saved)
        tracker.close()


def test_versions_do_not_depend_on_where_and_how_the_session_started(tmp_path: Path) -> None:
    source = """
        import os, warnings
        os.environ["NBR_X"] = "1"
        sys.path.insert(0, os.path.abspath("lib"))
        sys.path.append("/opt/shared")
        os.mkdir("sub"); os.chdir("sub")
        warnings.simplefilter("ignore", DeprecationWarning)
        versions = tracker.versions()
        print(*(versions[n] for n in ("environ", "sys.path", "cwd", "warnings")))
    """
    first, second = tmp_path / "one", tmp_path / "two"
    first.mkdir()
    second.mkdir()
    strange = "import os; os.environ['NBR_PARENT'] = '42'; sys.path.insert(0, '/opt/strange')\n"
    again = strange + "tracker = AmbientTracker(Path.cwd(), plugins=False)\n"
    assert fresh(first, source) == fresh(second, again + textwrap.dedent(source))


def test_an_option_that_is_put_back_by_hand_has_its_start_version(tracker: AmbientTracker) -> None:
    old = np.get_printoptions()["precision"]
    np.set_printoptions(precision=2)
    assert tracker.versions()["numpy.options"] != START
    np.set_printoptions(precision=old)
    assert tracker.versions()["numpy.options"] == START


def test_an_option_that_holds_a_function_of_the_notebook_has_a_stable_lineage_version(
    tracker: AmbientTracker,
) -> None:
    import pandas as pd

    def set_format(source: str) -> Moved:
        namespace: dict[str, Any] = {"pd": pd, "__name__": "__main__"}
        text = f"pd.options.display.float_format = {source}"
        return moves(tracker, lambda: exec(text, namespace))["pandas.options"]

    first = set_format("lambda x: 'a'")
    assert is_lineage(first.after)
    assert first.state is None
    tracker.set("pandas.options", START, None)
    assert set_format("lambda x: 'a'").after == first.after
    assert set_format("lambda x: 'b'").after != first.after


# Libraries that are imported later


def test_importing_libraries_moves_nothing(tmp_path: Path) -> None:
    lines = fresh(
        tmp_path,
        """
        tracker.begin()
        import numpy, pandas, matplotlib.pyplot, sklearn.linear_model, decimal, locale
        print(tracker.end())
        """,
    )
    assert lines == ["[]"]


@pytest.mark.parametrize("backend", ["svg", None])
def test_only_a_backend_the_notebook_chose_counts(tmp_path: Path, backend: str | None) -> None:
    lines = fresh(
        tmp_path,
        f"""
        import os
        os.environ.pop("MPLBACKEND", None)
        if {backend!r}:
            os.environ["MPLBACKEND"] = {backend!r}
        import matplotlib.pyplot as plt
        tracker.begin()
        plt.figure()
        print(tracker.end())
        import matplotlib
        tracker.begin()
        matplotlib.use("pdf")
        (move,) = tracker.end()
        tracker.set(move.provider, "start", None)
        print(tracker.versions()[move.provider])
        tracker.set(move.provider, move.after, move.state)
        print(matplotlib.get_backend(), tracker.versions()[move.provider] == move.after)
        """,
    )
    assert lines == ["[]", "start", "pdf True"]


def test_draws_of_a_library_being_imported_count_only_after_a_seed(tmp_path: Path) -> None:
    lines = fresh(
        tmp_path,
        """
        import random
        sys.path.insert(0, "lib")
        from nbrewind.state import import_watch
        import_watch.is_library_file = lambda path, root: True
        Path("lib").mkdir()
        for name in ("one", "two"):
            Path(f"lib/nbr_{name}.py").write_text("import random; random.random()")
        tracker.begin()
        import nbr_one
        print([move.provider for move in tracker.end()])
        tracker.begin()
        drawn = random.random()
        (move,) = tracker.end()
        tracker.set("random", "entropy", move.start)
        print(random.random() == drawn)
        random.seed(1)
        tracker.begin()
        import nbr_two
        print([move.provider for move in tracker.end()])
        """,
    )
    assert lines == ["[]", "True", "['random']"]


def test_what_a_cell_sets_beside_its_imports_is_its_own(tmp_path: Path) -> None:
    lines = fresh(
        tmp_path,
        """
        tracker.begin()
        import os
        os.environ["NBR"] = "1"
        warnings.simplefilter("ignore")
        import sklearn, numpy
        numpy.random.rand()
        print([(move.provider, move.before) for move in tracker.end()])
        tracker.set("environ", "start", None)
        tracker.set("warnings", "start", None)
        print("NBR" in os.environ, tracker.versions()["warnings"])
        """,
    )
    assert lines == [
        "[('numpy.random', 'entropy'), ('environ', 'start'), ('warnings', 'start')]",
        "False start",
    ]


def test_a_change_made_before_an_import_outlives_it(tmp_path: Path) -> None:
    lines = fresh(
        tmp_path,
        """
        warnings.resetwarnings()
        sys.path.remove(next(entry for entry in sys.path if entry.endswith(".zip")))
        before = tracker.versions()
        import sklearn.linear_model
        after = tracker.versions()
        print(before["sys.path"] == after["sys.path"] != "start", after["warnings"] != "start")
        tracker.set("warnings", "start", None)
        print(len(warnings.filters) > 5, tracker.versions()["warnings"])
        """,
    )
    assert lines == ["True True", "True start"]


def test_state_of_a_library_not_imported_yet_waits_for_its_import(tmp_path: Path) -> None:
    recorded = fresh(
        tmp_path,
        """
        import numpy, matplotlib
        tracker.begin()
        numpy.random.seed(11)
        matplotlib.rcParams["font.size"] = 3
        for move in tracker.end():
            print(move.provider, move.after, move.state.hex())
        print(numpy.random.rand())
        """,
    )
    *states, drawn = recorded
    lines = fresh(
        tmp_path,
        f"""
        states = {states!r}
        for provider, version, state in map(str.split, states):
            assert tracker.set(provider, version, bytes.fromhex(state))
            assert tracker.versions()[provider] == version
        print(sorted(tracker.pending), "numpy" in sys.modules, "matplotlib" in sys.modules)
        tracker.begin()
        import numpy.random, matplotlib
        print(tracker.pending, tracker.end())
        print(numpy.random.rand(), matplotlib.rcParams["font.size"])
        """,
    )
    assert lines == [
        "['matplotlib.rcParams', 'numpy.random'] False False",
        "{} []",
        f"{drawn} 3.0",
    ]


def test_pending_state_can_be_taken_back(tmp_path: Path) -> None:
    lines = fresh(
        tmp_path,
        """
        saved = tracker.save()
        tracker.set("numpy.random", "vx", b"x")
        print(tracker.versions()["numpy.random"])
        tracker.restore_saved(saved)
        print(tracker.versions()["numpy.random"], tracker.pending)
        tracker.set("numpy.random", "vx", b"x")
        tracker.set("numpy.random", "entropy", None)
        print(tracker.versions()["numpy.random"], tracker.pending)
        """,
    )
    assert lines == ["vx", "entropy {}", "entropy {}"]


# Around a nested run


def test_save_and_restore_put_everything_back(tracker: AmbientTracker, tmp_path: Path) -> None:
    random.seed(1)
    os.environ["NBR_KEPT"] = "1"
    before = tracker.versions()
    saved = tracker.save()
    random.seed(2)
    np.random.rand()
    os.environ["NBR_KEPT"] = "2"
    _change_everything(tmp_path)
    tracker.restore_saved(saved)
    assert tracker.versions() == before
    assert os.environ["NBR_KEPT"] == "1"


# The law that nothing here is in the way


def test_a_broken_provider_is_reported_once_and_never_matches(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tracker = AmbientTracker(tmp_path, plugins=False)
    other = AmbientTracker(tmp_path, plugins=False)

    def broken() -> str:
        raise RuntimeError("broken")

    try:
        for one in (tracker, other):
            one.providers["locale"].digest = broken  # type: ignore[method-assign]
        version = tracker.versions()["locale"]
        assert is_lineage(version)
        assert version == tracker.versions()["locale"] != other.versions()["locale"]
        assert sum("locale" in record.message for record in caplog.records) == 2
        assert not tracker.set("locale", "v1", b"no pickle")
        assert not tracker.set("no-such-provider", "v1", b"")
    finally:
        tracker.close()
        other.close()


class Temperature:
    """A provider as another package would bring it."""

    name = "nbr.temperature"
    library = ""
    module = ""
    kind = "setting"
    mentions = frozenset({"temperature"})
    value = 20

    def active(self) -> bool:
        return True

    def mark(self) -> None:
        self.start = self.value

    def digest(self) -> str:
        return START if self.value == self.start else f"v{self.value}"

    def capture(self) -> bytes:
        return str(self.value).encode()

    def restore(self, state: bytes) -> None:
        self.value = int(state)


def test_plugins_add_providers_and_broken_ones_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Entry:
        def __init__(self, name: str, loaded: object) -> None:
            self.name, self.loaded = name, loaded

        def load(self) -> object:
            if isinstance(self.loaded, Exception):
                raise self.loaded
            return self.loaded

    plugged = Temperature()
    assert isinstance(plugged, Provider)
    entries = [Entry("bad", ImportError("no")), Entry("good", lambda: [plugged])]
    monkeypatch.setattr("nbrewind.state.ambient.entry_points", lambda group: entries)
    tracker = AmbientTracker(tmp_path)
    try:
        tracker.begin()
        plugged.value = 30
        assert tracker.end() == [Moved("nbr.temperature", START, "v30", b"30", None)]
        assert tracker.set("nbr.temperature", START, None)
        assert plugged.value == 20
    finally:
        tracker.close()
    assert importlib.metadata.entry_points(group="nbrewind.ambient") is not None
