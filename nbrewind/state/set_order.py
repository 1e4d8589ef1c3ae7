"""The order of sets: a restored set iterates, and grows, as the original does.

A set is a hash table, and iterating follows its slots. Where an element lies depends
on the size of the table and on what was there when it was added, so that the same
elements added in another order, or to a table that grew in another way, come out in
another order. Pickle adds them in the order of iteration: for three words, one set in
six is shuffled by that. So the table of a set is looked at when it is stored. Where
plain loading would not give the same table, a `Layout` says in which order, and among
which placeholders, the elements have to be added.

The algorithm is that of CPython's `Objects/setobject.c` (3.11 to 3.13). Each layout is
tried out on stand-ins that have the hashes of the elements, and a set whose table cannot
be made that way is not storable. No code of the elements runs here.
"""

from __future__ import annotations

import ctypes
import functools
import pickle
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress, takewhile
from typing import Any, Literal

from nbrewind.errors import NotStorable
from nbrewind.state.opcodes import may_hold, memoizing

AnySet = set[Any] | frozenset[Any]

_SMALLEST = 8
"""Slots of the table that is part of the set itself."""
_LINEAR_PROBES = 9
_PERTURB_SHIFT = 5
_BYTES = ctypes.sizeof(ctypes.c_void_p)
_WORD = 1 << (8 * _BYTES)
_WORD_FORMAT: Literal["q", "i"] = "q" if _BYTES == 8 else "i"
_FAR = 1 << 32
"""Keeps the hashes of stand-ins away from those of small numbers."""
_TOGETHER = 256
"""Frozen sets that are tried out together: as many as stay in the processor's cache."""
_PLAIN = {str, bytes, int, float, bool, complex}
"""Types whose hash and equality run no code but Python's own."""
_BY_ADDRESS: Any = object.__hash__
_HEAD = object.__basicsize__
"""Where in a set its own fields begin: fill, used, mask, table."""
_HEAD_FIELDS = struct.Struct("nnnN")
_SET, _FROZEN_SET = memoizing(pickle.EMPTY_SET), memoizing(pickle.FROZENSET)
"""What a stream has where a set begins, or a frozen set ends."""

Layout = tuple[set[Any], int, tuple[int, ...], tuple[Any, ...]]
"""A set, the size of its table, the slots that removed elements left unusable, and the
elements in the order in which they are to be added."""

FrozenOrder = tuple[bool, tuple[Any, ...]]
"""Whether the table is made for all elements at once, and the elements in order of adding."""


@dataclass(frozen=True, slots=True)
class _Table:
    """The table of a set, without the elements."""

    size: int
    occupied: tuple[int, ...]
    """Slots that hold an element, in the order of iteration."""
    hashes: tuple[int, ...]
    gaps: tuple[int, ...]
    """Slots whose element was removed: they are not used again, and count as filled."""

    @property
    def is_new(self) -> bool:
        """Whether nothing but additions of a few elements can have happened."""
        return self.size == _SMALLEST and not self.gaps


class _Stand:
    """Stands in for an element, or for one that was removed: it has its hash."""

    __slots__ = ("_hash",)

    def __init__(self, hash_value: int) -> None:
        self._hash = hash_value

    def __hash__(self) -> int:
        return self._hash


def may_hold_sets(pieces: Iterable[bytes]) -> bool:
    """Whether a stream, in the pieces the pickler wrote, may contain a set."""
    return may_hold(_SET, pieces)


def may_hold_frozen_sets(pieces: Iterable[bytes]) -> bool:
    """Whether a stream, in the pieces the pickler wrote, may contain a frozen set."""
    return may_hold(_FROZEN_SET, pieces)


def layouts(sets: Iterable[AnySet]) -> list[Layout]:
    """How to lay out those of some sets that plain loading would lay out otherwise.

    Raises:
        NotStorable: the order of a set cannot be made again.
    """
    found = []
    for target in sets:
        if type(target) is not frozenset:
            layout = _layout(target)
            if layout is not None:
                found.append(layout)
    return found


def lay_out(layout: Layout) -> None:
    """Give a set that was just loaded the order it had."""
    target, size, gaps, elements = layout
    set.clear(target)
    _fill(target, size, gaps, elements)


