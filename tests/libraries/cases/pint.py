"""pint."""

from __future__ import annotations

from tests.libraries.case import Case, Library

_OWN = "it belongs to a registry of its own"
_APP = "pint.get_application_registry()"

LIBRARY = Library(
    "pint",
    requires=("pint", "numpy"),
    prelude="import numpy as np, pint",
    cases=(
        Case(
            "UnitRegistry",
            "x = pint.UnitRegistry()",
            "print(x.Quantity(1, 'm').to('km'))",
            recomputed="it holds weak references",
        ),
        Case(
            "Quantity",
            "u = pint.UnitRegistry(); x = 3 * u.meter",
            "print(x, x + 2 * u.meter)",
            "x.ito('km')",
            recomputed=_OWN,
        ),
        Case("Unit", "u = pint.UnitRegistry(); x = u.meter", "print(x, 2 * x)", recomputed=_OWN),
        Case(
            "Quantity of the application registry",
            f"x = {_APP}.Quantity(3, 'm')",
            f"print(x, x + {_APP}.Quantity(2, 'm'))",
            "x.ito('km')",
            varies="it holds the hash of a text, which differs from process to process",
        ),
        Case(
            "Quantity with an array",
            f"x = {_APP}.Quantity(np.arange(3.0), 'm')",
            "print(x)",
            "x.magnitude[0] = 3",
            varies="it holds the hash of a text, which differs from process to process",
        ),
        Case(
            "Unit of the application registry",
            f"x = {_APP}.Unit('m')",
            "print(x)",
            varies="it holds the hash of a text, which differs from process to process",
        ),
        Case("UnitsContainer", "x = pint.util.UnitsContainer(meter=1)", "print(dict(x))"),
    ),
)
