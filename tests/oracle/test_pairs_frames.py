"""Notebooks and what users make of them: frames and arrays over several cells."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle.pairs import Delete, Insert, Swap, Write
from tests.oracle.pairs_of_files import Pair, check_pair

pytestmark = pytest.mark.filterwarnings("ignore")

SALES = """\
date,region,product,qty,price
2024-01-03,north,apple,10,1.5
2024-01-10,south,pear,4,2.0
2024-02-01,north,pear,7,2.1
2024-02-14,south,apple,12,1.4
2024-03-05,north,apple,3,1.6
2024-03-20,east,fig,9,3.0
"""

PAIRS = [
    Pair(
        "pandas groupby value",
        """
import pandas as pd
import numpy as np
--
df = pd.read_csv('sales.csv', parse_dates=['date'])
df.head()
--
df['total'] = df.qty * df.price
--
by_region = df.groupby('region').total.sum()
by_region
--
threshold = 15
--
big = by_region[by_region > threshold]
print(big)
--
monthly = df.set_index('date').resample('MS').total.sum()
monthly
--
print('regions:', len(by_region))
""",
        [Write(4, "threshold = 20")],
        runs=[4, 5],
        files={"sales.csv": SALES},
        needs=("numpy", "pandas"),
    ),
    Pair(
        "pandas column formula",
        """
import pandas as pd
--
df = pd.read_csv('sales.csv', parse_dates=['date'])
--
df['total'] = df.qty * df.price
--
df.groupby('region').qty.sum()
--
df.groupby('region').total.sum()
--
n = len(df)
print(n)
--
top = df.nlargest(2, 'total')
top
--
df.describe()
""",
        [Write(2, "df['total'] = df.qty * df.price * 1.2")],
        runs=[2, 3, 4, 5, 6, 7],
        files={"sales.csv": SALES},
        needs=("pandas",),
    ),
    Pair(
        "pandas undo of inplace drop",
        """
import pandas as pd
--
df = pd.DataFrame({'a': range(5), 'b': list('vwxyz'), 'c': [1.5, None, 3, None, 5]})
--
df.dropna(inplace=True)
--
df.reset_index(drop=True, inplace=True)
--
print(df.shape)
--
df['a'].sum()
--
df.to_dict('records')
""",
        [Delete(2)],
        runs=[2, 3, 4, 5],
        needs=("pandas",),
    ),
    Pair(
        "pandas option_context",
        """
import pandas as pd
--
df = pd.DataFrame({'x': range(10)})
--
with pd.option_context('display.max_rows', 4):
    print(df)
--
df['y'] = df.x ** 2
--
df.y.tail(2)
--
print(df.y.max())
""",
        [Swap(2, "4", "6")],
        runs=[2],
        needs=("pandas",),
    ),
    Pair(
        "pandas pivot with fillna edit",
        """
import pandas as pd
--
raw = pd.DataFrame({'d': ['m','t','m','w'], 'k': ['a','a','b','b'], 'v': [1,2,3,4]})
--
FILL = 0
--
pt = raw.pivot_table(index='d', columns='k', values='v').fillna(FILL)
pt
--
pt.sum()
--
raw.v.cumsum()
--
shares = pt.div(pt.sum(axis=1), axis=0)
shares
--
print(raw.shape)
""",
        [Write(2, "FILL = 1")],
        runs=[2, 3, 4, 6],
        needs=("pandas",),
    ),
    Pair(
        "pandas view of column changed later",
        """
import pandas as pd
--
df = pd.DataFrame({'a': [1,2,3]})
--
col = df['a']
--
df.loc[0, 'a'] = 100
--
print(col.tolist())
--
print(df.a.tolist())
--
b = col * 2
b
""",
        [Swap(3, "100", "200")],
        runs=[3, 5],
        needs=("pandas",),
    ),
    Pair(
        "pandas apply with user function comment",
        """
import pandas as pd
--
def clean(s):
    return s.strip().lower()
--
names = pd.Series([' Ann', 'BOB ', 'Cid'])
--
cleaned = names.apply(clean)
cleaned
--
lens = cleaned.str.len()
--
print(lens.sum())
""",
        [Write(1, "def clean(s):\n    # strips and lowers\n    return s.strip().lower()  # ok")],
        runs=[],
        needs=("pandas",),
    ),
    Pair(
        "pandas apply with user function edit no effect",
        """
import pandas as pd
--
def clean(s):
    return s.strip().lower()
--
names = pd.Series([' Ann', 'BOB ', 'Cid'])
--
cleaned = names.apply(clean)
cleaned
--
lens = cleaned.str.len()
--
print(lens.sum())
""",
        [Write(1, "def clean(s):\n    return s.lower().strip()")],
        runs=[1, 3],
        needs=("pandas",),
    ),
    Pair(
        "pandas categorical and rename",
        """
