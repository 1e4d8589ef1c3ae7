"""Edits of notebooks that draw random numbers.

Each run starts its generators elsewhere. A replay goes on as the audited run started, so it is
held against a run without NBRewind that starts where that did.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nbrewind.testing.memory_store import MemoryStore
from nbrewind.testing.oracle import check, run_plainly, run_with_engine
from tests.oracle.pairs import Delete, Insert, Move, Notebook, Pair, Swap, pairs

pytest.importorskip("numpy")

NOTEBOOKS = (
    Notebook(
        "seeded random",
        """
        import random
        ---
        random.seed(42)
        ---
        a = random.random()
        a
        ---
        b = [random.randint(1, 6) for _ in range(5)]
        print(b)
        ---
        words = ["x", "y", "z"]
        pick = random.choice(words)
        pick
        ---
        random.shuffle(words)
        words
        ---
        print(f"{a:.3f}", sum(b))
        ---
        c = random.gauss(0, 1)
        round(c, 5)
        """,
        (
            ("seed", Swap(1, "42", "43"), [1, 2, 3, 4, 5, 6, 7]),
            ("more dice", Swap(3, "range(5)", "range(6)"), [3, 4, 5, 6, 7]),
            ("dice text only", Swap(3, "print(b)", 'print("dice", b)'), [3]),
            ("formatting only", Swap(6, ".3f", ".4f"), [6]),
        ),
    ),
    Notebook(
        "unseeded random",
        """
        import random
        ---
        a = random.random()
        a
        ---
        b = random.sample(range(100), 5)
        print(b)
        ---
        c = sorted(b)
        c
        ---
        d = random.uniform(1, 2)
        d
        ---
        deck = list(range(10))
        random.shuffle(deck)
        deck
        ---
        print(deck[:3], d)
        """,
        (
            ("sample of 6", Swap(2, "5)", "6)"), [2, 3, 4, 5, 6]),
            ("show only", Swap(3, "c = sorted(b)\nc", "c = sorted(b)\nc[0]"), [3]),
            ("insert draw at end", Insert(7, "random.random()"), [7]),
            ("seed inserted late", Insert(4, "random.seed(0)"), [4, 5, 6, 7]),
        ),
    ),
    Notebook(
        "Random instance",
        """
        import random
        rng = random.Random(7)
        ---
        x = [rng.random() for _ in range(3)]
        x
        ---
        other = random.Random(8)
        y = other.choices("abc", k=4)
        y
        ---
        z = rng.randrange(1000)
        z
        ---
        state = rng.getstate()
        ---
        w = rng.random()
        w
        ---
        rng.setstate(state)
        rng.random() == w
        ---
        other.random()
        ---
        print(z, "".join(y))
        """,
        (
            ("move other", Move(7, 3), []),
            ("seed rng", Swap(0, "7", "9"), [0, 1, 3, 4, 5, 6, 8]),
            ("other k", Swap(2, "k=4", "k=5"), [2, 7, 8]),
            ("x count", Swap(1, "range(3)", "range(2)"), [1, 3, 4, 5, 6, 8]),
        ),
    ),
    Notebook(
        "random strings",
        """
        import random, string
        ---
        random.seed("abc")
        ---
        def word(n):
            return "".join(random.choices(string.ascii_lowercase, k=n))
        ---
        names = [word(4) for _ in range(3)]
        names
        ---
        ages = {n: random.randint(20, 60) for n in names}
        ages
        ---
        oldest = max(ages, key=ages.get)
        oldest
        ---
        word(6)
        ---
        print(len(names), min(ages.values()) >= 20)
        """,
        (
            ("move print", Move(7, 5), []),
            ("word upper", Swap(2, "ascii_lowercase", "ascii_uppercase"), [2, 3, 4, 5, 6, 7]),
            ("order only", Swap(5, "max", "min"), [5]),
        ),
    ),
    Notebook(
        "numpy legacy",
        """
        import numpy as np
        ---
        np.random.seed(0)
        ---
        data = np.random.randn(5)
        data.round(3)
        ---
        idx = np.random.permutation(5)
        idx
        ---
        data[idx].round(2)
        ---
        noise = np.random.normal(0, 0.1, size=5)
        ---
        (data + noise).sum().round(4)
        ---
        arr = np.arange(6)
        np.random.shuffle(arr)
        arr
        ---
        print(arr.sum(), data.shape)
        ---
        np.random.choice(["a", "b", "c"], 3, p=[0.2, 0.3, 0.5])
        """,
        (
            ("seed", Swap(1, "0", "1"), [1, 2, 3, 4, 5, 6, 7, 8, 9]),
            ("noise scale", Swap(5, "0.1", "0.2"), [5, 6]),
            ("noise size 1", Swap(5, "size=5", "size=1"), [5, 6, 7, 8, 9]),
            ("probabilities", Swap(9, "0.2, 0.3", "0.3, 0.2"), [9]),
        ),
    ),
    Notebook(
        "numpy unseeded",
        """
        import numpy as np
        ---
        a = np.random.rand(3)
        a
        ---
        b = np.random.randint(0, 10, 4)
        b
        ---
        m = a.mean()
        m
        ---
        c = np.random.rand()
        c
        ---
        print(b.max())
        ---
        k = 2 ** 10
        k
        """,
        (
            ("b high", Swap(2, "10, 4", "10, 5"), [2, 4, 5]),
            ("append draw", Insert(7, "np.random.rand(2)"), [7]),
            ("late seed", Insert(4, "np.random.seed(3)"), [4, 5]),
            ("k", Swap(6, "10", "11"), [6]),
        ),
    ),
    Notebook(
        "default_rng seeded",
        """
        import numpy as np
        rng = np.random.default_rng(123)
        ---
        x = rng.normal(size=4)
        x
        ---
        y = rng.integers(0, 100, 3)
        y
        ---
        def simulate(rng, n):
            return rng.random(n).mean()
        ---
        simulate(rng, 10)
        ---
        simulate(np.random.default_rng(5), 10)
        ---
        x.round(2).tolist(), int(y.sum())
        ---
        rng.shuffle(x)
        x
        ---
        rng.bit_generator.state["bit_generator"]
        """,
        (
            ("seed", Swap(0, "123", "124"), [0, 1, 2, 4, 6, 7, 8]),
            ("n", Swap(4, "10", "11"), [4, 7, 8]),
            ("fresh rng seed", Swap(5, "5)", "6)"), [5]),
            ("simulate max", Swap(3, "mean()", "max()"), [3, 4, 5]),
        ),
    ),
    Notebook(
        "late and twice",
        """
        import random
        import numpy as np
        ---
        r0 = random.random()
        ---
        random.seed(5)
        np.random.seed(5)
        ---
        r1 = random.random(); n1 = np.random.rand()
        r1, n1
        ---
        random.seed(5)
        ---
        random.random() == r1
        ---
        n2 = np.random.rand()
        n2
        ---
        np.random.seed(6)
        np.random.rand() , n2
        ---
        r2 = random.expovariate(1)
        r2
        """,
        (
            ("second seed", Swap(4, "5", "6"), [4, 5, 8]),
            ("np seed in first", Swap(2, "np.random.seed(5)", "np.random.seed(7)"), [2, 3, 6, 7]),
            ("delete second seed", Delete(4), [4, 7]),
            ("last np seed", Swap(7, "6)", "8)"), [7]),
        ),
    ),
    Notebook(
        "sim class",
        """
        import random
        ---
        class Walker:
            def __init__(self, seed):
                self.rng = random.Random(seed)
                self.pos = 0
            def step(self, n=1):
                for _ in range(n):
                    self.pos += self.rng.choice((-1, 1))
                return self.pos
        ---
        w = Walker(1)
        v = Walker(2)
        ---
        w.step(10)
        ---
        v.step(5)
        ---
        path = [w.step() for _ in range(4)]
        path
        ---
        w.pos - v.pos
        ---
        clone_state = w.rng.getstate()
        ---
        w.step(3)
        ---
        v.step(1), max(path)
        """,
        (
            ("w steps", Swap(3, "10", "12"), [3, 5, 6, 7, 8, 9]),
            ("v seed", Swap(2, "Walker(2)", "Walker(3)"), [2, 4, 6, 9]),
            ("path", Swap(5, "range(4)", "range(5)"), [5, 6, 7, 8, 9]),
            ("choice", Swap(1, "(-1, 1)", "(-1, 0, 1)"), [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ),
    ),
    Notebook(
        "train loop",
        """
        import numpy as np
        np.random.seed(42)
        ---
        X = np.random.randn(20, 3)
        true_w = np.array([1.0, -2.0, 0.5])
        y = X @ true_w + 0.1 * np.random.randn(20)
        ---
        lr, epochs = 0.1, 5
        ---
        w = np.zeros(3)
        ---
        for epoch in range(epochs):
            for i in np.random.permutation(len(X))[:10]:
                grad = 2 * (X[i] @ w - y[i]) * X[i]
                w -= lr * grad
        w.round(3)
        ---
        mse = float(((X @ w - y) ** 2).mean())
        round(mse, 4)
        ---
        np.random.rand(1).round(4)
        ---
        print("true", true_w)
        """,
        (
            ("lr", Swap(2, "0.1", "0.05"), [2, 4, 5]),
            ("epochs", Swap(2, "5", "6"), [2, 4, 5, 6]),
            ("noise", Swap(1, "0.1 *", "0.2 *"), [1, 4, 5]),
            ("w init", Swap(3, "np.zeros(3)", "np.ones(3)"), [3, 4, 5]),
        ),
    ),
    Notebook(
        "seeds from names",
        """
        import random
        SEED = 3
        ---
        def show(n):
            print([random.randint(1, 9) for _ in range(n)])
        ---
        random.seed(5)
        ---
        state = random.getstate()
        ---
        show(3)
        random.seed(SEED)
        c = random.random()
        c
        ---
        random.seed(SEED + 1)
        d = random.random()
        d
        ---
        random.setstate(state)
        random.random()
        """,
        (
            ("what is shown before seeding", Swap(2, "5", "6"), [2, 3, 4, 6]),
            ("the seed by name", Swap(0, "3", "4"), [0, 4, 5]),
            ("a draw before all seeds", Insert(2, "random.random()"), [2]),
            ("a draw before a seed", Insert(5, "random.random()"), [5]),
            ("a draw before a state is set", Insert(6, "random.random()"), [6]),
            ("one function for all", Swap(1, "randint(1, 9)", "randint(1, 8)"), [1, 4]),
        ),
    ),
)


AUDIT, FIRST, SECOND, UNDONE = range(1, 5)
"""Where the generators of each run start."""


@pytest.mark.parametrize("pair", pairs(NOTEBOOKS), ids=lambda pair: pair.name)
def test_a_replay_goes_on_as_the_audited_run_started(pair: Pair, root: Path) -> None:
    store = MemoryStore()
    edited, original = (run_plainly(c, root, seed=AUDIT) for c in (pair.after, pair.before))
    check(run_with_engine(pair.before, "audit", store, root, seed=AUDIT), original, "audit")
    replayed = run_with_engine(pair.after, "replay", store, root, seed=FIRST)
    check(replayed, edited, "replay")
    assert replayed.executed == pair.executed
    again = run_with_engine(pair.after, "replay", store, root, seed=SECOND)
    check(again, edited, "second replay")
    undone = run_with_engine(pair.before, "replay", store, root, seed=UNDONE)
    check(undone, original, "undone")
    assert again.executed == undone.executed == []
