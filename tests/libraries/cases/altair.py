"""Altair."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "Altair",
    requires=("altair",),
    prelude="import altair as alt, pandas as pd\nd = pd.DataFrame({'a': [1, 2], 'b': [3, 4]})",
    cases=(
        Case(
            "Chart",
            "x = alt.Chart(d).mark_point().encode(x='a', y='b')",
            "print(x.to_json())",
            "x.title = 't'",
        ),
        Case(
            "LayerChart",
            "x = alt.Chart(d).mark_point() + alt.Chart(d).mark_line()",
            "print(len(x.layer))",
            "x += alt.Chart(d).mark_bar()",
        ),
        Case(
            "HConcatChart",
            "x = alt.Chart(d).mark_point() | alt.Chart(d).mark_line()",
            "print(len(x.hconcat))",
            "x |= alt.Chart(d).mark_bar()",
        ),
        Case(
            "encoding",
            "x = alt.X('a:Q', title='t')",
            "print(x.to_dict())",
            "x.title = 'u'; x.shorthand = 'b:Q'",
        ),
        Case(
            "parameter",
            "x = alt.param(name='p', value=3)",
            "print(x.param.value)",
            "x.param.value = 5",
        ),
    ),
)
