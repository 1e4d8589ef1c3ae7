"""What one of several runs in one Python process has for itself, as if it had its own."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any


class Process:
    """Generators, working folder, environment and modules of a folder that belong to one run.

    Args:
        folder: where it starts; also the first place where it looks for modules.
        seed: where random number generators start.
    """

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self._folder = folder.resolve()
        self._seed = seed
        self._random: Any = random.Random(seed).getstate()
        self._numpy: Any = None
        self._cwd = str(self._folder)
        self._environ = dict(os.environ)
        self._path = [str(self._folder), *sys.path]
        self._finders = list(sys.meta_path)
        self._modules: dict[str, ModuleType] = {}
        self._logging = _Logging({}, logging.WARNING, [], logging.NOTSET)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Be this process meanwhile."""
        outer = _Outside()
        importlib.invalidate_caches()
        self._swap_in()
        try:
            yield
        finally:
            self._keep(outer.modules)
            outer.put_back()

    def _swap_in(self) -> None:
        random.setstate(self._random)
        numpy = sys.modules.get("numpy.random")
        if numpy is not None:
            if self._numpy is None:
                self._numpy = numpy.RandomState(self._seed).get_state()
            numpy.set_state(self._numpy)
        os.chdir(self._cwd)
        _set_environ(self._environ)
        sys.path[:] = self._path
        sys.meta_path[:] = self._finders
        sys.modules.update(self._modules)
        self._logging.put()
        sys.dont_write_bytecode = True  # a source edited within its file's timestamp is seen

    def _keep(self, others: frozenset[str]) -> None:
        self._random = random.getstate()
        numpy = sys.modules.get("numpy.random")
        if numpy is not None:
            self._numpy = numpy.get_state()
        self._cwd = os.getcwd()
        self._environ = dict(os.environ)
        self._path = list(sys.path)
        self._finders = list(sys.meta_path)
        self._logging = _Logging.now()
        self._modules = {}
        for name in sys.modules.keys() - others:
            module = sys.modules[name]
            if (getattr(module, "__file__", None) or "").startswith(f"{self._folder}{os.sep}"):
                self._modules[name] = sys.modules.pop(name)


class _Outside:
    """The state of the real process, to come back to."""

    def __init__(self) -> None:
        self.modules = frozenset(sys.modules)
        self._random = random.getstate()
        numpy = sys.modules.get("numpy.random")
        self._numpy = None if numpy is None else numpy.get_state()
        self._cwd = os.getcwd()
        self._environ = dict(os.environ)
        self._path = list(sys.path)
        self._finders = list(sys.meta_path)
        self._bytecode = sys.dont_write_bytecode
        self._logging = _Logging.now()

    def put_back(self) -> None:
        """Come back to it."""
        random.setstate(self._random)
        if self._numpy is not None:
            sys.modules["numpy.random"].set_state(self._numpy)
        os.chdir(self._cwd)
        _set_environ(self._environ)
        sys.path[:] = self._path
        sys.meta_path[:] = self._finders
        sys.dont_write_bytecode = self._bytecode
        self._logging.put()


@dataclass
class _Logging:
    """Loggers and the settings of the root."""

    loggers: dict[str, Any]
    level: int
    handlers: list[logging.Handler]
    disabled: int

    @classmethod
    def now(cls) -> _Logging:
        """The present ones."""
        manager = logging.root.manager
        handlers = list(logging.root.handlers)
        return cls(dict(manager.loggerDict), logging.root.level, handlers, manager.disable)

    def put(self) -> None:
        """Put these in force; loggers made in between stay with who made them."""
        manager = logging.root.manager
        manager.loggerDict.clear()
        manager.loggerDict.update(self.loggers)
        logging.root.handlers[:] = self.handlers
        logging.root.setLevel(self.level)
        logging.disable(self.disabled)


def _set_environ(wanted: dict[str, str]) -> None:
    if dict(os.environ) != wanted:
        os.environ.clear()
        os.environ.update(wanted)
