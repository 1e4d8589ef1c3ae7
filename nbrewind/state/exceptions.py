"""Exceptions by value: pickle calls the class again and drops what they were raised from.

`BaseException.__reduce__` hands the arguments of `super().__init__` to the class, whose own
`__init__` may want others or make something else of them. So the object is made and
initialised by the built-in base, and is given its fields (`errno`, `value`) and attributes
afterwards.
"""

from __future__ import annotations

import contextlib
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

from nbrewind.errors import NotStorable
from nbrewind.state.entities import is_notebook_class

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler

_HEAP_TYPE = 1 << 9
_HOOKS = ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__")


def reduce_exception(pickler: StatePickler, problem: BaseException) -> Any:
    """Reduce an exception that is not being handled any more.

    Raises:
        NotStorable: it holds the frames that it passed through.
    """
    kind = type(problem)
    if problem.__traceback__ is not None:
        raise NotStorable("an exception with a traceback holds live frames")
    hooked = [base for base in kind.__mro__ if base.__flags__ & _HEAP_TYPE and _has_hook(base)]
    if hooked:
        if any(map(is_notebook_class, hooked)):
            raise NotStorable(f"{kind.__qualname__} pickles itself in its own way")
        if problem.__cause__ is not None or problem.__context__ is not None:
            raise NotStorable(f"{kind.__qualname__} pickles itself without its cause")
        return NotImplemented
    reduced = problem.__reduce_ex__(5)
    origin = (problem.__cause__, problem.__context__, problem.__suppress_context__)
    attributes = reduced[2] if len(reduced) > 2 else None
    return (
        make_exception,
        (kind, reduced[1]),
        (attributes, _fields(problem), origin if any(origin) else None),
        None,
        None,
        set_exception_state,
    )


def _has_hook(base: type) -> bool:
    return any(hook in base.__dict__ for hook in _HOOKS)


def _fields(problem: BaseException) -> dict[str, Any]:
    """The C fields that built-in classes give their exceptions."""
    return {
        key: getattr(problem, key)
        for base in type(problem).__mro__
        if not base.__flags__ & _HEAP_TYPE
        for key, value in vars(base).items()
        if isinstance(value, MemberDescriptorType) and not key.startswith("__")
    }


def make_exception(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """An exception that went through no code of its class."""
    base: Any = next(b for b in kind.__mro__ if not b.__flags__ & _HEAP_TYPE)
    problem: BaseException = base.__new__(kind, *args)
    base.__init__(problem, *args)
    return problem


def set_exception_state(problem: BaseException, state: Any) -> None:
    """Give an exception its attributes, and what it was raised from."""
    attributes, fields, origin = state
    for key, value in fields.items():
        if getattr(problem, key) is not value:  # unset reads as None but is shown otherwise
            with contextlib.suppress(AttributeError):  # read-only: made from the arguments
                setattr(problem, key, value)
    if attributes is not None:
        BaseException.__setstate__(problem, attributes)
    if origin is not None:
        problem.__cause__, problem.__context__, problem.__suppress_context__ = origin
