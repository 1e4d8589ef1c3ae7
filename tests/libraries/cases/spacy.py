"""spaCy."""

from __future__ import annotations

from tests.libraries.case import Case, Library

_STORE = "its table of texts has an order of its own"
_PART = "it is a view of a document"

LIBRARY = Library(
    "spaCy",
    requires=("spacy",),
    prelude="import spacy; from spacy.matcher import Matcher; from spacy.tokens import DocBin; nlp = spacy.blank('en')",
    cases=(
        Case(
            "Language, blank",
            "x = nlp",
            "print(x.pipe_names)",
            "done = x.add_pipe('sentencizer')",
            varies=_STORE,
        ),
        Case(
            "Doc",
            "x = nlp('hello world')",
            "print(x.text, [t.lemma_ for t in x])",
            "x[0].lemma_ = 'q'",
            varies=_STORE,
        ),
        Case(
            "Token",
            "d = nlp('hello world'); x = d[0]",
            "print(x.text, x.lemma_)",
            "x.lemma_ = 'q'",
            recomputed=_PART,
        ),
        Case(
            "Span",
            "d = nlp('hello world'); x = d[0:2]",
            "print(x.text, x.label_)",
            "x.label_ = 'Q'",
            recomputed=_PART,
        ),
        Case(
            "Matcher",
            "x = Matcher(nlp.vocab); x.add('A', [[{'LOWER': 'a'}]])",
            "print(len(x))",
            "x.add('B', [[{'LOWER': 'b'}]])",
            varies=_STORE,
        ),
        Case(
            "DocBin",
            "x = DocBin(docs=[nlp('a')]); del nlp",
            "print(len(x))",
            "x.add(spacy.blank('en')('b'))",
        ),
    ),
)
