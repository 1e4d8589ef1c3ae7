"""The pickler of captured state: one C pass, protocol 5, buffers out of band.

The pass yields everything capture needs at once: the stream, the buffers, which
code and entities the value reaches, and (from the pickler's own memo) which
objects it consists of, so that shared ones are found without a second walk.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
import pickle
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

from cloudpickle import cloudpickle

from nbrewind.errors import NotStorable
from nbrewind.model.records import Uses
from nbrewind.state.clocks import CLOCK_NAMES
from nbrewind.state.code import ALL_NAMES, FINALISER, CodeUses, code_digest, code_uses
from nbrewind.state.codecs import Reducer, find_reducer
from nbrewind.state.definitions import (
    load_entity,
    load_main,
    reduce_cell,
    reduce_class,
    reduce_code,
    reduce_function,
)
from nbrewind.state.entities import (
    MAIN,
    EntityTable,
    is_entity_class,
    is_entity_function,
    is_notebook_class,
)
from nbrewind.state.finalisers import CALLBACK
from nbrewind.state.function_tools import is_dispatcher, reduce_dispatcher
from nbrewind.state.instances import reduce_instance, runs_code_when_loaded
from nbrewind.state.memo import Pieces, memo_objects, references_in
from nbrewind.state.mutability import is_mutable_type
from nbrewind.state.references import is_by_reference
from nbrewind.state.set_order import FrozenOrder

INTERESTING_ATTRIBUTES = frozenset(
    {
        FINALISER,
        CALLBACK,
        "seed",
        "getstate",
        "setstate",
        "get_state",
        "set_state",
        "manual_seed",
        "initial_seed",
        "get_rng_state",
        "set_rng_state",
        "environ",
        "getenv",
        "getcwd",
        "cwd",
        "path",
    }
    | CLOCK_NAMES
)
"""Attribute names worth keeping in a record: they consult ambient state explicitly."""

_DATACLASS_SINGLETONS = {
    id(getattr(dataclasses, name)): name
    for name in (
        *("MISSING", "KW_ONLY", "_FIELD", "_FIELD_CLASSVAR", "_FIELD_INITVAR"),
        "_HAS_DEFAULT_FACTORY",
    )
}
_HOOKS = (
    "__getstate__",
    "__setstate__",
    "__reduce__",
    "__reduce_ex__",
    "__getnewargs__",
    "__getnewargs_ex__",
)


class Scope:
    """What the picklers of one capture share: the namespace and the entities."""

    def __init__(
        self,
        namespace: dict[str, Any],
        entities: EntityTable,
        in_use: Callable[[str], bool] = lambda entity: False,
    ) -> None:
        self.namespace = namespace
        self.entities = entities
        self.in_use = in_use


class StatePickler(pickle.Pickler):
    """Pickles one value (or a tuple of values), and notes what it came across."""

    def __init__(self, scope: Scope, root: Any = None, root_entity: str = "") -> None:
        self._written: list[bytes] = []
        self.buffers: list[pickle.PickleBuffer] = []
        super().__init__(
            Pieces(self._written.append), protocol=5, buffer_callback=self.buffers.append
        )
        self.scope = scope
        self.roots: dict[int, str] = {id(root): root_entity} if root_entity else {}
        """Entities to be written by value in this stream: id of the object → entity id."""
        self.codes: dict[str, types.CodeType] = {}
        self.code_uses: list[CodeUses] = []
        self.entities: dict[str, Any] = {}
        self.modules: set[str] = set()
        self.function_cells: set[int] = set()
        self.by_value: dict[int, Any] = {}
        """Functions and classes that are in this stream with their state, by id."""
        self.marked: list[type] = []
        """Classes of the notebook that pickling leaves its cache of slots on."""
        self.nans: dict[int, tuple[int, float]] = {}
        """NaN floats that are the notebook's own, by id → (number, the object)."""
        self.has_sets_of_subclasses = False
        self.hidden: list[tuple[Any, dict[str, Any]]] = []
        """Objects whose class leaves attributes out of their pickle, and these attributes."""
        self.frozen_sets: dict[int, FrozenOrder] = {}
        """Frozen sets that plain loading would order otherwise, by id."""
        self.ignored: set[int] = set()
        """Ids of mutable objects that belong to a library and tie nothing together."""
        self.lent: dict[int, bool] = {}
        """Indexes by id → whether only frames hold it here: frames share indexes by the dozen,
        and nobody sees it unless an index is a value of its own."""
        self.takes_open_figures = False
        """Whether figures that pyplot has open may be in the stream, which is then for no store."""
        self.memory_roots: list[tuple[int, int, int]] = []
        """(address, bytes, id of owner) of memory captured by codecs."""
        self.arrays: list[Any] = []
        """numpy arrays whose own memory was captured."""
        self.keep_alive: list[Any] = []
        self.nested: dict[int, tuple[bytes, list[pickle.PickleBuffer], Any]] = {}
        self._storages: dict[int, Any] = {}
        self._reducers: dict[type, Reducer | None] = {}
        """How objects are reduced, by type, where one look told for all; None: as pickle does."""

    # -- results ------------------------------------------------------------------------

    def stream(self) -> bytes:
        """The in-band bytes so far."""
        if len(self._written) != 1:
            self._written[:] = [b"".join(self._written)]
        return self._written[0]

    def pieces(self) -> list[bytes]:
        """What `stream` would join; large values of type `bytes` are among them uncopied."""
        # A large bytearray is handed to the file as it is, and could change.
        self._written[:] = [p if type(p) is bytes else bytes(p) for p in self._written]
        return list(self._written)

    def uses(self) -> Uses:
        """What code reachable from the value may touch."""
        return merge_uses(self.code_uses, self.entities, self.modules)

    def parts(self) -> list[Any]:
        """The objects that the stream can refer to, in no order, and some of the pickler's own."""
        met = self._met()
        return [*met, *(nan for _, nan in self.nans.values())] if self.nans else met

    def sets(self) -> list[set[Any] | frozenset[Any]]:
        """The sets in the stream, but for those that are exactly frozen sets."""
        ours = set(map(id, vars(self).values()))
        if not self.has_sets_of_subclasses:
            return [obj for obj in self._met() if type(obj) is set and id(obj) not in ours]
        met = [obj for obj in self._met() if issubclass(type(obj), (set, frozenset))]
        return [obj for obj in met if type(obj) is not frozenset and id(obj) not in ours]

    def frozen(self) -> list[frozenset[Any]]:
        """The frozen sets in the stream."""
        return [obj for obj in self._met() if type(obj) is frozenset]

    def _met(self) -> list[Any]:
        return memo_objects(self)

    def tying(self, parts: Iterable[Any]) -> list[Any]:
        """Those of some `parts` that tie two names together if both have them."""
        kinds: dict[int, bool] = {id(Scope): False, id(float): True}
        found = []
        for part in parts:
            kind = id(type(part))
            mutable = kinds.get(kind)
            if mutable is None:
                mutable = kinds[kind] = is_mutable_type(type(part))
            # The only floats here are NaNs: immutable, but their identity can be seen.
            tying = id(part) in self.by_value or id(part) in self.lent
            if tying or (mutable and id(part) not in self.ignored):
                found.append(part)
        return found

    def positions(self, parts: Iterable[Any]) -> dict[int, int]:
        """Where in the stream some of its `parts` are, by id; NaNs count downwards from -1."""
        nans: list[Any] = []
        others: list[Any] = []
        for part in parts:
            (nans if id(part) in self.nans else others).append(part)
        places = {id(nan): -1 - self.nans[id(nan)][0] for nan in nans}
        self.stream()
        self.fast = True  # nothing is added to the memo: the stream may yet go on
        self.dump(others)  # each is in the memo: written as a reference
        self.fast = False
        places.update(zip(map(id, others), references_in(self._written[1:]), strict=True))
        del self._written[1:]
        return places

    def unmark(self) -> None:
        """Take back what pickling left on classes: user code never sees a capture."""
        for cls in self.marked:
            if "__slotnames__" in cls.__dict__:
                type.__delattr__(cls, "__slotnames__")
        self.marked.clear()

    # -- for reducers ---------------------------------------------------------------------

    def child(self) -> StatePickler:
        """A pickler for a part whose objects are not to be seen as shared."""
        child = StatePickler(self.scope)
        child.marked = self.marked
        child._reducers = self._reducers
        return child

    def absorb(self, child: StatePickler) -> None:
        """Take over what a child pickler noted."""
        self.codes.update(child.codes)
        self.code_uses += child.code_uses
        self.entities.update(child.entities)
        self.modules |= child.modules
        self.keep_alive += child.keep_alive

    def add_code(self, code: types.CodeType) -> str:
        """Note a code object; returns its canonical digest."""
        digest = code_digest(code)
        if digest not in self.codes:
            self.codes[digest] = code
            self.code_uses.append(code_uses(code))
        return digest

    def globals_owner(self, function: types.FunctionType) -> str:
        """The module whose dictionary a function runs in; empty for the notebook."""
        space = function.__globals__
        if space is self.scope.namespace:
            return ""
        name = space.get("__name__")
        module = sys.modules.get(name) if isinstance(name, str) else None
        if module is None or vars(module) is not space:
            raise NotStorable(f"function {function.__qualname__} runs in a namespace of its own")
        return str(name)

    def storage_of(self, tensor: Any) -> Any:
        """One storage object for all tensors over the same memory."""
        storage = tensor.untyped_storage()
        return self._storages.setdefault(storage._cdata, storage)

    # -- dispatch -------------------------------------------------------------------------

    def reducer_override(self, obj: Any) -> Any:
        """Reduce what pickle alone would get wrong; everything else as pickle does."""
        try:
            reducer = self._reducers.get(type(obj), StatePickler._reduce)
        except Exception:  # a metaclass that hashes its classes in its own way
            reducer = StatePickler._reduce
        return NotImplemented if reducer is None else reducer(self, obj)

    def _reduce(self, obj: Any) -> Any:
        kind = type(obj)
        self.has_sets_of_subclasses |= issubclass(kind, (set, frozenset))
        if kind is types.FunctionType:
            return self._reduce_function(obj)
        if issubclass(kind, type):
            return self._reduce_class(obj)
        if kind.__module__ == MAIN:
            self._check_instance(kind)
        reducer = find_reducer(kind)
        if reducer is not None:
            self.modules.add(kind.__module__)
            self._note_reducer(kind, reducer)
            return reducer(self, obj)
        if isinstance(kind, enum.EnumMeta) and kind.__module__ == MAIN:
            return (
                (getattr, (kind, obj._name_)) if obj._name_ in kind.__members__ else NotImplemented
            )
        if id(obj) in _DATACLASS_SINGLETONS:
            return _DATACLASS_SINGLETONS[id(obj)]
        if kind is types.CellType:
            return reduce_cell(self, obj)
        if kind is types.CodeType:
            return reduce_code(self, obj)
        if kind is types.ModuleType:
            return self._reduce_module(obj)
        if kind is types.BuiltinFunctionType:
            self.modules.add(obj.__module__ or "")
            return NotImplemented
        if kind is functools.cached_property:
            return functools.cached_property, (obj.func,), _cached_property_state(obj)
        if kind.__module__ == MAIN and runs_code_when_loaded(kind):
            return reduce_instance(kind, obj)
        self.modules.add(kind.__module__)
        if id(kind) in _REDUCERS:
            return _REDUCERS[id(kind)](obj)
        return self._as_pickle_does(kind)

    def _as_pickle_does(self, kind: type) -> Any:
        self._note_reducer(kind, None)
        return NotImplemented

    def _note_reducer(self, kind: type, reducer: Reducer | None) -> None:
        """Reduce all further objects of a type by `reducer` without asking again."""
        if type(kind).__hash__ is type.__hash__:
            self._reducers[kind] = reducer

    def _reduce_function(self, function: types.FunctionType) -> Any:
        scope = self.scope
        if is_entity_function(function, scope.namespace):
            entity = scope.entities.identify(function, scope.in_use)
            if id(function) in self.roots:
                self.by_value[id(function)] = function
                return reduce_function(self, function, entity)
            self.entities[entity] = function
            return load_entity, (entity,)
        if function.__globals__ is not scope.namespace and is_by_reference(function):
            self.modules.add(function.__module__)
            return NotImplemented
        self.by_value[id(function)] = function
        if is_dispatcher(function):
            return reduce_dispatcher(function)
        return reduce_function(self, function, "")

    def _reduce_class(self, cls: type) -> Any:
        scope = self.scope
        if is_entity_class(cls):
            entity = scope.entities.identify(cls, scope.in_use)
            if id(cls) in self.roots:
                self.by_value[id(cls)] = cls
                return reduce_class(cls, entity)
            self.entities[entity] = cls
            return load_entity, (entity,)
        if not is_notebook_class(cls):
            if is_by_reference(cls):
                self.modules.add(cls.__module__)
                return NotImplemented
            if cls in _NAMELESS:
                return type, (_NAMELESS[cls],)
            if cls in _TYPES:
                return getattr, (types, _TYPES[cls])
        self.by_value[id(cls)] = cls
        return reduce_class(cls, "")

    def _check_instance(self, kind: type) -> None:
        """Refuse instances whose own pickling hooks may hide state from change detection."""
        for base in kind.__mro__:
            if base.__module__ != MAIN or isinstance(base, enum.EnumMeta):
                continue
            if "__del__" in base.__dict__:
                raise NotStorable(f"{kind.__qualname__} has a finaliser, which a copy would run")
            for hook in _HOOKS:
                found = base.__dict__.get(hook)
                if getattr(found, "__globals__", None) is self.scope.namespace:
                    raise NotStorable(f"{kind.__qualname__} pickles itself in its own way")
        if "__slotnames__" not in kind.__dict__ and kind not in self.marked[-1:]:
            self.marked.append(kind)

    def _reduce_module(self, module: types.ModuleType) -> Any:
        if module.__dict__ is self.scope.namespace:  # whoever has it can reach every name
            self.code_uses.append(ALL_NAMES)
            return load_main, ()
        if sys.modules.get(module.__name__) is not module or module.__name__ == MAIN:
            raise NotStorable(f"module {module.__name__} cannot be imported by its name")
        self.modules.add(module.__name__)
        return load_module, (module.__name__,)


