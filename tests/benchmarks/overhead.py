"""What auditing adds to a notebook: `python tests/benchmarks/overhead.py [--quick]`."""

from __future__ import annotations

from kernels_side_by_side import Notebook, compare
from tables import keep, options, show

_FRAME = """
import numpy as np, pandas as pd
rng = np.random.default_rng(1)
n = {rows}
df = pd.DataFrame({{
    "station": rng.integers(0, 500, n),
    "kind": rng.integers(0, 8, n).astype("int8"),
    **{{f"v{{i}}": rng.normal(size=n) for i in range(10)}},
}})
"""

_ANALYSIS = (
    "df.shape",
    "df.head()",
    "df.dtypes",
    "df['v0'].describe()",
    "by_kind = df.groupby('kind')['v1'].mean()",
    "by_kind",
    "threshold = 2.0",
    "high = df[df['v0'] > threshold]",
    "len(high)",
    "high['v1'].mean()",
    "stations = df.groupby('station')['v2'].agg(['mean', 'std'])",
    "stations.head(10)",
    "df['ratio'] = df['v0'] / (df['v1'].abs() + 1)",
    "df['ratio'].describe()",
    "def scaled(column):\n    return (column - column.mean()) / column.std()",
    "z = scaled(df['v3'])",
    "float(z.max())",
    "best = stations['mean'].idxmax()",
    "best",
    "one = df[df['station'] == best]",
    "one[['v0', 'v1']].corr()",
    "counts = df['kind'].value_counts()",
    "counts.sort_index()",
    "summary = {'rows': len(df), 'high': len(high), 'best': int(best)}",
    "summary",
)


def arrays(change: str, *, quick: bool) -> Notebook:
    """40 arrays of 20 MB; each of 30 cells changes one in place."""
    count, length, cells = (8, 25_000, 6) if quick else (40, 2_500_000, 30)
    setup = ["import numpy as np\nrng = np.random.default_rng(0)"]
    setup += [f"a{i} = rng.random({length})" for i in range(count)]
    return Notebook(f"arrays, `{change}`", setup, [change.format(i=i) for i in range(cells)])


def frame(*, quick: bool) -> Notebook:
    """A frame of 500 MB and what people do with one."""
    return Notebook("frame", [_FRAME.format(rows=20_000 if quick else 5_600_000)], _ANALYSIS)


def trivial(*, quick: bool) -> Notebook:
    """Cells that do next to nothing."""
    return Notebook("trivial", [], [f"x{i % 20} = {i}" for i in range(20 if quick else 500)])


def main() -> None:
    """Compare the kernels on every notebook."""
    given = options("Overhead of auditing over plain ipykernel.")
    notebooks = [
        arrays("a{i} += 1", quick=given.quick),
        arrays("a{i}[1000] = 5", quick=given.quick),
        arrays("a{i} = np.sqrt(a{i} ** 2 + np.sin(a{i}) ** 2, out=a{i})", quick=given.quick),
        frame(quick=given.quick),
        trivial(quick=given.quick),
    ]
    rounds = given.rounds or (1 if given.quick else 5)
    rows = [compare(n, rounds).row() for n in notebooks if given.only in n.name]
    show(f"Auditing against plain ipykernel, medians of {rounds} pairs of runs", rows)
    keep(rows, given.json)


if __name__ == "__main__":
    main()
