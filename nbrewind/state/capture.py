"""Examining live values: what they are made of, and whether they changed.

An `Examination` is one look at the namespace after a cell. It pickles each name
at most once and keeps every object it met alive until it is dropped, so that an
object's `id` means the same object throughout.
"""

from __future__ import annotations

import gc
import pickle
import types
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from xxhash import xxh3_128

from nbrewind.errors import NotStorable
from nbrewind.model.blobs import ObjectId
from nbrewind.model.records import Uses
from nbrewind.model.versions import Version, content_version
from nbrewind.state.arrays import address, owner_of
from nbrewind.state.asking import AskingPickler
from nbrewind.state.definitions import class_state
from nbrewind.state.finalisers import CALLBACK, called_at_end
from nbrewind.state.hidden import hidden_parts
from nbrewind.state.marks import class_marks, state_mark
from nbrewind.state.mutability import ATOMS, is_mutable_type
from nbrewind.state.nans import may_hold_nan
from nbrewind.state.page_tracking import PageTracker
from nbrewind.state.pickling import Scope, StatePickler, merge_uses
from nbrewind.state.recursion import bounded_recursion
from nbrewind.state.set_order import (
    frozen_orders,
    layouts,
    may_hold_frozen_sets,
    may_hold_sets,
)
from nbrewind.state.shared_objects import without_shared_lists
from nbrewind.state.walk import walk
from nbrewind.store.leaves import LeafHasher, LeafKeys, blob_digest

_ATOM_IDS = frozenset(map(id, ATOMS))


@dataclass(slots=True, eq=False)
class Dump:
    """What one look at a value, or at several values together, brought to light."""

    type: str
    pieces: list[bytes] = field(default_factory=list)
    """Pickle of the tuple of the values, in pieces; none if they cannot be stored."""
    buffers: list[memoryview] = field(default_factory=list)
    codes: dict[str, types.CodeType] = field(default_factory=dict)
    uses: Uses = field(default_factory=Uses)
    entities: dict[str, Any] = field(default_factory=dict)
    """Live functions and classes of the notebook that the value refers to."""
    hidden: bytes = b""
    """Digest of attributes that the stream does not contain; empty if there are none."""
    fingerprint: bytes = b""
    """Empty if changes of the value cannot be detected."""
    problem: str = ""
    """Why the value cannot be stored; empty if it can."""
    alive: list[Any] = field(default_factory=list)
    is_finished: bool = False
    leaves: list[tuple[ObjectId, ...]] | None = None
    """Ids of the leaves of each buffer, once the version was asked for."""
    _pickler: StatePickler | None = None
    _objects: dict[int, tuple[int, Any]] = field(default_factory=dict)
    """Mutable objects by id, with their positions, of a value that cannot be stored."""

    @property
    def stream(self) -> bytes:
        """The pickle of the tuple of the values, in one piece; empty if there is none."""
        if len(self.pieces) > 1:
            self.pieces = [b"".join(self.pieces)]
        return self.pieces[0] if self.pieces else b""

    @property
    def may_share(self) -> bool:
        """Whether the value contains anything that another name could have a part in."""
        return self._pickler is not None or bool(self._objects)

    def memory(self) -> list[tuple[int, int, int]]:
        """(address, bytes, id of the owner) of the memory that was captured."""
        pickler = self._pickler
        if pickler is None:
            return []
        arrays = ((address(a), a.nbytes, owner_of(a)) for a in pickler.arrays)
        return [*pickler.memory_roots, *arrays]

    def parts(self) -> list[Any]:
        """The objects of the value, and some more; all are alive as long as this is."""
        if self._pickler is None:
            return [obj for _, obj in self._objects.values()]
        return self._pickler.parts()

    def tying(self, parts: Iterable[Any]) -> list[Any]:
        """Those of some `parts` that tie two names together if both have them."""
        return [*parts] if self._pickler is None else self._pickler.tying(parts)

    def positions(self, parts: Iterable[Any]) -> dict[int, int]:
        """Where in the stream some `parts` are that tie names together, by id."""
        if self._pickler is None:
            return {id(part): self._objects[id(part)][0] for part in parts}
        return self._pickler.positions(parts)

    def lends(self, key: int) -> bool:
        """Whether a part, by id, ties this value only to values that hold it by itself."""
        return self._pickler is not None and self._pickler.lent.get(key, False)

    @property
    def size(self) -> int:
        """Bytes of the stream and its buffers."""
        return sum(map(len, self.pieces)) + sum(buffer.nbytes for buffer in self.buffers)


