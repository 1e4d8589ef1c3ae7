"""How deep a value may nest before pickling it gives up.

Pickling recurses in C. Python 3.11 counts that against the limit that users raise for
functions of their own, so a long chain of objects would overflow the stack and end the
process; newer versions guard the C stack by themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_DEEPEST = 5_000


@contextmanager
def bounded_recursion() -> Iterator[None]:
    """Keep the recursion limit at what the C stack can bear meanwhile."""
    limit = sys.getrecursionlimit()
    if sys.version_info >= (3, 12) or limit <= _DEEPEST:
        yield
        return
    sys.setrecursionlimit(_DEEPEST)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
