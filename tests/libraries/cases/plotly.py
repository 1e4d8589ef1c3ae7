"""Plotly."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "Plotly",
    requires=("plotly",),
    prelude="import plotly.graph_objects as go",
    cases=(
        Case(
            "Figure",
            "x = go.Figure(go.Scatter(x=[1, 2], y=[3, 4]))",
            "print(x.to_json(), x.layout.title.text)",
            "x.update_layout(title='t')",
            varies="it holds sets of names, ordered by hash",
            fills="parts are made when asked for",
        ),
        Case(
            "Figure, a trace added",
            "x = go.Figure()",
            "print(len(x.data))",
            "x.add_bar(y=[1])",
            varies="it holds sets of names, ordered by hash",
        ),
        Case(
            "Figure of express",
            "import plotly.express as px, pandas as pd\nx = px.line(pd.DataFrame({'a': [1, 2], 'b': [2, 3]}), x='a', y='b')",
            "print(x.to_json())",
            "x.data[0].name = 'n'",
            varies="it holds sets of names, ordered by hash",
        ),
        Case(
            "trace",
            "x = go.Scatter(x=[1, 2], y=[3, 4])",
            "print(x.to_plotly_json())",
            "x.name = 'n'",
        ),
        Case(
            "trace of a figure",
            "f = go.Figure(go.Scatter(y=[3, 4])); x = f.data[0]",
            "print(x.name, f.data[0] is x)",
            "x.name = 'n'",
            varies="it holds sets of names, ordered by hash",
        ),
        Case(
            "Layout",
            "x = go.Layout(title='t')",
            "print(x.title.text)",
            "x.title.text = 'u'",
            varies="it holds sets of names, ordered by hash",
        ),
        Case(
            "subplots",
            "from plotly.subplots import make_subplots\nx = make_subplots(2, 1)",
            "print(len(x.data), x._grid_ref is not None)",
            "x.add_scatter(y=[1], row=2, col=1)",
            varies="it holds sets of names, ordered by hash",
        ),
    ),
)
