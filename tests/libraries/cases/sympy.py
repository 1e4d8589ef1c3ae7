"""SymPy."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "SymPy",
    requires=("sympy",),
    prelude="import sympy; a = sympy.Symbol('a')",
    cases=(
        Case(
            "Symbol",
            "x = sympy.Symbol('x')",
            "print(x, x == sympy.Symbol('x'), hash(x) == hash(sympy.Symbol('x')))",
        ),
        Case(
            "Symbol with assumptions",
            "x = sympy.Symbol('x', positive=True)",
            "print(x, x.is_positive, sympy.sqrt(x**2))",
        ),
        Case(
            "Expr",
            "x = sympy.sin(a)**2 + sympy.Integral(a, a)",
            "print(x, x.doit(), sympy.simplify(x.diff(a)))",
        ),
        Case("Eq", "x = sympy.Eq(a**2, 4)", "print(x, sympy.solve(x))"),
        Case("Matrix", "x = sympy.Matrix([[1, a], [3, 4]])", "print(x, x.det())", "x[0, 0] = 9"),
        Case("ImmutableMatrix", "x = sympy.ImmutableMatrix([[1, 2], [3, 4]])", "print(x, x.det())"),
        Case("Poly", "x = sympy.Poly(a**2 + 1)", "print(x, x.degree())"),
        Case("Rational", "x = sympy.Rational(1, 3)", "print(x, x * 3)"),
        Case("Piecewise", "x = sympy.Piecewise((a, a > 0), (0, True))", "print(x, x.subs(a, 2))"),
        Case("FiniteSet", "x = sympy.FiniteSet(1, 2)", "print(x, 1 in x)"),
        Case(
            "Function",
            "f = sympy.Function('f'); x = f(a)",
            "print(x)",
            recomputed="its class is made at run time",
        ),
        Case(
            "lambdify()",
            "x = sympy.lambdify(a, a + 1)",
            "print(x(1))",
            recomputed="it runs in a namespace of its own",
        ),
    ),
)
