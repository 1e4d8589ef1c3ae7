"""NumPy."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "NumPy",
    requires=("numpy",),
    prelude="import numpy as np",
    fast=True,
    cases=(
        Case("ndarray", "x = np.arange(6.0).reshape(2, 3).copy()", "print(x)", "x[0, 1] = 9"),
        Case("ndarray, view", "a = np.arange(6.0); x = a[2:5]", "print(x, a)", "a[3] = 9"),
        Case("ndarray, reversed view", "a = np.arange(6); x = a[::-1]", "print(x)", "a[3] = 9"),
        Case(
            "ndarray, Fortran order",
            "x = np.asfortranarray(np.arange(6).reshape(2, 3))",
            "print(x, x.flags.f_contiguous)",
            "x[1, 1] = 7",
        ),
        Case("ndarray of objects", "x = np.array([1, None, 'a'], object)", "print(x)", "x[1] = 2"),
    ),
)
