"""Zarr."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "Zarr",
    requires=("zarr",),
    prelude="import zarr, numpy as np",
    cases=(
        Case(
            "Array in memory",
            "x = zarr.array(np.arange(6), chunks=(2,))",
            "print(x[:])",
            "x[0] = 9",
            varies="its place in memory is its name",
        ),
        Case(
            "Array in files",
            "x = zarr.open_array('a.zarr', mode='r+')",
            "print(x[:], x.shape)",
            prepare="x = zarr.create_array('a.zarr', overwrite=True, shape=(4,), chunks=(2,), dtype='i4'); x[:] = 1",
            fills="chunks are read when asked for",
        ),
        Case(
            "Group in memory",
            "x = zarr.group(store=zarr.storage.MemoryStore()); a = x.create_array('v', shape=(2,), dtype='i4')",
            "print(sorted(x.array_keys()))",
            "x.create_array('w', shape=(2,), dtype='i4')",
        ),
        Case(
            "MemoryStore",
            "x = zarr.storage.MemoryStore(); a = zarr.create_array(x, shape=(2,), dtype='i4')",
            "print(sorted(x._store_dict))",
            "x._store_dict.clear()",
        ),
    ),
)
