"""Results of reused cells that are not loaded: their places in `Out` and `_` are kept.

IPython moves `_` to `__` to `___` with every result, and stops doing so when it
finds a `_` that it did not put there. So a result that is not loaded takes its
place as a `PendingResult`, and gives it to the value, everywhere at once, when
the engine has loaded it for a cell that reads it.
"""

from __future__ import annotations

from typing import Any

_RECENT = ("_", "__", "___")


class PendingResult:
    """Stands for the result of the cell `Out[number]`."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"<result {self.number} of a reused cell, not loaded>"


def put_pending(shell: Any, number: int) -> None:
    """Keep a place for the result of the cell that was just counted."""
    shell.displayhook.check_for_underscore()
    shell.displayhook.update_user_ns(PendingResult(number))


def put_result(shell: Any, age: int, value: Any) -> None:
    """Put a loaded result in its place.

    Args:
        shell: the IPython shell.
        age: 1 for the last result (`_`), 2 for the one before, and so on.
        value: the result.
    """
    results = shell.user_ns.get("_oh", {})
    numbers = sorted(results)
    if age <= len(_RECENT):
        place = getattr(shell.displayhook, _RECENT[age - 1], None)
    else:
        place = results[numbers[-age]] if age <= len(numbers) else None
    if isinstance(place, PendingResult):
        _replace(shell, place, value)


def settle(shell: Any) -> None:
    """Follow what the engine bound to `_`, `__` and `___` for the next cell."""
    for name in _RECENT:
        place = getattr(shell.displayhook, name, None)
        value = shell.user_ns.get(name, place)
        if isinstance(place, PendingResult) and value is not place:
            _replace(shell, place, value)


def _replace(shell: Any, place: PendingResult, value: Any) -> None:
    hook, namespace = shell.displayhook, shell.user_ns
    places: list[tuple[dict[Any, Any], Any]] = [(namespace.get("_oh", {}), place.number)]
    for name in (*_RECENT, f"_{place.number}"):
        # IPython recognises its own `_` by the entry in the hidden namespace.
        places += [(namespace, name), (shell.user_ns_hidden, name), (vars(hook), name)]
    for table, key in places:
        if table.get(key) is place:
            table[key] = value
