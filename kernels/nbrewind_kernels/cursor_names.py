"""Which variables a completion or an inspection looks at.

`big.he<Tab>` needs `big` loaded; `bi<Tab>` needs only its name. The text is an
unfinished cell, so this reads backwards from the cursor instead of parsing.
"""

from __future__ import annotations

import re

_OPEN = {")": "(", "]": "[", "}": "{"}
_WORD_END = re.compile(r"[^\W\d]\w*$")
_CHAIN_LIMIT = 10_000
"""Characters before the cursor that are looked at."""


def names_at(code: str, cursor: int) -> frozenset[str]:
    """Names at the start of the attribute, item or call chains open at the cursor.

    For `f(a, df["x"].me|` these are `df` and `f`.
    """
    text = code[max(0, cursor - _CHAIN_LIMIT) : cursor]
    names: set[str] = set()
    head, at = _chain_start(text, len(text))
    if head is not None and head[1]:
        names.add(head[0])
    # Calls and subscripts still open around the cursor.
    while (at := _enclosing(text, at)) >= 0:
        head, at = _chain_start(text, at)
        if head is not None:
            names.add(head[0])
    return frozenset(names)


def head_name(dotted: str) -> str:
    """`df` of `df.head`."""
    return dotted.split(".", 1)[0].split("[", 1)[0].strip()


def _chain_start(text: str, end: int) -> tuple[tuple[str, bool] | None, int]:
    """The first name of the chain that ends at `end`.

    Returns:
        The name and whether something (an attribute, an item) follows it within
        the chain, or None if the chain starts otherwise; and where it starts.
    """
    position, followed = end, False
    while True:
        before = text[:position].rstrip() if followed else text[:position]
        if match := _WORD_END.search(before):
            start = match.start()
            if text[:start].rstrip().endswith("."):
                position = len(text[:start].rstrip()) - 1
                followed = True
                continue
            return (match.group(), followed), start
        stripped = before.rstrip()
        if stripped.endswith("."):
            position, followed = len(stripped) - 1, True
            continue
        if stripped and stripped[-1] in _OPEN and (position < end or followed):
            opening = _matching(text, len(stripped) - 1)
            if opening >= 0:
                position, followed = opening, True
                continue
        return None, position


def _matching(text: str, closing: int) -> int:
    """Position of the bracket that `text[closing]` closes; -1 if there is none."""
    depth = 0
    for at in range(closing, -1, -1):
        if text[at] in ")]}":
            depth += 1
        elif text[at] in "([{":
            depth -= 1
            if depth == 0:
                return at
    return -1


def _enclosing(text: str, end: int) -> int:
    """Position of the nearest `(` or `[` before `end` that is still open; -1 if none."""
    depth = 0
    for at in range(end - 1, -1, -1):
        if text[at] in ")]}":
            depth += 1
        elif text[at] in "([{":
            if depth:
                depth -= 1
            elif text[at] != "{":
                return at
    return -1