_REDUCERS: dict[int, Callable[[Any], Any]] = {
    id(kind): reducer for kind, reducer in cloudpickle.Pickler._dispatch_table.items()
}
"""For built-in types that pickle refuses, by the id of the type: user code may define hashes."""

_NAMELESS: dict[type, Any] = {
    type(None): None,
    type(Ellipsis): Ellipsis,
    type(NotImplemented): NotImplemented,
}
_TYPES = {value: name for name, value in vars(types).items() if isinstance(value, type)}
"""Built-in types that only the `types` module has a name for."""


def load_module(name: str) -> types.ModuleType:
    """Import a module by name."""
    return importlib.import_module(name)


_OWN_MODULES = ("nbrewind.", "builtins", "copyreg", MAIN, "_cython_")


def merge_uses(
    codes: Iterable[CodeUses], entities: Iterable[str] = (), modules: Iterable[str] = ()
) -> Uses:
    """What several pieces of code use, together."""
    loads: set[str] = set()
    stores: set[str] = set()
    attributes: set[str] = set()
    reached = set(modules)
    dynamic = False
    for code in codes:
        loads |= set(code.loads)
        stores |= set(code.stores)
        attributes |= INTERESTING_ATTRIBUTES.intersection(code.attributes)
        reached |= set(code.imports)
        dynamic = dynamic or code.dynamic
    reached = {name for name in reached if name and not name.startswith(_OWN_MODULES)}
    return Uses(
        loads=tuple(sorted(loads)),
        stores=tuple(sorted(stores)),
        attributes=tuple(sorted(attributes)),
        entities=tuple(sorted(entities)),
        modules=tuple(sorted(reached)),
        dynamic=dynamic,
    )


def _cached_property_state(obj: Any) -> dict[str, Any]:
    return {key: value for key, value in vars(obj).items() if key != "lock"}