def frozen_orders(sets: Iterable[AnySet]) -> dict[int, FrozenOrder]:
    """How to make the frozen sets, by id, that plain loading would order otherwise.

    Raises:
        NotStorable: the order of a set cannot be made again.
    """
    found: dict[int, FrozenOrder] = {}
    frozen = [target for target in sets if type(target) is frozenset]
    for at in range(0, len(frozen), _TOGETHER):
        part = frozen[at : at + _TOGETHER]
        if not _load_as_they_are(part):
            found.update(_orders(part))
    return found


def _orders(frozen: Iterable[frozenset[Any]]) -> Iterator[tuple[int, FrozenOrder]]:
    for target in frozen:
        if len(target) > 1 and not _load_as_they_are([target]):
            order = _frozen_order(target)
            if order is not None:
                yield id(target), order


def _load_as_they_are(frozen: Sequence[frozenset[Any]]) -> bool:
    """Whether plain loading surely keeps the order of all these sets; most often it does."""
    elements = list(chain.from_iterable(frozen))
    if not _are_plain(elements):
        return False
    return elements == list(chain.from_iterable(map(frozenset, map(tuple, frozen))))


def make_frozen(order: FrozenOrder) -> frozenset[Any]:
    """A frozen set with the order it had."""
    at_once, elements = order
    return frozenset(dict.fromkeys(elements)) if at_once else frozenset(elements)


def _layout(target: AnySet) -> Layout | None:
    elements = _elements(target)
    is_plain = _are_plain(elements)
    if is_plain and _have_one_table(target, set(elements)):
        return None  # so it is with nearly all small ones, and values have many
    table = _read(target)
    if _has_no_order(elements) or (len(elements) < 2 and table.is_new):
        return None
    stands = elements if is_plain else tuple(map(_Stand, table.hashes))
    if not is_plain and _read(set(stands)) == table:
        return None
    order = _order_of_adding(table)
    if order is not None and isinstance(target, set):
        made: set[Any] = set()
        _fill(made, table.size, table.gaps, [stands[place] for place in order])
        if _have_one_table(made, target) if is_plain else _read(made) == table:
            return target, table.size, table.gaps, tuple(elements[place] for place in order)
    raise NotStorable("a set whose order cannot be restored")


def _frozen_order(target: AnySet) -> FrozenOrder | None:
    elements = _elements(target)
    if _has_no_order(elements):
        return None
    table = _read(target)
    stands = _stands(elements, table)
    if tuple(frozenset(stands)) == stands:
        return None
    order = _order_of_adding(table) or []
    for at_once in (True, False):
        if tuple(make_frozen((at_once, tuple(stands[place] for place in order)))) == stands:
            return at_once, tuple(elements[place] for place in order)
    raise NotStorable("a frozen set whose order cannot be restored")


def _elements(target: AnySet) -> tuple[Any, ...]:
    """The elements as they lie, whatever a class of the user's makes of iteration."""
    if isinstance(target, set):
        return tuple(set.__iter__(target))
    return tuple(frozenset.__iter__(target))


def _has_no_order(elements: tuple[Any, ...]) -> bool:
    """Whether elements lie where their addresses have it, which no two sessions share."""
    kinds = set(map(type, elements))
    if float in kinds and any(type(each) is float and each != each for each in elements):
        return True
    return any(kind.__hash__ is _BY_ADDRESS for kind in kinds)


def _stands(elements: tuple[Any, ...], table: _Table) -> tuple[Any, ...]:
    """Objects with the hashes of the elements whose methods run no code of theirs."""
    if _are_plain(elements):
        return elements
    return tuple(map(_Stand, table.hashes))


