"""pandas."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "pandas",
    requires=("pandas",),
    prelude="import numpy as np, pandas as pd",
    fast=True,
    cases=(
        Case(
            "DataFrame",
            "x = pd.DataFrame({'a': [1, 2, 3], 's': ['u', None, 'w'], 'f': [1.5, np.nan, 3]})",
            "print(x, x.dtypes)",
            "x.loc[1, 'a'] = 9",
        ),
        Case(
            "DataFrame, a column added",
            "x = pd.DataFrame({'a': [1, 2]})",
            "print(x)",
            "x['b'] = x.a * 2",
        ),
        Case(
            "DataFrame, a column of another",
            "d = pd.DataFrame({'a': [1, 2], 'b': [3, 4]}); x = d['a']",
            "print(x.tolist(), d)",
            "x.iloc[0] = 9",
        ),
        Case(
            "DataFrame over an array",
            "a = np.zeros((2, 2)); x = pd.DataFrame(a, copy=False)",
            "print(x)",
            "a[0, 0] = 5",
        ),
        Case(
            "DataFrame with objects",
            "x = pd.DataFrame({'o': [[1], {'k': 2}, None]}, dtype=object)",
            "print(x)",
            "x['o'][0].append(2)",
        ),
        Case(
            "DataFrame with attributes and flags",
            "x = pd.DataFrame({'a': [1]}); x.attrs['unit'] = 'm'; x.flags.allows_duplicate_labels = False",
            "print(x.attrs, x.flags)",
            "x.attrs['unit'] = 'km'",
        ),
        Case(
            "DataFrame with levels",
            "x = pd.DataFrame({('a', 1): [1], ('b', 2): [2]}, index=pd.MultiIndex.from_tuples([(0, 'z')], names=['n', 's']))",
            "print(x)",
            "x[('a', 1)] = 7",
        ),
        Case("Series", "x = pd.Series([1, 2], name='n')", "print(x)", "x[0] = 5"),
        Case("Series, index renamed", "x = pd.Series([1, 2])", "print(x)", "x.index.name = 'i'"),
        Case(
            "Series of text",
            "x = pd.Series(['a', 'b', None], dtype='string')",
            "print(x, x.dtype)",
            "x[0] = 'z'",
        ),
        Case(
            "Series of text in Python objects",
            "x = pd.Series(['a', 'b'], dtype=pd.StringDtype('python'))",
            "print(x, x.dtype)",
            "x[0] = 'z'",
        ),
        Case(
            "Series of categories",
            "x = pd.Series(pd.Categorical(list('abca'), ordered=True))",
            "print(x)",
            "x[0] = 'c'",
        ),
        Case(
            "Series of nullable numbers",
            "x = pd.Series([1, None], dtype='Int64')",
            "print(x)",
            "x[1] = 4",
        ),
        Case(
            "Series of dates with a zone",
            "x = pd.Series(pd.date_range('2020', periods=3, tz='Europe/Berlin'))",
            "print(x, x.dtype)",
            "x[0] += pd.Timedelta('1D')",
        ),
        Case(
            "Series over Arrow",
            "import pyarrow\nx = pd.Series([1, None, 3], dtype='int64[pyarrow]')",
            "print(x)",
            "x[1] = 4",
            requires=("pyarrow",),
        ),
        Case(
            "Series, sparse",
            "x = pd.Series(pd.arrays.SparseArray([0, 0, 1]))",
            "print(x, x.dtype)",
            "x.name = 'n'",
        ),
        Case(
            "Series of intervals",
            "x = pd.Series(pd.interval_range(0, 3))",
            "print(x)",
            "x[0] = x[1]",
        ),
        Case(
            "Series of periods",
            "x = pd.Series(pd.period_range('2020', periods=2))",
            "print(x)",
            "x[0] = x[1]",
        ),
        Case("Index", "x = pd.Index([3, 1, 2])", "print(x)", "x.name = 'n'"),
        Case(
            "Index of a frame",
            "d = pd.DataFrame({'a': [1, 2]}); x = d.index",
            "print(x is d.index, x)",
            "d.index.name = 'n'",
        ),
        Case(
            "MultiIndex",
            "x = pd.MultiIndex.from_product([[1, 2], ['a', 'b']])",
            "print(x)",
            "x.names = ['p', 'q']",
        ),
        Case("RangeIndex", "x = pd.RangeIndex(3)", "print(x)", "x.name = 'n'"),
        Case(
            "DatetimeIndex",
            "x = pd.date_range('2020', periods=3, freq='ME')",
            "print(x)",
            "x.name = 'n'",
        ),
        Case(
            "TimedeltaIndex", "x = pd.timedelta_range('1h', periods=3)", "print(x)", "x.name = 'n'"
        ),
        Case(
            "PeriodIndex",
            "x = pd.period_range('2020', periods=3, freq='Q')",
            "print(x)",
            "x.name = 'n'",
        ),
        Case("IntervalIndex", "x = pd.interval_range(0, 2)", "print(x)", "x.name = 'n'"),
        Case(
            "CategoricalIndex", "x = pd.CategoricalIndex(list('aba'))", "print(x)", "x.name = 'n'"
        ),
        Case("Categorical", "x = pd.Categorical(list('aba'))", "print(x)", "x[0] = 'b'"),
        Case("array of the extension kind", "x = pd.array([1, 2, None])", "print(x)", "x[0] = 7"),
        Case("Timestamp", "x = pd.Timestamp('2020-01-01', tz='UTC')", "print(repr(x))"),
        Case("Timedelta", "x = pd.Timedelta('1h')", "print(repr(x))"),
        Case("Period", "x = pd.Period('2020Q1')", "print(repr(x))"),
        Case("Interval", "x = pd.Interval(0, 1)", "print(repr(x))"),
        Case("NA", "x = pd.NA", "print(x is pd.NA)"),
        Case("NaT", "x = [pd.NaT]", "print(x[0] is pd.NaT)", "x[0] = 1"),
        Case("DateOffset", "x = pd.offsets.BusinessDay(2)", "print(pd.Timestamp('2020') + x)"),
        Case(
            "GroupBy",
            "d = pd.DataFrame({'k': list('aba'), 'v': [1, 2, 3]}); x = d.groupby('k')",
            "print(x.sum(), x.as_index)",
            "x.as_index = False",
        ),
        Case(
            "Rolling",
            "x = pd.Series([1, 2, 3]).rolling(2)",
            "print(x.sum().tolist())",
            "x.window = 3",
        ),
        Case(
            "Resampler",
            "x = pd.Series([1, 2, 3], pd.date_range('2020', periods=3)).resample('2D')",
            "print(x.sum().tolist())",
            "x.obj.iloc[0] = 7",
        ),
        Case(
            "Styler",
            "x = pd.DataFrame({'a': [1]}).style",
            "print('<caption>' in x.to_html())",
            "x.set_caption('c')",
            varies="it has a random identifier",
        ),
        Case(
            "ExcelFile",
            "x = pd.ExcelFile('b.xlsx')",
            "print(x.sheet_names)",
            recomputed="an open file",
            prepare="import openpyxl\npd.DataFrame({'a': [1]}).to_excel('b.xlsx')",
            requires=("openpyxl",),
        ),
        Case("Grouper", "x = pd.Grouper(key='a', freq='D')", "print(x.key, x.freq)", "x.key = 'b'"),
    ),
)
