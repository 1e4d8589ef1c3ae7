"""With page tracking, a replay of notebooks with large values still equals a fresh run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbrewind.state.page_tracking import PageTracker
from nbrewind.state.written_pages import WrittenPages
from nbrewind.store.leaves import LeafHasher
from nbrewind.testing.memory_store import MemoryStore
from nbrewind.testing.oracle import Session, check, compare, run_plainly

pytest.importorskip("numpy")

try:
    WrittenPages().close()
except OSError as problem:
    pytest.skip(f"pages cannot be followed here: {problem}", allow_module_level=True)


@pytest.fixture(autouse=True)
def trackers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[PageTracker]]:
    """The trackers of all sessions: they follow from the first look on, and are not checked."""
    made: list[PageTracker] = []

    def configured(hasher: LeafHasher) -> PageTracker:
        made.append(PageTracker(hasher, "always", 1))
        return made[-1]

    def give_up(self: PageTracker, why: str) -> None:
        raise AssertionError(why)

    monkeypatch.setattr(PageTracker, "configured", configured)
    monkeypatch.setattr(PageTracker, "_give_up", give_up)
    monkeypatch.setattr(PageTracker, "_sample", lambda self, known: [])
    yield made
    assert sum(tracker.skipped for tracker in made) > 0, "nothing was followed"


NOTEBOOKS = {
    "an array and its views": (
        [
            "import numpy as np\na = np.arange(500_000.0)",
            "b = a[1000:]",
            "total = a.sum()",
            "a[5] = 1",
            "b[-1] = 2",
            "c = a.reshape(500, 1000)[3]",
            "c[:] = 4",
            "a.sum(), b.sum(), c.sum()",
        ],
        {3: "a[6] = 1", 6: "c[7] = 4"},
    ),
    "one array after the other": (
        [
            "import numpy as np\na = np.ones(3_000_000)",
            "a.sum()",
            "del a",
            "a = np.ones(3_000_000); a[7] = 2",
            "a.sum()",
            "a = a + 1",
            "a = a - 1",
            "a.sum()",
        ],
        {3: "a = np.ones(3_000_000); a[8] = 3"},
    ),
    "an array that grows": (
        [
            "import numpy as np\na = np.ones(300_000)",
            "a[3] = 3",
            "a.resize(600_000, refcheck=False)",
            "a[-1] = 5",
            "a.resize(200_000, refcheck=False)",
            "a.sum()",
        ],
        {3: "a[-2] = 6"},
    ),
    "a read into an array": (
        [
            "import numpy as np\na = np.zeros(300_000)",
            "with open('x', 'wb') as f: f.write(np.full(10, 7.0).tobytes())",
            "a.sum()",
            "with open('x', 'rb') as f: f.readinto(memoryview(a)[1000:1010])",
            "a.sum()",
        ],
        {1: "with open('x', 'wb') as f: f.write(np.full(10, 8.0).tobytes())"},
    ),
    "a frame": (
        [
            "import numpy as np, pandas as pd",
            "df = pd.DataFrame(np.ones((100_000, 4)), columns=[*'abcd'])",
            "df.sum()",
            "df.iloc[70_000, 2] = 5",
            "df['e'] = df.a * 2",
            "top = df[df.c > 1]",
            "df.loc[3, 'e'] = 9",
            "df.sum(), len(top)",
        ],
        {3: "df.iloc[70_001, 1] = 6", 6: "df.loc[3, 'e'] = 10"},
    ),
}


@pytest.mark.parametrize("what", NOTEBOOKS)
def test_followed_values_are_replayed_as_they_are(what: str, root: Path) -> None:
    cells, edits = NOTEBOOKS[what]
    if "pandas" in cells[0]:
        pytest.importorskip("pandas")
    edited = [edits.get(i, cell) for i, cell in enumerate(cells)]
    compare(cells, edited, root)


_STEPS = (
    "{x}[{i}] = {k}",
    "{x}[{i}:{j}] += {k}",
    "{x} *= 1.5",
    "{x} = {y}.copy()",
    "{x} = np.full({n}, {k}.0)",
    "{x} = {y}[:]",
    "del {x}; {x} = np.empty({n}); {x}[:] = {k}; {x}[{i}] = 3",
    "{x}[::1000] = {k}",
    "print({x}.sum(), {y}[{i}])",
    "s = {x}.sum()",
)


def _cells(seed: int) -> list[str]:
    choose = random.Random(seed)
    cells = ["import numpy as np", *(f"{x} = np.arange(200_000.0)" for x in "abc")]
    for _ in range(12):
        i = choose.randrange(150_000)
        values = {"i": i, "j": i + choose.choice([1, 600, 40_000]), "k": choose.randrange(99)}
        x, y = choose.sample("abc", 2)
        cells.append(choose.choice(_STEPS).format(x=x, y=y, n=200_000, **values))
    return cells


@pytest.mark.parametrize("seed", range(4))
def test_random_notebooks_of_arrays_are_replayed_as_they_are(seed: int, root: Path) -> None:
    cells = _cells(seed)
    edited = [*cells]
    at = 4 + seed % 12
    edited[at] = _cells(seed + 1000)[at]
    compare(cells, edited, root)


def test_a_live_session_follows_what_it_runs_again(root: Path) -> None:
    folder = root / "live"
    folder.mkdir(exist_ok=True)
    cells = _cells(77)
    order = [*range(len(cells)), 5, 7, 9, 6, 5, 8, 12, 5]
    run = Session(folder, "replay", MemoryStore())
    for i in order:
        run.execute(cells[i])
    check(run.end(), run_plainly([cells[i] for i in order], folder), "live")