def _fill(target: set[Any], size: int, gaps: Iterable[int], elements: Sequence[Any]) -> None:
    """Add elements to an empty set so that its table has this size and these gaps.

    A table takes on a size when it is made for a dictionary of known length, or when many
    elements were removed from it at once; otherwise it grows in steps that depend on its past.
    """
    removed = [_Stand(slot + _FAR * size) for slot in gaps]
    entries = [*removed, *elements]
    first = 0
    if size > _SMALLEST:
        first = max(5, size // 4)
        if len(entries) >= first:
            set.update(target, dict.fromkeys(entries[:first]))
        else:
            first = size // 8
            _take_size(target, entries[:first])
    set.update(target, entries[first:])
    for entry in removed:
        set.discard(target, entry)


def _take_size(target: set[Any], entries: list[Any]) -> None:
    """Add entries and have the table of the set made eight times as large as they are many."""
    count = 16
    while count - 1 < 2 * len(entries) + 8:
        count *= 2
    others = list(map(_Stand, range(count - 1 - len(entries))))
    set.update(target, dict.fromkeys([*entries, *others]))
    set.difference_update(target, others)


def _order_of_adding(table: _Table) -> list[int] | None:
    """An order in which the elements end up in their slots, each as a place in `hashes`.

    An element lies in the first slot of its path that was free when it came, so what lies
    in the slots before was there already. Elements that lie where their paths begin come
    first: they go there whatever else the table holds.
    """
    mask = table.size - 1
    placed = set(table.gaps)
    order: list[int] = []
    displaced: list[int] = []
    for place, (slot, value) in enumerate(zip(table.occupied, table.hashes, strict=True)):
        if value & mask == slot:
            placed.add(slot)
            order.append(place)
        else:
            displaced.append(place)
    while displaced:
        waiting = []
        for place in displaced:
            slot = table.occupied[place]
            before = takewhile(slot.__ne__, _path(table.hashes[place], mask))
            if placed.issuperset(before):
                placed.add(slot)
                order.append(place)
            else:
                waiting.append(place)
        if len(waiting) == len(displaced):
            return None
        displaced = waiting
    return order


def _path(value: int, mask: int) -> Iterator[int]:
    """The slots in which an element of this hash may lie, the first one first; without end."""
    slot = value & mask
    perturb = value % _WORD
    while True:
        yield slot
        if slot + _LINEAR_PROBES <= mask:
            yield from range(slot + 1, slot + _LINEAR_PROBES + 1)
        perturb >>= _PERTURB_SHIFT
        slot = (slot * 5 + 1 + perturb) & mask


def _read(target: AnySet) -> _Table:
    if not _is_readable():
        raise NotStorable("the order of sets cannot be seen in this Python")
    return _read_memory(target)


def _are_plain(elements: Sequence[Any]) -> bool:
    """Whether hashing and comparing elements runs no code but Python's own."""
    kinds = set(map(type, elements))
    if tuple in kinds:
        inner = chain.from_iterable(each for each in elements if type(each) is tuple)
        kinds = (kinds - {tuple}).union(map(type, inner))
    return kinds <= _PLAIN


def _have_one_table(one: AnySet, other: AnySet) -> bool:
    """Whether two sets hold the same objects in the same slots, and have the same gaps."""
    if not _is_readable():
        return False
    fill, used, mask, address = _head(one)
    head = _head(other)
    if head[:3] != (fill, used, mask):
        return False
    size = 2 * (mask + 1) * _BYTES
    return ctypes.string_at(address, size) == ctypes.string_at(head[3], size)


def _head(target: AnySet) -> tuple[int, int, int, int]:
    """The fields of a set: slots filled, elements, size of the table less one, its address."""
    return _HEAD_FIELDS.unpack(ctypes.string_at(id(target) + _HEAD, _HEAD_FIELDS.size))


def _read_memory(target: AnySet) -> _Table:
    _, _, mask, address = _head(target)
    words = memoryview(ctypes.string_at(address, 2 * (mask + 1) * _BYTES)).cast(_WORD_FORMAT)
    keys, hashes = words[0::2].tolist(), words[1::2].tolist()
    if -1 not in hashes:
        taken = list(compress(range(mask + 1), keys))
        return _Table(mask + 1, tuple(taken), tuple(compress(hashes, keys)), ())
    taken = [slot for slot, key in enumerate(keys) if key and hashes[slot] != -1]
    gaps = tuple(slot for slot, value in enumerate(hashes) if value == -1)
    return _Table(mask + 1, tuple(taken), tuple(hashes[slot] for slot in taken), gaps)


@functools.cache
def _is_readable() -> bool:
    """Whether sets look in memory as they are known to."""
    probe = {3, 5, 6}
    probe.discard(5)
    fill, used, mask, address = _head(probe)
    if (fill, used, mask) != (3, 2, _SMALLEST - 1) or not address:
        return False
    return _read_memory(probe) == _Table(_SMALLEST, (3, 6), (3, 6), (5,))
