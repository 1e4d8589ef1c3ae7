"""Iterators whose place is known to Python itself, and that can be put there again.

Asking an iterator for its reduction does not advance it. Only those are stored whose
reduction says where they stand in what they iterate over: iterators of dictionaries and
sets reduce to a list of what is left, which is another thing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from nbrewind.errors import NotStorable

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler

BUILT_IN = (
    *("list_iterator", "list_reverseiterator", "tuple_iterator", "reversed"),
    *("str_ascii_iterator", "str_iterator", "bytes_iterator", "bytearray_iterator"),
    *("range_iterator", "longrange_iterator", "callable_iterator"),
    *("enumerate", "zip", "map", "filter"),
)
"""Names of built-in types that `reduce_iterator` reduces."""
OF_ITERTOOLS = (
    *("accumulate", "chain", "combinations", "combinations_with_replacement", "compress"),
    *("count", "cycle", "dropwhile", "filterfalse", "islice", "permutations", "product"),
    *("repeat", "starmap", "takewhile", "zip_longest"),
)
"""Names of types of `itertools` that `reduce_iterator` reduces."""


def reduce_iterator(pickler: StatePickler, iterator: Any) -> Any:
    """Reduce an iterator to what it iterates over, and its place there."""
    kind = type(iterator)
    if kind.__module__ == "itertools" and sys.version_info >= (3, 12):
        raise NotStorable(f"itertools.{kind.__qualname__} cannot be stored in this Python")
    reduced = iterator.__reduce__()
    if reduced[0] not in (iter, reversed, kind):
        raise NotStorable(f"a live {kind.__qualname__} cannot be stored")
    if len(reduced) == 2 and len(reduced[1]) == 1 and _is_empty(reduced[1][0]):
        backwards = kind.__name__ in ("list_reverseiterator", "reversed")
        return make_exhausted, (*reduced[1], backwards) if backwards else reduced[1]
    return reduced


def make_exhausted(empty: Any, backwards: bool = False) -> Any:
    """An iterator that has found nothing more: it stays at its end, whatever is added."""
    iterator = reversed(empty) if backwards else iter(empty)
    next(iterator, None)
    return iterator


def _is_empty(iterated: Any) -> bool:
    """Whether this is what Python puts for the sequence that an iterator has let go of."""
    return type(iterated) in (list, tuple, str, bytes, bytearray) and not iterated
