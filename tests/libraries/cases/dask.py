"""Dask."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "Dask",
    requires=("dask", "dask.array", "dask.dataframe"),
    prelude="import numpy as np, pandas as pd, dask, dask.array as da, dask.bag as db",
    cases=(
        Case(
            "Array",
            "x = da.ones((4, 4), chunks=2) + 1",
            "print(x.sum().compute(scheduler='sync'), x.chunks)",
            "x[0, 0] = 9",
        ),
        Case(
            "Array over an array",
            "a = np.arange(4); x = da.from_array(a, chunks=2)",
            "print(x.compute(scheduler='sync'))",
            "a[0] = 9; x = da.from_array(a, chunks=2)",
            fills="it fills caches",
        ),
        Case(
            "Bag",
            "x = db.from_sequence([1, 2, 3], npartitions=2).map(str)",
            "print(x.compute(scheduler='sync'))",
        ),
        Case(
            "Delayed",
            "x = dask.delayed(sum)([1, 2])",
            "print(x.compute(scheduler='sync'))",
            fills="it fills caches",
            varies="it has a random name",
        ),
        Case(
            "Delayed function of the notebook",
            "@dask.delayed\ndef f(v): return v + k\nk = 1; x = f(2)",
            "print(x.compute(scheduler='sync'))",
            fills="it fills caches",
            varies="it has a random name",
        ),
        Case(
            "DataFrame",
            "import dask.dataframe as dd\nx = dd.from_pandas(pd.DataFrame({'a': [1, 2, 3]}), npartitions=2)",
            "print(x.a.sum().compute(scheduler='sync'))",
            "x['b'] = x.a + 1\nx = x.loc[1:]",
            fills="it fills caches",
        ),
        Case(
            "random Array",
            "x = da.random.default_rng(1).random(4, chunks=2)",
            "print(x.compute(scheduler='sync').round(5))",
            fills="it fills caches",
        ),
    ),
)
