"""Names that IPython keeps in the namespace itself: results and history.

They are state of the engine, not of the notebook: reading `_` means reading the result of
an earlier cell, reading `In` means reading texts of cells.
"""

from __future__ import annotations

import re
from typing import Final

_RESULT = re.compile(r"_{1,3}|_\d+|Out|_oh|_dh")
_HISTORY = re.compile(r"In|_ih|_i{1,3}|_i\d+")

HIDDEN: Final = frozenset({"get_ipython"})
"""Names that the input transformation writes; no variable of the user."""

RAW_TEXT_NAMES: Final = frozenset({"linecache", "traceback"})
"""Modules that show source text."""

RAW_TEXT_ATTRIBUTES: Final = frozenset(
    {"getsource", "getsourcelines", "getsourcefile", "findsource", "getcomments", "getframeinfo"}
)
"""Functions of `inspect` that show source text or line numbers."""

RAW_TEXT_MAGICS: Final = frozenset(
    {"history", "hist", "save", "pastebin", "psource", "pfile", "pinfo2", "notebook", "macro"}
)
"""Magics that show source text."""


def is_result(name: str) -> bool:
    """Whether `name` is a result of an earlier cell (`_`, `_3`, `Out`)."""
    return _RESULT.fullmatch(name) is not None


def is_history(name: str) -> bool:
    """Whether `name` is the text of earlier cells (`In`, `_i`, `_i3`)."""
    return _HISTORY.fullmatch(name) is not None
