"""Smaller notebooks that still fail: cells and lines are left out while the failure stays.

Hypothesis shrinks what it drew; a generated notebook depends on all draws before it,
so that takes minutes. Leaving out text takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

Notebooks = tuple[list[str], list[str]]
"""A notebook before and after an edit."""


def smallest(before: list[str], after: list[str], fails: Callable[..., bool]) -> Notebooks:
    """Leave out cells and lines as long as `fails(before, after)` stays true."""
    current = before, after
    while True:
        for candidate in _smaller(*current):
            if all(candidate) and fails(*candidate):
                current = candidate
                break
        else:
            return current


def _smaller(before: list[str], after: list[str]) -> Iterator[Notebooks]:
    """Everything that is one step smaller, the biggest steps first."""
    for source in dict.fromkeys([*before, *after]):
        yield [c for c in before if c != source], [c for c in after if c != source]
    for index in range(len(before)):
        yield before[:index] + before[index + 1 :], after
    for index in range(len(after)):
        yield before, after[:index] + after[index + 1 :]
    for source in dict.fromkeys([*before, *after]):
        lines = source.split("\n")
        for index in range(len(lines) if len(lines) > 1 else 0):
            shorter = "\n".join(lines[:index] + lines[index + 1 :])
            yield (
                [shorter if c == source else c for c in before],
                [shorter if c == source else c for c in after],
            )
