"""Columns of Arrow and Polars: their libraries pickle them; whose memory they show is noted.

Both write to none of it, but take an array of numpy as it is where they can: a change of the
array is a change of the column. Where an array and a column share memory, neither is stored.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from nbrewind.state.arrays import FROZEN, address

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler


def reduce_buffer(pickler: StatePickler, buffer: Any) -> Any:
    """Leave a buffer of Arrow to pickle, which takes it out of band."""
    pickler.memory_roots.append((buffer.address, buffer.size, FROZEN))
    return NotImplemented


def reduce_frame(pickler: StatePickler, frame: Any) -> Any:
    """Leave a data frame of Polars to pickle."""
    for series in frame.get_columns():
        reduce_series(pickler, series)
    return NotImplemented


def reduce_series(pickler: StatePickler, series: Any) -> Any:
    """Leave a series of Polars to pickle."""
    # Numbers without gaps are all that may be an array's memory.
    if series.dtype.is_numeric() and not series.null_count():
        for chunk in series.get_chunks():
            with contextlib.suppress(Exception):  # of a type that no array has
                shown = chunk.to_numpy(allow_copy=False)
                pickler.memory_roots.append((address(shown), shown.nbytes, FROZEN))
    return NotImplemented
