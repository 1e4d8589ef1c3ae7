"""NLTK."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "NLTK",
    requires=("nltk",),
    prelude="import nltk",
    cases=(
        Case(
            "FreqDist",
            "x = nltk.FreqDist('aabc')",
            "print(x.most_common(1), x.N())",
            "x['z'] += 1",
        ),
        Case(
            "ConditionalFreqDist",
            "x = nltk.ConditionalFreqDist([(1, 'a'), (2, 'b')])",
            "print(sorted(x), x[1]['a'])",
            "x[1]['a'] += 1",
        ),
        Case(
            "Tree",
            "x = nltk.Tree.fromstring('(S (NP a) (VP b))')",
            "print(x, x.leaves())",
            "x[0] = 'q'",
        ),
        Case(
            "PorterStemmer",
            "x = nltk.PorterStemmer()",
            "print(x.stem('running'), x.mode)",
            "x.mode = 'q'",
            varies="it holds a set of texts, ordered by hashes that differ from process to process",
        ),
        Case("Text", "x = nltk.Text('a b c a'.split())", "print(x.tokens)", "x.tokens.append('q')"),
        Case("CFG", "x = nltk.CFG.fromstring('S -> \"a\"')", "print(x)"),
        Case(
            "RegexpTokenizer",
            "x = nltk.RegexpTokenizer('a'); x.tokenize('b');",
            "print(x.tokenize('aba'))",
            "x._pattern = 'b'; x._regexp = None",
        ),
        Case(
            "NaiveBayesClassifier",
            "x = nltk.NaiveBayesClassifier.train([({'a': 1}, 'p'), ({'a': 2}, 'q')])",
            "print(x.classify({'a': 1}), x.labels())",
            "x._labels.append('z')",
        ),
        Case(
            "UnigramTagger",
            "x = nltk.UnigramTagger([[('a', 'N'), ('b', 'V')]])",
            "print(x.tag(['a', 'c']))",
            "x._context_to_tag['c'] = 'Z'",
            varies="it is filled in the order of hashes of texts",
        ),
        Case(
            "LidstoneProbDist",
            "x = nltk.LidstoneProbDist(nltk.FreqDist('aab'), 0.1)",
            "print(x.prob('a'))",
            "x.freqdist()['a'] += 1",
        ),
    ),
)
