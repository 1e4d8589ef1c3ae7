"""Bokeh."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "Bokeh",
    requires=("bokeh",),
    prelude="from bokeh.plotting import figure\nfrom bokeh.models import ColumnDataSource, Range1d",
    cases=(
        Case(
            "figure",
            "x = figure(title='t'); r = x.line([1, 2], [3, 4])",
            "print(x.title.text, len(x.renderers))",
            "x.title.text = 'u'",
            recomputed="models are numbered within their process",
        ),
        Case(
            "ColumnDataSource",
            "x = ColumnDataSource({'a': [1, 2]})",
            "print(dict(x.data))",
            "x.data['a'] = [5, 6]",
            recomputed="models are numbered within their process",
        ),
        Case(
            "model",
            "x = Range1d(0, 1)",
            "print(x.start)",
            "x.start = 5",
            recomputed="models are numbered within their process",
        ),
        Case(
            "document",
            "from bokeh.document import Document\nx = Document(); x.add_root(Range1d(0, 1))",
            "print(len(x.roots), x.title)",
            "x.title = 't'",
            recomputed="models are numbered within their process",
        ),
    ),
)
