"""Objects that a library shares with all its callers, and whose state is ambient.

`from random import choice` binds a method of the one generator behind the module;
`from matplotlib import rcParams` binds the settings themselves. Providers follow their state
(`rng`, `settings`), so a value that reaches one holds no copy: it is found again by its place.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from nbrewind.errors import NotRestorable
from nbrewind.state.hidden import hides_state, reduce_with_hooks

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler

_PLACES = {
    "decimal.Context": "decimal:getcontext()",
    "matplotlib.RcParams": "matplotlib:rcParams",
    "numpy.random.mtrand.RandomState": "numpy.random.mtrand:_rand",
    "os._Environ": "os:environ",
    "random.Random": "random:_inst",
    "torch._C.Generator": "torch:default_generator",
}
"""Types, and where the shared object of the type is."""

_LISTS = ("sys:path", "warnings:filters")


def reduce_shared(pickler: StatePickler, obj: Any) -> Any:
    """Reduce a shared object to its place; leave others of its type to their library."""
    kind = type(obj)
    place = _PLACES[f"{kind.__module__}.{kind.__qualname__}"]
    if _at(place) is not obj:
        return reduce_with_hooks(pickler, obj) if hides_state(kind) else NotImplemented
    pickler.ignored.add(id(obj))
    pickler.modules.add(place.partition(":")[0])
    return load_shared, (place,)


def reduce_options(pickler: StatePickler, options: Any) -> Any:
    """Reduce pandas' options, all or those below a prefix."""
    pickler.ignored.add(id(options))
    pickler.modules.add("pandas")
    return load_options, (options.prefix,)


class SharedList:
    """Stands in a stream for a list that is a setting of the process, such as `sys.path`."""

    __slots__ = ("place",)

    def __init__(self, place: str) -> None:
        self.place = place


def reduce_list(pickler: StatePickler, stand_in: SharedList) -> Any:
    """Reduce a list that the process shares to its place."""
    pickler.modules.add(stand_in.place.partition(":")[0])
    return load_shared, (stand_in.place,)


def without_shared_lists(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Values to be captured, with stand-ins for lists that the process shares."""
    if not any(type(value) is list for value in values):
        return values
    shared = {id(_at(place)): place for place in _LISTS}
    return tuple(
        SharedList(shared[id(value)]) if type(value) is list and id(value) in shared else value
        for value in values
    )


def load_shared(place: str) -> Any:
    """The object in a place.

    Raises:
        NotRestorable: nothing is shared there.
    """
    if place not in _PLACES.values() and place not in _LISTS:
        raise NotRestorable(f"{place} is no shared object")
    __import__(place.partition(":")[0])
    return _at(place)


def load_options(prefix: str) -> Any:
    """Pandas' options below a prefix."""
    import pandas

    return functools.reduce(getattr, filter(None, prefix.split(".")), pandas.options)


def _at(place: str) -> Any:
    module, _, name = place.partition(":")
    found = getattr(sys.modules.get(module), name.removesuffix("()"), None)
    return found() if found is not None and name.endswith("()") else found
