"""Polars."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "Polars",
    requires=("polars",),
    prelude="import polars as pl",
    cases=(
        Case(
            "DataFrame",
            "x = pl.DataFrame({'a': [1, 2, None], 's': ['u', 'v', None]})",
            "print(x)",
            "x[0, 'a'] = 9",
        ),
        Case(
            "DataFrame, a column added",
            "x = pl.DataFrame({'a': [1, 2]})",
            "print(x)",
            "x.insert_column(1, pl.Series('b', [3, 4]))",
        ),
        Case(
            "DataFrame with nested columns",
            "x = pl.DataFrame({'l': [[1], [2, 3]], 'c': pl.Series(['a', 'b'], dtype=pl.Categorical), 's': [{'k': 1}, {'k': 2}]})",
            "print(x, x.schema)",
            "x.drop_in_place('l')",
        ),
        Case(
            "Series over an array",
            "import numpy as np; a = np.arange(3); x = pl.Series(a)",
            "print(x.to_list())",
            "a[0] = 9",
            recomputed="two libraries share one memory",
        ),
        Case(
            "array over a Series",
            "s = pl.Series([1, 2]); x = s.to_numpy()",
            "print(x, x.flags.writeable)",
        ),
        Case("Series", "x = pl.Series('n', [1, 2])", "print(x)", "x[0] = 5"),
        Case(
            "LazyFrame",
            "x = pl.LazyFrame({'a': [1, 2]}).filter(pl.col('a') > 1)",
            "print(x.collect())",
        ),
        Case("Expr", "x = (pl.col('a') + 1).alias('b')", "print(x)"),
        Case(
            "GroupBy",
            "x = pl.DataFrame({'k': [1, 1], 'v': [2, 3]}).group_by('k')",
            "print(x.agg(pl.col('v').sum()))",
        ),
        Case("Schema", "x = pl.Schema({'a': pl.Int8})", "print(x)", "x['b'] = pl.String()"),
        Case("data type", "x = pl.List(pl.Int8)", "print(x)"),
    ),
)
