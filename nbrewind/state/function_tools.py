"""Functions that `functools` wraps in objects with state of their own.

A dispatcher is what its registry says; its cache only saves look-ups. A cached function can
be made again while its cache is empty: what a filled one holds can be had by no way but
calling the function.
"""

from __future__ import annotations

import functools
import types
import weakref
from typing import TYPE_CHECKING, Any

from nbrewind.errors import NotStorable
from nbrewind.state.references import is_by_reference

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler

_DISPATCHER = functools.singledispatch(lambda x: x)
_DISPATCHER_CODE: types.CodeType = _DISPATCHER.__code__  # type: ignore[attr-defined]
_METHOD_CACHE = "_method_cache"
_MADE_WITH = frozenset(vars(_DISPATCHER))


def is_dispatcher(function: types.FunctionType) -> bool:
    """Whether `functools.singledispatch` made this function."""
    return function.__code__ is _DISPATCHER_CODE


def reduce_dispatcher(function: Any) -> Any:
    """Reduce a generic function to its default and its registry."""
    wrapped = function.__wrapped__
    assigned: tuple[str, ...] = functools.WRAPPER_ASSIGNMENTS
    attributes = {k: getattr(function, k) for k in assigned if hasattr(function, k)}
    attributes.update((k, v) for k, v in vars(function).items() if k not in _MADE_WITH)
    state = (list(function.registry.items()), _own(attributes, wrapped))
    return make_dispatcher, (wrapped,), state, None, None, set_dispatcher_state


def make_dispatcher(function: Any) -> Any:
    """A generic function with nothing registered."""
    return functools.singledispatch(function)


def set_dispatcher_state(dispatcher: Any, state: Any) -> None:
    """Register what was registered, in the same order."""
    registry, attributes = state
    for cls, function in registry:
        dispatcher.register(cls, function)
    set_attributes(dispatcher, attributes)


def reduce_method(pickler: StatePickler, method: Any) -> Any:
    """Reduce a generic method to what it dispatches to; its cache (Python 3.13) starts anew."""
    state = {k: v for k, v in vars(method).items() if k != _METHOD_CACHE}
    return make_method, (type(method), _METHOD_CACHE in vars(method)), state


def make_method(kind: Any, cached: bool) -> Any:
    """A generic method without what it dispatches to."""
    method = kind.__new__(kind)
    if cached:
        setattr(method, _METHOD_CACHE, weakref.WeakKeyDictionary())
    return method


def reduce_cached(pickler: StatePickler, cached: Any) -> Any:
    """Reduce a function wrapped by `functools.lru_cache` that was not called yet.

    A library's own is stored by its name.
    """
    if is_by_reference(cached):
        return NotImplemented
    if cache_state(cached) != (0, 0, 0):
        raise NotStorable("a function with a filled cache cannot be stored")
    limits = cached.cache_parameters()
    wrapped = cached.__wrapped__
    # `@lru_cache` and `@lru_cache()` leave different traces in the name of this function.
    is_bare = "decorating_function" not in cached.cache_parameters.__qualname__
    args = (wrapped, limits["maxsize"], limits["typed"], is_bare)
    attributes = {
        k: v for k, v in vars(cached).items() if k not in ("__wrapped__", "cache_parameters")
    }
    return make_cached, args, _own(attributes, wrapped), None, None, set_attributes


def _own(attributes: dict[str, Any], wrapped: Any) -> dict[str, Any]:
    """What a wrapper did not take over from the function that it wraps."""
    nothing = object()
    return {k: v for k, v in attributes.items() if getattr(wrapped, k, nothing) is not v}


def cache_state(cached: Any) -> tuple[int, int, int]:
    """Hits, misses and size of a cache: any call of the function changes them."""
    info = cached.cache_info()
    return info.hits, info.misses, info.currsize


def make_cached(function: Any, maxsize: int | None, typed: bool, is_bare: bool) -> Any:
    """A function with an empty cache."""
    return (
        functools.lru_cache(function) if is_bare else functools.lru_cache(maxsize, typed)(function)
    )


def set_attributes(wrapper: Any, attributes: dict[str, Any]) -> None:
    """Give a wrapper the attributes that were put on it."""
    for name, value in attributes.items():
        setattr(wrapper, name, value)
