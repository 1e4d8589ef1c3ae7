"""Numba."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "Numba",
    requires=("numba",),
    prelude="import numba, numpy as np",
    cases=(
        Case(
            "jitted function",
            "@numba.njit\ndef x(v): return v + 1",
            "print(x(2))",
        ),
        Case(
            "jitted function, a global",
            "k = 3\n@numba.njit\ndef x(v): return v + k",
            "print(x(2))",
            fills="compiling takes in the value of the global",
        ),
        Case(
            "jitted function, for given types",
            "@numba.njit('f8(f8)')\ndef x(v): return v + 1",
            "print(x(2), x.signatures)",
        ),
        Case(
            "vectorised function",
            "@numba.vectorize(['f8(f8)'])\ndef x(v): return v * 2",
            "print(x(np.ones(2)))",
            recomputed="it is pickled with a random identifier",
        ),
        Case(
            "typed List",
            "x = numba.typed.List([1, 2])",
            "print(list(x))",
            "x.append(3)",
            recomputed="state in compiled code",
        ),
        Case(
            "typed Dict",
            "x = numba.typed.Dict.empty(numba.int64, numba.float64); x[1] = 2.0",
            "print(dict(x))",
            "x[2] = 3.0",
            recomputed="state in compiled code",
        ),
        Case(
            "jitted class",
            "from numba.experimental import jitclass\n@jitclass([('a', numba.int64)])\nclass P:\n    def __init__(self, a): self.a = a\nx = P(3)",
            "print(x.a)",
            "x.a = 5",
            recomputed="state in compiled code",
        ),
        Case(
            "type",
            "x = numba.types.Array(numba.float64, 1, 'C')",
            "print(x)",
            recomputed="types are numbered",
        ),
    ),
)
