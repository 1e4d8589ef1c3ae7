"""h5py."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "h5py",
    requires=("h5py",),
    prelude="import h5py, numpy as np",
    cases=(
        Case(
            "File, being read",
            "x = h5py.File('a.h5', 'r')",
            "print(x['d'][:])",
            recomputed="an open file",
            prepare="with h5py.File('a.h5', 'w') as f: f['d'] = np.arange(3)",
        ),
        Case(
            "File, being written",
            "x = h5py.File('b.h5', 'w'); x['d'] = np.arange(3)",
            "print(x['d'][:])",
            "x['d'][0] = 7",
            recomputed="an open file",
        ),
        Case(
            "Dataset",
            "f = h5py.File('c.h5', 'w'); x = f.create_dataset('d', data=np.arange(3))",
            "print(x[:])",
            "x[0] = 7",
            recomputed="an open file",
        ),
        Case(
            "Group",
            "f = h5py.File('d.h5', 'w'); x = f.create_group('g')",
            "print(list(x))",
            "x['d'] = 1",
            recomputed="an open file",
        ),
        Case(
            "File, closed",
            "with h5py.File('e.h5', 'w') as x: x['d'] = np.arange(3)",
            "print(bool(x), x)",
            recomputed="a handle of a file",
        ),
        Case("data type", "x = h5py.string_dtype()", "print(x, h5py.check_string_dtype(x))"),
    ),
)
