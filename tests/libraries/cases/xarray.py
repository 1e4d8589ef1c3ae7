"""xarray."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "xarray",
    requires=("xarray",),
    prelude="import numpy as np, pandas as pd, xarray as xr",
    cases=(
        Case(
            "DataArray",
            "x = xr.DataArray(np.arange(4.0).reshape(2, 2), dims=('a', 'b'), coords={'a': [1, 2]})",
            "print(x)",
            "x[0, 0] = 9",
        ),
        Case(
            "DataArray with times and attributes",
            "x = xr.DataArray([1, 2], coords={'t': pd.date_range('2020', periods=2)}, dims='t', attrs={'u': 'm'})",
            "print(x, x.attrs)",
            "x.attrs['u'] = 'km'",
        ),
        Case(
            "DataArray, view",
            "a = xr.DataArray(np.arange(4), dims='a'); x = a[1:3]",
            "print(x.values, a.values)",
            "a[2] = 9",
        ),
        Case(
            "Dataset",
            "x = xr.Dataset({'v': ('a', [1, 2])}, coords={'a': [5, 6]})",
            "print(x)",
            "x['w'] = x.v * 2",
        ),
        Case(
            "Dataset over an array",
            "a = np.zeros(2); x = xr.Dataset({'v': ('a', a)})",
            "print(x.v.values)",
            "a[0] = 5",
        ),
        Case(
            "Variable",
            "x = xr.Variable('a', [1, 2])",
            "print(x)",
            "x[0] = 5",
            fills="empty tables of attributes are made when asked for",
        ),
        Case(
            "DataTree",
            "x = xr.DataTree.from_dict({'/': xr.Dataset({'v': 1}), '/c': xr.Dataset({'w': 2})})",
            "print(x['c/w'].item(), x.children.keys())",
            "x['c'].dataset = xr.Dataset({'w': 5})",
        ),
        Case(
            "GroupBy",
            "x = xr.DataArray([1, 2, 3], coords={'k': ('a', [0, 0, 1])}, dims='a').groupby('k')",
            "print(x.sum().values)",
            fills="it fills caches",
        ),
        Case(
            "Dataset of chunks",
            "import dask.array\nx = xr.Dataset({'v': ('a', np.arange(4))}).chunk({'a': 2})",
            "print(x.v.sum().values, x.chunks, list(x))",
            "x['w'] = x.v + 1",
            fills="it fills caches",
        ),
        Case(
            "Dataset of a file",
            "x = xr.open_dataset('x.nc', engine='netcdf4')",
            "print(x.v.values, list(x))",
            "x['w'] = x.v + 1",
            prepare="xr.Dataset({'v': ('a', [1, 2])}).to_netcdf('x.nc', engine='netcdf4')",
            fills="values are read when asked for",
            varies="it holds an open file",
        ),
    ),
)
