"""Hear of checks for files: `os.stat`, `os.lstat` and `os.access` raise no audit event.

Stand-ins take the place of the three functions for good, so that `os.path.exists`,
`Path.stat` and whoever else looks them up in `os` can be heard. Python's imports call
the originals in `posix` and are not concerned.

A stand-in differs from its original as little as Python allows. It has the name, the
documentation, the signature and, to `isinstance`, the class of the original; it does
not bind as a method; it is pickled as `os.stat`. With nobody listening it hands calls
straight on. An error leaves it without a traceback entry of ours.
"""

from __future__ import annotations

import codecs
import os
import pkgutil
import threading
from collections.abc import Callable
from functools import partial
from operator import methodcaller
from types import BuiltinFunctionType
from typing import Any

from nbrewind.state import audit

REPLACED = ("stat", "lstat", "access")
"""The functions of `os` that have stand-ins."""

_SUPPORT = (
    *("supports_dir_fd", "supports_effective_ids"),
    *("supports_fd", "supports_follow_symlinks"),
)


class StandIn:
    """What all stand-ins are; each has a type of its own, because calls go by the type."""

    __slots__ = ("__weakref__",)


_raise: Callable[[BaseException], Any] = vars(codecs)["strict_errors"]
"""Raises what it is given, and is written in C."""

_lock = threading.Lock()
_listeners: tuple[audit.Listener, ...] = ()
_answers: dict[type, tuple[Any, type]] = {}
"""For each stand-in what answers its calls: the original, and the listened-to way."""


def install() -> None:
    """Put the stand-ins in place, once for the process."""
    with _lock:
        for name in REPLACED:
            original = getattr(os, name)
            # Somebody else's replacement is theirs: it may stand for another file system.
            if type(original) is BuiltinFunctionType:
                _replace(name, original)


def listen(listener: audit.Listener) -> None:
    """Call `listener("os.stat", (path,))` before each check, in whatever thread it is made.

    The frame that checks is three above the listener's, as with audit events. Checks
    through a descriptor, of a file or of a folder, are not told.
    """
    global _listeners
    with _lock:
        _listeners = (*_listeners, listener)
        _switch()


def ignore(listener: audit.Listener) -> None:
    """Undo `listen`."""
    global _listeners
    with _lock:
        _listeners = tuple(other for other in _listeners if other != listener)
        _switch()


def reduce_stand_in(pickler: object, stand_in: StandIn) -> Any:
    """Reduce a function that has a stand-in to its name."""
    return stand_in.__reduce__()


def _replace(name: str, original: Any) -> None:
    kind = type(
        "builtin_function_or_method",
        (StandIn,),
        {
            "__slots__": (),
            "__module__": original.__module__,
            "__doc__": original.__doc__,
            "__class__": property(lambda self: BuiltinFunctionType),
            "__call__": original,
            "__getattr__": lambda self, attribute: getattr(original, attribute),
            "__repr__": lambda self: repr(original),
            # Where this is loaded `os` may have a stand-in or not; either is right.
            "__reduce__": lambda self: (pkgutil.resolve_name, (f"os:{name}",)),
        },
    )
    stand_in = kind()
    _answers[kind] = original, _heard(f"os.{name}", original)
    setattr(os, name, stand_in)
    for support in _SUPPORT:
        functions = getattr(os, support)
        if original in functions:
            functions.add(stand_in)


def _switch() -> None:
    for kind, (original, heard) in _answers.items():
        setattr(kind, "__call__", heard if _listeners else original)  # noqa: B010


def _heard(event: str, original: Any) -> type:
    """What answers calls while somebody listens: a class that is called.

    The interpreter calls `__new__` and, if that gives an instance of the class,
    `__init__`. The result of a check is no instance. An error is carried by one out of
    `__new__`, and its `__init__` raises it by functions written in C: no frame of ours
    is left on the stack that could show in the traceback.
    """

    def check(cls: Any, *args: Any, **options: Any) -> Any:
        path = args[0] if args else options.get("path")
        if isinstance(path, str | bytes | os.PathLike) and options.get("dir_fd") is None:
            audit.tell(_listeners, event, (path,))
        try:
            return original(*args, **options)
        except BaseException as problem:
            # The traceback must not be held by a variable: its first entry holds this frame.
            problem.__traceback__ = problem.__traceback__ and problem.__traceback__.tb_next
            failure = object.__new__(cls)
            failure.fail = partial(_raise, problem)
        return failure

    return type("check", (), {"__new__": check, "__init__": property(methodcaller("fail"))})


def _fall_silent() -> None:
    """A forked child has its own copy of all listeners, which nobody ever asks."""
    global _listeners
    _listeners = ()
    _switch()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fall_silent)
