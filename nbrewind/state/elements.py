"""Columns of text: arrays of objects that are all strings, numbers or markers of what is missing.

Written apart from the stream around them, without the pickler's memo. That is ten times
faster than pickling them one by one, and equal columns have equal bytes whichever of their
strings are one object. Code cannot rely on that; after a restore equal strings are one.
"""

from __future__ import annotations

import datetime
import decimal
import operator
import pickle
import sys
from itertools import compress
from typing import TYPE_CHECKING, Any

from nbrewind.state.memo import Pieces

if TYPE_CHECKING:
    import numpy as np

_PLAIN = frozenset(
    map(
        id,
        (
            *(str, bytes, int, float, complex, bool, type(None)),
            *(decimal.Decimal, datetime.date, datetime.timedelta),
        ),
    )
)
"""Exact types of elements that hold nothing else."""
_MISSING = frozenset({"NAType", "NaTType"})
"""Types of pandas's markers, of which there is one each."""


def pack_elements(
    array: np.ndarray[Any, Any],
) -> tuple[bytes, dict[int, float]] | None:
    """What the elements of a contiguous array of objects are, if all are plain.

    Returns:
        The elements as bytes, and by their places those NaNs that are not numpy's own: some
        code may know one by its identity. None if not all elements are plain.
    """
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        return None
    elements = array.ravel("K").tolist()
    try:
        kinds = set(map(type, elements))
    except Exception:  # a metaclass that hashes its classes in its own way
        return None
    has_markers = any(map(_is_marker, kinds))
    if not all(id(kind) in _PLAIN or _is_marker(kind) for kind in kinds):
        return None
    nans: dict[int, float] = {}
    if float in kinds:
        if has_markers:
            return None  # they cannot be compared
        unequal = compress(range(len(elements)), map(operator.ne, elements, elements))
        nans = {place: elements[place] for place in unequal if type(elements[place]) is float}
    usual = sys.modules["numpy"].nan
    pieces: list[bytes] = []
    pickler = pickle.Pickler(Pieces(pieces.append), 5)
    pickler.fast = True
    pickler.dump((elements, [place for place, nan in nans.items() if nan is usual]))
    return b"".join(pieces), {place: nan for place, nan in nans.items() if nan is not usual}


def make_object_owner(
    content: Any,
    nans: dict[int, float],
    shape: tuple[int, ...],
    order: str,
    writeable: bool,
) -> np.ndarray[Any, Any]:
    """An array of objects from what `pack_elements` returned."""
    import numpy as np

    elements, usual = pickle.loads(content)
    for place in usual:
        elements[place] = np.nan
    for place, nan in nans.items():
        elements[place] = nan
    known: dict[str, str] = {}
    flat = np.empty(len(elements), dtype=object)
    flat[:] = [known.setdefault(e, e) if type(e) is str else e for e in elements]
    # The result owns its data, as the original did.
    array = np.empty(shape, dtype=object, order="F" if order == "F" else "C")
    array.ravel("K")[...] = flat
    if not writeable:
        array.flags.writeable = False
    return array


def _is_marker(kind: type) -> bool:
    return kind.__name__ in _MISSING and kind.__module__.startswith("pandas._libs.")