class Examination:
    """One look at the namespace."""

    def __init__(
        self, scope: Scope, hasher: LeafHasher, tracker: PageTracker | None = None
    ) -> None:
        self._scope = scope
        self._hasher = hasher
        self._compute_keys = hasher.keys if tracker is None else tracker.keys
        self._keys: dict[tuple[int, int], LeafKeys] = {}
        """Keys of the buffers seen so far, by address and bytes: each is hashed once."""

    def look(self, value: Any, entity: str = "") -> Dump:
        """Examine one value.

        Args:
            value: the value of a name, or the function or class that an entity is.
            entity: the entity id if `value` is to be captured as that entity.
        """
        kind = type(value)
        if not entity and id(kind) in _ATOM_IDS and not (kind is float and value != value):
            stream = pickle.dumps((value,), 5)
            return Dump(kind.__name__, [stream], fingerprint=xxh3_128(stream).digest())
        return self._pickle((value,), {id(value): entity} if entity else {}, _type_name(value))

    def look_together(self, values: Sequence[Any], entities: dict[int, str]) -> Dump:
        """Examine several values as one stream that keeps what they share."""
        return self._pickle(tuple(values), entities, "")

    def finish(self, dump: Dump) -> Dump:
        """Complete a dump that is to be stored: by the order of sets, and what is hidden.

        That takes longer than the look, so it is done for changed values only. It may turn
        out that the value cannot be stored.
        """
        pickler = dump._pickler
        if pickler is not None and not dump.problem and not dump.is_finished:
            dump.is_finished = True
            try:
                has_sets = pickler.has_sets_of_subclasses or may_hold_sets(dump.pieces)
                found = layouts(pickler.sets()) if has_sets else []
            except NotStorable as problem:
                dump.problem = str(problem)
            else:
                if found or dump.hidden:
                    pickler.dump((found, dump.hidden))
                    dump.pieces = pickler.pieces()
        return dump

    def version(self, dump: Dump) -> Version:
        """The content version of a value that can be stored; the dump is finished."""
        self.find_leaves(dump)
        return content_version(dump.stream, *map(blob_digest, dump.leaves or ()))

    def find_leaves(self, dump: Dump) -> None:
        """Fill in `dump.leaves`; only bytes that were never seen before are hashed for it."""
        if dump.leaves is None:
            dump.leaves = [
                self._hasher.leaves(buffer, self._keys_of(buffer)) for buffer in dump.buffers
            ]

    @bounded_recursion()
    def _pickle(self, values: tuple[Any, ...], entities: dict[int, str], kind: str) -> Dump:
        pickler = StatePickler(self._scope)
        try:
            if any(map(called_at_end, values)):
                raise NotStorable("its end calls a function of the notebook")
            pickler.roots = entities
            dumped = without_shared_lists(values)
            with _collector_paused():
                pickler.dump(dumped)
            pieces = pickler.pieces()
            frozen = may_hold_frozen_sets(pieces) and frozen_orders(pickler.frozen())
            if frozen or may_hold_nan(pieces):
                pickler.unmark()
                pickler = AskingPickler(self._scope, frozen or {})
                pickler.roots = entities
                with _collector_paused():
                    pickler.dump(dumped)
            hidden = _digest(hidden_parts(pickler)) if pickler.hidden else b""
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as problem:  # user code runs in here and may raise anything
            return self._unstorable(values, entities, pickler, kind, problem)
        finally:
            pickler.unmark()
        dump = Dump(
            kind,
            pickler.pieces(),
            [buffer.raw() for buffer in pickler.buffers],
            pickler.codes,
            pickler.uses(),
            pickler.entities,
            hidden=hidden,
            alive=[pickler, values],
            _pickler=pickler,
        )
        dump.fingerprint = self._fingerprint(dump)
        return dump

    def _fingerprint(self, dump: Dump) -> bytes:
        hasher = xxh3_128()
        for piece in dump.pieces:
            hasher.update(piece)
        for buffer in dump.buffers:
            for _, key in self._keys_of(buffer):
                hasher.update(key)
        hasher.update(dump.hidden)
        return hasher.digest()

    def _keys_of(self, buffer: memoryview) -> LeafKeys:
        if not buffer.nbytes:
            return ()
        place = (_address(buffer), buffer.nbytes)
        keys = self._keys.get(place)
        if keys is None:
            keys = self._keys[place] = self._compute_keys(buffer)
        return keys

    def _unstorable(
        self,
        values: tuple[Any, ...],
        entities: dict[int, str],
        pickler: StatePickler,
        kind: str,
        problem: BaseException,
    ) -> Dump:
        scope = self._scope
        # An entity is walked by what it holds: as itself it would be one step.
        roots = tuple(map(vars, values)) if len(entities) == len(values) == 1 else values
        try:
            called = [part for value in values for part in called_at_end(value)]
            seen = walk(
                (*roots, *called),
                scope.namespace,
                lambda obj: scope.entities.identify(obj, scope.in_use),
            )
        except Exception as another:  # an object that lets nobody look at it
            return Dump(kind, uses=Uses(dynamic=True), problem=_describe(another), alive=[values])
        uses = merge_uses(seen.codes, seen.entities, seen.modules)
        if not seen.complete:
            uses = Uses(entities=uses.entities, modules=uses.modules, dynamic=True)
        objects = {
            key: (position, obj)
            for position, (key, obj) in enumerate(seen.objects.items())
            if obj is not values and (id(obj) in pickler.by_value or is_mutable_type(type(obj)))
        }
        why = str(problem) if isinstance(problem, NotStorable) else _describe(problem)
        dump = Dump(
            kind,
            uses=_with_callback(uses, values),
            entities=seen.entities,
            problem=why or type(problem).__name__,
            alive=[seen, values],
            _objects=objects,
        )
        if len(entities) == len(values) == 1 and issubclass(type(values[0]), type):
            dump.fingerprint = self._class_fingerprint(values[0])
        return dump

    def _class_fingerprint(self, cls: type) -> bytes:
        """Tells whether a class that cannot be stored was changed, within this process."""
        parts = list(class_marks(cls))
        for key, value in class_state(cls):
            pickler = StatePickler(self._scope)
            try:
                pickler.dump(value)
            except (KeyboardInterrupt, MemoryError):
                raise
            except BaseException:
                mark = state_mark(value)
                if mark is None:
                    return b""
                parts.append(f"{key}={mark}".encode())
            else:
                dump = Dump("", [pickler.stream()], [buffer.raw() for buffer in pickler.buffers])
                parts += (key.encode("utf-8", "surrogatepass"), self._fingerprint(dump))
            finally:
                pickler.unmark()
        return xxh3_128(b"\0".join(parts)).digest()


def _digest(parts: Iterable[bytes | memoryview]) -> bytes:
    hasher = xxh3_128()
    for part in parts:
        hasher.update(part)
    return hasher.digest()


def _with_callback(uses: Uses, values: tuple[Any, ...]) -> Uses:
    if not any(map(called_at_end, values)):
        return uses
    return msgspec.structs.replace(uses, attributes=(*uses.attributes, CALLBACK))


@contextmanager
def _collector_paused() -> Iterator[None]:
    """A million tuples at once would have every object of the notebook visited several times."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _type_name(value: Any) -> str:
    kind = type(value)
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", None) else f"{module}.{kind.__qualname__}"


def _describe(problem: BaseException) -> str:
    try:
        return f"{type(problem).__name__}: {problem}"[:200]
    except Exception:  # an exception of the user's whose text cannot be had
        return type(problem).__name__


def _address(buffer: memoryview) -> int:
    import ctypes

    if buffer.readonly:
        # ctypes takes writable buffers only; the id of the exporter tells as much here.
        return -id(buffer.obj)
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
