"""Loading captured state: what a stream needs from its surroundings.

A stream refers to entities by id, to code by digest and to the notebook's
namespace by position; `Restore` supplies them while the stream loads. Only
bytes that came out of a trusted, verified manifest get here (law L5).
"""

from __future__ import annotations

import contextvars
import io
import marshal
import os
import pickle
import sys
import tempfile
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nbrewind.errors import NotRestorable
from nbrewind.model.records import plain_name
from nbrewind.state.asking import Answers
from nbrewind.state.definitions import checked_code
from nbrewind.state.entities import EntityTable
from nbrewind.state.set_order import lay_out

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A co-variable that was loaded, and what it should look like."""

    values: tuple[Any, ...]
    """One for each name of the manifest."""
    stream: bytes
    """What an examination of the values shows if they came back as they were."""
    hidden: bytes
    """Digest of attributes that the stream does not contain."""
    hashes_alike: bool = True
    """Whether texts hash as they did where the values were stored: then sets have their order."""


class Restore:
    """The surroundings of one load."""

    def __init__(
        self,
        namespace: dict[str, Any],
        entities: EntityTable,
        need_entity: Callable[[str], Any] | None = None,
    ) -> None:
        """Prepare to load.

        Args:
            namespace: the notebook's namespace, the globals of its functions.
            entities: which object carries which entity id.
            need_entity: restores an entity that is not alive, and returns it; may be
                set later.
        """
        self.namespace = namespace
        self.entities = entities
        self.need_entity = need_entity or _no_entity
        self.is_lazy: Callable[[str], bool] = lambda entity: False
        """Whether an entity that is alive has a stored state still to be loaded into it."""
        self.codes: Mapping[str, bytes] = {}
        self.python = PYTHON
        self.frame_references: dict[int, tuple[Any, Any]] = {}
        self._code_cache: dict[str, Any] = {}

    def entity(self, entity: str) -> Any:
        """The live object of an entity."""
        found = self.entities.get(entity)
        if found is None or self.is_lazy(entity):
            return self.need_entity(entity)
        return found

    def bind(self, entity: str, obj: Any) -> None:
        """Make `obj` the live object of an entity."""
        self.entities.bind(entity, obj)

    def globals_of(self, module: str) -> dict[str, Any]:
        """The dictionary that functions of a module run in; the notebook's if it is empty."""
        if not module:
            return self.namespace
        __import__(module)
        return vars(sys.modules[module])

    def code(self, digest: str) -> Any:
        """A code object by its canonical digest."""
        cached = self._code_cache.get(digest)
        if cached is None:
            if self.python != PYTHON:
                raise NotRestorable(f"code of Python {self.python} does not run on {PYTHON}")
            raw = self.codes.get(digest)
            if raw is None:
                raise NotRestorable(f"code {digest[:12]} is not stored with its value")
            code = checked_code(digest, marshal.loads(raw))
            cached = self._code_cache[digest] = _of_this_process(code)
        return cached

    def load(
        self, stream: bytes, buffers: Iterable[Any], codes: Mapping[str, bytes], python: str
    ) -> Loaded:
        """Load one co-variable.

        Raises:
            NotRestorable: whatever went wrong inside the stream.
        """
        outer = self.codes, self.python, self._code_cache
        self.codes, self.python, self._code_cache = codes, python, {}
        token = _current.set(self)
        try:
            file = io.BytesIO(stream)
            unpickler = _Unpickler(file, buffers=buffers)
            values = unpickler.load()
            end = file.tell()
            sets, hidden = unpickler.load() if end < len(stream) else ((), b"")
            for layout in sets:
                lay_out(layout)
        except NotRestorable:
            raise
        except Exception as problem:
            raise NotRestorable(f"{type(problem).__name__}: {problem}") from problem
        finally:
            _current.reset(token)
            self.codes, self.python, self._code_cache = outer
        if not isinstance(values, tuple):
            raise NotRestorable("the stream does not hold a tuple of values")
        return Loaded(values, stream[:end], hidden)


class _Unpickler(pickle.Unpickler):
    """Loads what was written by name as what it was; everything else as pickle does."""

    def __init__(self, file: io.BytesIO, buffers: Iterable[Any]) -> None:
        super().__init__(file, buffers=buffers)
        self._answers = Answers()

    def persistent_load(self, pid: Any) -> Any:
        """The object that has this name."""
        return self._answers.find(pid)


def _of_this_process(code: types.CodeType) -> types.CodeType:
    """Code of a cell under the file name that this process's kernel gives the cell.

    ipykernel names a cell's file by its text and its own process id; tracebacks and
    warnings look up source lines by that name.
    """
    folder, name = os.path.split(code.co_filename)
    if not os.path.basename(folder).startswith("ipykernel_"):
        return code
    here = os.path.join(tempfile.gettempdir(), f"ipykernel_{os.getpid()}", name)
    constants = tuple(
        _of_this_process(value) if isinstance(value, types.CodeType) else value
        for value in code.co_consts
    )
    return code.replace(co_filename=here, co_consts=constants)


def _no_entity(entity: str) -> Any:
    raise NotRestorable(f"{plain_name(entity)} is not stored with its value")


_current: contextvars.ContextVar[Restore] = contextvars.ContextVar("nbrewind_restore")


def current_restore() -> Restore:
    """The load in progress. Raises `NotRestorable` outside one."""
    try:
        return _current.get()
    except LookupError:
        raise NotRestorable("captured state can only be loaded through its manifest") from None
