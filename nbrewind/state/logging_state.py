"""The state of `logging`: levels, handlers and filters that a notebook set.

It is a difference from what the process and the imports of libraries set up, so that
importing one more library is no change.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

from nbrewind.state.module_state import Keep

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler

Settings = dict[str, tuple[Any, ...]]
"""By logger: level, propagate, disabled, handlers, filters. The root is `""`."""

_GLOBAL = "(all)"
"""Stands for what belongs to no logger: disabled levels, captured warnings."""

_STANDARD = ("stdout", "stderr", "__stdout__", "__stderr__")


class LoggingState:
    """What was set since the start of the session."""

    def __init__(self) -> None:
        self._start = _settings()

    def take(self, keep: Keep) -> Settings | None:
        """What differs from the start; None if nothing does.

        Args:
            keep: leaves handlers and filters out that cannot be stored.
        """
        return {
            name: tuple(
                [x for i, x in enumerate(part) if keep(f"{name}[{i}]", x)]
                if isinstance(part, list)
                else part
                for part in value
            )
            for name, value in _changes(self._start, _settings()).items()
        } or None

    def is_set(self) -> bool:
        """Whether anything differs from the start."""
        return bool(_changes(self._start, _settings()))

    def put(self, state: Settings) -> None:
        """Put a state in force; loggers that are not part of it are as at the start."""
        for name in self.take(lambda key, value: True) or {}:
            if name not in state:
                _set(name, self._start.get(name, _NEW))
        for name, value in state.items():
            _set(name, value)

    def before_import(self) -> Settings:
        """The settings before a library's import: what it changes is part of the start."""
        return _settings()

    def after_import(self, before: Settings | None) -> None:
        """Take over what the import changed."""
        if before is None:
            return
        self._start.update(_changes(before, _settings()))


_NEW: tuple[Any, ...] = (logging.NOTSET, True, False, [], [])
"""A logger that was asked for and not touched."""


def _settings() -> Settings:
    """What is set of all loggers, those that are not touched left out."""
    manager = logging.root.manager
    found: Settings = {"": _of_logger(logging.root)}
    for name, logger in list(manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and (
            logger.level
            or logger.handlers
            or logger.filters
            or logger.disabled
            or not logger.propagate
        ):
            found[name] = _of_logger(logger)
    capturing = getattr(logging, "_warnings_showwarning", None) is not None
    found[_GLOBAL] = (manager.disable, capturing)
    return found


def _changes(before: Settings, now: Settings) -> Settings:
    return {
        name: value
        for name in before.keys() | now.keys()
        if not _same(value := now.get(name, _NEW), before.get(name, _NEW))
    }


def _of_logger(logger: Any) -> tuple[Any, ...]:
    handlers = [h for h in logger.handlers if type(h) is not logging.NullHandler]
    return (logger.level, logger.propagate, logger.disabled, handlers, list(logger.filters))


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether settings are the same, handlers and filters by identity."""
    return len(one) == len(other) and all(
        [*map(id, a)] == [*map(id, b)] if isinstance(a, list) and isinstance(b, list) else a == b
        for a, b in zip(one, other, strict=True)
    )


def _set(name: str, value: tuple[Any, ...]) -> None:
    if name == _GLOBAL:
        disable, capturing = value if len(value) == 2 else (logging.NOTSET, False)
        logging.disable(disable)
        if capturing != (getattr(logging, "_warnings_showwarning", None) is not None):
            logging.captureWarnings(capturing)
        return
    logger: Any = logging.getLogger(name or None)
    level, propagate, disabled, handlers, filters = value
    logger.setLevel(level)
    logger.propagate, logger.disabled = propagate, disabled
    silent = [h for h in logger.handlers if type(h) is logging.NullHandler]
    logger.handlers[:] = [*silent, *handlers]
    logger.filters[:] = filters


def reduce_handler(pickler: StatePickler, handler: logging.Handler) -> Any:
    """A handler as its attributes, without its lock; one that writes a file opens it anew.

    A file is continued where it ends: the records so far are in it.
    """
    state = dict(vars(handler)) | {"lock": None}
    stream = state.get("stream")
    standard = next((n for n in _STANDARD if stream and getattr(sys, n, None) is stream), "")
    if isinstance(handler, logging.FileHandler):
        state.update(mode="a", stream=None)
    elif standard:
        state["stream"] = None
    return load_handler, (type(handler),), (state, standard), None, None, _set_handler


def load_handler(kind: type[logging.Handler]) -> logging.Handler:
    """An empty handler of a class."""
    handler: logging.Handler = kind.__new__(kind)
    return handler


def _set_handler(handler: Any, told: tuple[dict[str, Any], str]) -> None:
    state, standard = told
    vars(handler).update(state)
    handler.createLock()
    if standard:
        handler.stream = getattr(sys, standard)
    handler.set_name(state.get("_name"))  # also makes it known by its name
    logging._addHandlerRef(handler)  # type: ignore[attr-defined]


def reduce_logger(pickler: StatePickler, logger: logging.Logger) -> Any:
    """A logger by its name; what was set on it is part of `LoggingState`."""
    if logging.getLogger(logger.name) is not logger and logger is not logging.root:
        return NotImplemented
    return logging.getLogger, (None if logger is logging.root else logger.name,)
