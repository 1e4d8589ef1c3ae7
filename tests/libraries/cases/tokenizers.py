"""Hugging Face tokenizers."""

from __future__ import annotations

from tests.libraries.case import Case, Library

_WORDS = "tk.Tokenizer(tk.models.WordLevel({'a': 0, '[UNK]': 1}, unk_token='[UNK]'))"

LIBRARY = Library(
    "tokenizers",
    requires=("tokenizers",),
    prelude="import tokenizers as tk",
    cases=(
        Case(
            "Tokenizer",
            f"x = {_WORDS}; x.pre_tokenizer = tk.pre_tokenizers.Whitespace()",
            "print(x.encode('a b').ids, x.get_vocab_size())",
            "done = x.add_tokens(['zz'])",
        ),
        Case(
            "models.BPE",
            "x = tk.models.BPE({'a': 0, 'b': 1, 'ab': 2}, [('a', 'b')])",
            "print(x.dropout)",
            "x.dropout = 0.5",
        ),
        Case(
            "Encoding",
            f"k = {_WORDS}; x = k.encode('a'); del k",
            "print(x.ids, x.tokens)",
            "x.pad(5)",
        ),
        Case(
            "normalizers.Sequence",
            "x = tk.normalizers.Sequence([tk.normalizers.NFD(), tk.normalizers.Lowercase()])",
            "print(x.normalize_str('A'))",
        ),
        Case("AddedToken", "x = tk.AddedToken('a', lstrip=True)", "print(x)"),
    ),
)
