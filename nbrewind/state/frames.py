"""pandas objects: copy-on-write survives a restore, and indexes tie nothing together.

`s = df["a"]` shares memory with `df` until one of them is written to; pandas
knows by a reference count on the block. A restore that kept the shared memory
but not the count would let a write to `s` show up in `df`. So block managers are
rebuilt with the counts linked again. The values of an index are immutable: it is
captured apart from the stream around it, and two frames that share one stay
independent. An index that is a value of its own is tied to the frames it belongs to.
"""

from __future__ import annotations

import pickle
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler


def reduce_frame(pickler: StatePickler, frame: Any) -> Any:
    """Leave a frame or series to pandas; its class's list of metadata names is no shared state."""
    pickler.ignored.add(id(frame._metadata))
    return NotImplemented


def reduce_cached(pickler: StatePickler, obj: Any) -> Any:
    """Reduce an array, group or window of pandas without what its properties have cached."""
    if "_cache" not in getattr(obj, "__dict__", ()):
        return NotImplemented
    make, args, *rest = obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    return make, args, *map(_without_cache, rest)


def _without_cache(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: value for key, value in state.items() if key != "_cache"}
    if isinstance(state, tuple):  # an array's attributes are part of it only if there are any
        return tuple(_without_cache(part) for part in state if not _is_cache_only(part))
    return state


def _is_cache_only(part: Any) -> bool:
    return isinstance(part, dict) and part.keys() <= {"_cache"}


def reduce_index(pickler: StatePickler, index: Any) -> Any:
    """Reduce an index by value, apart from the stream around it."""
    pickler.lent.setdefault(id(index), False)
    if type(index).__name__ == "RangeIndex":
        return index.__reduce__()[:2]  # it has no parts that another could share
    known = pickler.nested.get(id(index))
    if known is None:
        inner = pickler.child()
        inner.dump(_IndexParts(index))
        known = (inner.stream(), inner.buffers, index)
        pickler.absorb(inner)
        pickler.nested[id(index)] = known
    stream, buffers, _ = known
    return load_index, (stream, *buffers)


class _IndexParts:
    """Carries an index into a stream of its own, past the reducer for indexes."""

    __slots__ = ("index",)

    def __init__(self, index: Any) -> None:
        self.index = index

    def __reduce__(self) -> Any:
        make, args, *rest = self.index.__reduce__()
        return make, args, *map(_without_cache, rest)


def load_index(stream: bytes, *buffers: Any) -> Any:
    """An index from its own stream."""
    return pickle.loads(stream, buffers=buffers)


def reduce_string_type(pickler: StatePickler, dtype: Any) -> Any:
    """Reduce the type of text columns without the NaN it is made with.

    Each frame with text has one, and a stream with a NaN is written a second time.
    """
    make, args = dtype.__reduce__()
    nan = sys.modules["numpy"].nan
    if len(args) != 2 or args[1] is not nan:
        return NotImplemented
    return make_string_type, (make, args[0])


def make_string_type(make: Any, storage: str) -> Any:
    """The type of text columns whose missing values are NaN."""
    return make(storage, sys.modules["numpy"].nan)


def reduce_manager(pickler: StatePickler, manager: Any) -> Any:
    """Reduce a block manager as pandas does, to be rebuilt with its references linked."""
    for axis in manager.axes:
        pickler.lent.setdefault(id(axis), True)
    return make_manager, manager.__reduce__()


def make_manager(make: Any, args: tuple[Any, ...], *state: Any) -> Any:
    """A block manager whose blocks know which other restored blocks share their memory."""
    from nbrewind.state.restoring import current_restore

    manager = make(*args)
    if state and state[0] is not None:
        manager.__setstate__(state[0])
    references = current_restore().frame_references
    for block in manager.blocks:
        key = _memory_key(block.values)
        shared = references.get(key)
        if shared is None:
            references[key] = (block.refs, block.values)
        else:
            block.refs = shared[0]
            shared[0].add_reference(block)
    return manager


def _memory_key(values: Any) -> int:
    """Identity of the memory below a block's values."""
    from nbrewind.state.arrays import root_of

    numpy = sys.modules["numpy"]
    array = values if isinstance(values, numpy.ndarray) else getattr(values, "_ndarray", None)
    return id(values) if array is None else id(root_of(array))
