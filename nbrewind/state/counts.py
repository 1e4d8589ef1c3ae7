"""`itertools.count`: an iterator whose whole state its `repr` shows.

Libraries number things with it. Its own pickling is gone from Python 3.14 on.
"""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, Any

from nbrewind.errors import NotStorable

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler


def reduce_count(pickler: StatePickler, counter: itertools.count[Any]) -> Any:
    """Reduce a count of numbers to the next one and the step.

    Raises:
        NotStorable: it counts something that is not written as a literal.
    """
    return itertools.count, peek(counter)


def peek(counter: itertools.count[Any]) -> tuple[Any, ...]:
    """What a count would give next, and its step unless that is 1."""
    text = repr(counter).removeprefix("count")
    try:
        shown = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise NotStorable(f"a live count{text} cannot be stored") from None
    return shown if isinstance(shown, tuple) else (shown,)
