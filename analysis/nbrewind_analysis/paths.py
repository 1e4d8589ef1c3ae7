"""States of a cell's namespace along its paths, and what holds where paths meet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

BOUND: Final = "bound"
GONE: Final = "gone"
EITHER: Final = "either"
"""What a name stored or deleted on every path is at the end of them."""

State = dict[str, str]
"""Names stored or deleted on every path to a point, and what they are there."""


@dataclass(slots=True)
class Loop:
    """States at the `break` and `continue` statements of a loop."""

    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)


def join(states: Iterable[State | None]) -> State | None:
    """The state where paths meet; None stands for a path that does not get there."""
    reached = [state for state in states if state is not None]
    if not reached:
        return None
    first, *others = reached
    if not others:
        return dict(first)
    return {
        name: what if all(other[name] == what for other in others) else EITHER
        for name, what in first.items()
        if all(name in other for other in others)
    }


def fork(state: State | None) -> State | None:
    """A copy, to walk another path from the same point."""
    return None if state is None else dict(state)


def blur(state: State, changes: Iterable[tuple[str, str]]) -> None:
    """Forget what names are in `state` if some of `changes` may have been made to it."""
    for name, what in changes:
        if name in state and state[name] != what:
            state[name] = EITHER
