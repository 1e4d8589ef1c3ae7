"""Objects by their attributes, where their library's own pickling rebuilds them from a summary.

plotly pickles a figure as the dictionary it would show: parts that a name is bound to are
parts no more, and defaults are filled in anew, in another order.
"""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING, Any

from nbrewind.errors import NotStorable

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler

_newobj: Any = copyreg.__newobj__  # type: ignore[attr-defined]


def reduce_attributes(pickler: StatePickler, obj: Any) -> Any:
    """Reduce an object to its class and its attributes.

    Raises:
        NotStorable: it is a widget as well.
    """
    kind = type(obj)
    if any(base.__module__.startswith("ipywidgets.") for base in kind.__mro__):
        raise NotStorable(f"a live {kind.__qualname__} cannot be stored")
    return _newobj, (kind,), vars(obj), None, None, put_attributes


def put_attributes(obj: Any, state: dict[str, Any]) -> None:
    """Give an object its attributes, past what its class makes of a state."""
    vars(obj).update(state)
