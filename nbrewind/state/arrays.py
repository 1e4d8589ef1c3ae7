"""numpy arrays: owners by their buffer, views by where they lie in their owner.

A base is stored once however many views it has, and views are views again after
a restore: `(owner, offset, shape, strides)`. Owners own their data again.
Only used when numpy is imported already.
"""

from __future__ import annotations

import mmap
import pickle
from typing import TYPE_CHECKING, Any

from nbrewind.errors import NotStorable
from nbrewind.state.elements import make_object_owner, pack_elements

if TYPE_CHECKING:
    import numpy as np

    from nbrewind.state.pickling import StatePickler


SMALL = 1024
"""Bytes up to which an array's content is part of the stream: a blob of its own costs more."""


FROZEN = 0
"""Stands for the owner of memory that nobody writes to: sharing it ties nothing together."""


def address(array: np.ndarray[Any, Any]) -> int:
    """Address of an array's first element; quiet even for results of `broadcast_to`."""
    return int(array.__array_interface__["data"][0])


def owner_of(array: np.ndarray[Any, Any]) -> int:
    """What identifies the owner of an array's memory: usually the array itself.

    Memory of another library that an array only shows, and lets nobody write to, is `FROZEN`.
    """
    base = array.base
    if base is None or isinstance(base, (bytearray, memoryview, mmap.mmap)) or _is_writeable(array):
        return id(array)
    return FROZEN


def root_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array at the end of the chain of bases: the one that owns or borrows the memory."""
    kind = type(array)
    base = _array_below(array)
    while type(base) is kind:
        array, base = base, _array_below(base)
    return array


def _array_below(array: np.ndarray[Any, Any]) -> Any:
    """The base of an array, also of one that `as_strided` made, which puts a thing between."""
    base: Any = array.base
    return base.base if type(base).__name__ == "DummyArray" else base


def reduce_array(pickler: StatePickler, array: np.ndarray[Any, Any]) -> Any:
    """Reduce an exact `numpy.ndarray`."""
    dtype: Any = array.dtype
    plain = dtype.str if dtype.fields is None and dtype.metadata is None else dtype
    if array.base is not None and type(_array_below(array)) is type(array):
        return _reduce_view(array, plain)
    if dtype.hasobject:
        return _reduce_objects(array)
    if dtype.kind not in "biufcSUVmM":  # variable-width strings keep a heap of their own
        return NotImplemented
    pickler.arrays.append(array)
    flags = array.flags
    content: Any
    order: Any = "F" if flags.f_contiguous and not flags.c_contiguous else "C"
    if array.nbytes <= SMALL:
        content = array.tobytes(order)
    else:
        flat: Any = array.T if order == "F" else array
        if not flat.flags.c_contiguous:
            flat = flat.copy()
        content = pickle.PickleBuffer(flat.reshape(-1).view("u1"))
    return make_owner, (content, array.shape, plain, order, _is_writeable(array))


def _reduce_view(array: np.ndarray[Any, Any], dtype: Any) -> Any:
    if array.dtype.hasobject and not _is_plain_object_view(array):
        raise NotStorable("a strided view of an array of objects")
    root = root_of(array)
    offset = address(array) - address(root)
    place = (root, offset, array.shape, array.strides, dtype, _is_writeable(array))
    return make_view, place


def _is_writeable(array: np.ndarray[Any, Any]) -> bool:
    if array.base is None:
        return bool(array.flags.writeable)
    return not array.__array_interface__["data"][1]  # quiet, as in `address`


def _reduce_objects(array: np.ndarray[Any, Any]) -> Any:
    packed = pack_elements(array) if array.dtype == object else None
    if packed is None:
        return NotImplemented
    raw, nans = packed
    content = raw if len(raw) <= SMALL else pickle.PickleBuffer(raw)
    order = "C" if array.flags.c_contiguous else "F"
    return make_object_owner, (content, nans, array.shape, order, _is_writeable(array))


def make_owner(
    buffer: Any, shape: tuple[int, ...], dtype: Any, order: str, writeable: bool
) -> np.ndarray[Any, Any]:
    """An array that owns its data."""
    import numpy as np

    array: np.ndarray[Any, Any] = np.empty(shape, dtype=dtype, order="F" if order == "F" else "C")
    if array.nbytes:
        flat: Any = array.T if order == "F" else array
        flat.reshape(-1).view(np.uint8)[:] = np.frombuffer(buffer, np.uint8)
    if not writeable:
        array.flags.writeable = False
    return array


def make_view(
    owner: np.ndarray[Any, Any],
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: Any,
    writeable: bool,
) -> np.ndarray[Any, Any]:
    """A view into an owner."""
    import numpy as np

    if owner.dtype.hasobject:
        view = _object_view(owner, offset, shape, strides)
    else:
        view = np.ndarray(shape, dtype, _flat_bytes(owner), offset, strides)
    if not writeable:
        view.flags.writeable = False
    return view


def _is_plain_object_view(array: np.ndarray[Any, Any]) -> bool:
    return array.ndim == 1 or array.flags.c_contiguous or array.flags.f_contiguous


def _object_view(
    owner: np.ndarray[Any, Any], offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    """A view of an array of objects: numpy allows no raw offsets there, only slices."""
    flat = owner.reshape(-1, order="A")
    first = offset // owner.itemsize
    if len(shape) == 1 and shape[0] > 0:
        step = strides[0] // owner.itemsize or 1
        last = first + step * (shape[0] - 1)
        stop = last + (1 if step > 0 else -1)
        return flat[first : stop if stop >= 0 else None : step]
    size = 1
    for length in shape:
        size *= length
    block = flat[first : first + size]
    by_row = owner.itemsize
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length > 1 and stride != by_row:
            return block.reshape(shape[::-1]).T
        by_row *= length
    return block.reshape(shape)


def _flat_bytes(owner: np.ndarray[Any, Any]) -> Any:
    """The owner itself where numpy takes it as a buffer with any strides, else its bytes."""
    import numpy as np

    if owner.flags.c_contiguous:
        return owner if owner.dtype.kind not in "mM" else owner.view(np.int64)
    return owner.T if owner.dtype.kind not in "mM" else owner.T.view(np.int64)


def refuse_memmap(pickler: StatePickler, array: Any) -> Any:
    """A memory-mapped file is more than its bytes: opening it anew is the cell's business."""
    raise NotStorable("a memory-mapped array lives in its file")