import pandas as pd
--
df = pd.DataFrame({'size': ['s','l','m','s'], 'n': [1,2,3,4]})
--
order = ['s','m','l']
--
df['size'] = pd.Categorical(df['size'], categories=order, ordered=True)
--
df.sort_values('size')
--
df.groupby('size', observed=False).n.sum()
--
df['size'].cat.codes.tolist()
--
df.n.sum()
""",
        [Write(2, "order = ['l','m','s']")],
        runs=[2, 3, 4, 5, 6, 7],
        needs=("pandas",),
    ),
    Pair(
        "pandas time zones",
        """
import pandas as pd
from zoneinfo import ZoneInfo
--
idx = pd.date_range('2024-03-30', periods=4, freq='12h', tz='UTC')
--
s = pd.Series(range(4), index=idx)
--
tz = ZoneInfo('Europe/Zurich')
--
loc = s.tz_convert(tz)
loc
--
daily = loc.resample('D').sum()
daily
--
s.sum()
""",
        [Swap(3, "Europe/Zurich", "America/New_York")],
        runs=[3, 4, 5],
        needs=("pandas",),
    ),
    Pair(
        "pandas string replace in place via loc on slice",
        """
import pandas as pd
--
df = pd.DataFrame({'k': ['a','b','c'], 'v': [1,2,3]})
sub = df[df.v > 1].copy()
--
sub.loc[sub.k == 'b', 'v'] = 99
--
df
--
sub
--
out = pd.concat([df, sub], ignore_index=True)
--
out.v.sum()
--
df.v.sum()
""",
        [Swap(2, "99", "98")],
        runs=[2, 4, 5, 6],
        needs=("pandas",),
    ),
    Pair(
        "numpy view written",
        """
import numpy as np
--
a = np.arange(12).reshape(3, 4)
--
row = a[1]
--
row[:] = -1
--
print(a.sum())
--
mask = a < 0
--
a[mask] = 0
--
a
--
row.base is not None, row.tolist()
""",
        [Swap(3, "-1", "-2")],
        runs=[3, 4, 5, 6],
        needs=("numpy",),
    ),
    Pair(
        "numpy seed",
        """
import numpy as np
--
rng = np.random.default_rng(0)
--
x = rng.normal(size=5)
--
y = rng.uniform(size=3)
--
print(x.round(3))
--
print(y.round(3))
--
z = rng.integers(10)
z
""",
        [Swap(2, "5", "6")],
        runs=[2, 3, 4, 5, 6],
        needs=("numpy",),
    ),
    Pair(
        "numpy insert draw",
        """
import numpy as np
--
np.random.seed(3)
--
a = np.random.rand(3)
--
b = np.random.rand(2)
--
print(a.round(3))
--
print(b.round(3))
--
c = a.sum()
print(round(c, 3))
""",
        [Insert(3, "tmp = np.random.rand()")],
        runs=[3, 4, 6],
        needs=("numpy",),
    ),
    Pair(
        "numpy out argument",
        """
import numpy as np
--
buf = np.zeros(4)
--
np.add([1,2,3,4], 1, out=buf)
--
total = buf.sum()
--
np.multiply(buf, 2, out=buf)
print(buf)
--
total, buf.sum()
--
hist, edges = np.histogram(buf, bins=3)
hist
--
edges
""",
        [Swap(4, "2", "3")],
        runs=[4, 5, 6, 7],
        needs=("numpy",),
    ),
    Pair(
        "polars expr in variable",
        """
import polars as pl
--
expr = pl.col('v').mean()
--
df = pl.DataFrame({'v': [1., 2., 6.]})
--
df.select(expr)
--
df = df.with_columns(n=pl.lit('k'))
--
df.columns
--
print(df.select(expr * 2).item())
""",
        [Write(1, "expr = pl.col('v').max()")],
        runs=[1, 3, 6],
        needs=("polars",),
    ),
    Pair(
        "pyarrow table",
        """
import pyarrow as pa, pyarrow.compute as pc
--
t = pa.table({'a': [1, 2, 3], 's': ['x', 'y', 'x']})
--
f = t.filter(pc.equal(t['s'], 'x'))
--
print(f.num_rows)
--
t2 = t.append_column('b', pc.multiply(t['a'], 2))
--
t2.schema
--
print(pc.sum(t2['b']))
--
f.to_pylist()
""",
        [Swap(2, "'x'", "'y'")],
        runs=[2, 3, 7],
        needs=("pyarrow",),
    ),
    Pair(
        "dataclass with arrays",
        """
from dataclasses import dataclass, field, replace
import numpy as np, pandas as pd
--
@dataclass
class Run:
    name: str
    data: np.ndarray
    meta: dict = field(default_factory=dict)
    def mean(self): return float(self.data.mean())
--
r = Run('a', np.arange(4.))
--
r.meta['who'] = 'me'
--
print(r.mean())
--
r2 = replace(r, name='b')
--
r2.data is r.data, r2.name
--
r.data[0] = 8
--
print(r2.mean())
""",
        [Swap(7, "8", "12")],
        runs=[7, 8],
        needs=("numpy", "pandas"),
    ),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_replay_is_a_full_run_and_runs_what_has_to(pair: Pair, root: Path) -> None:
    check_pair(pair, root)
