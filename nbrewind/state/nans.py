"""NaN, the one number whose identity code can see.

`nan in [nan]` is true only for the very same object, so containers that hold NaN
floats keep which one they hold. The C pickler writes floats without asking; only
streams that turn out to contain a NaN are written again by a pickler that asks.
"""

from __future__ import annotations

import math
import struct
import sys
from typing import Any

from nbrewind.errors import NotRestorable
from nbrewind.state.pickling import Scope, StatePickler

_MARKS = (b"G\x7f\xf8", b"G\xff\xf8")
"""How a quiet NaN begins in a stream: opcode BINFLOAT, sign, exponent."""


def may_hold_nan(stream: bytes) -> bool:
    """Whether a stream may contain a NaN float."""
    return any(mark in stream for mark in _MARKS)


class NanPickler(StatePickler):
    """Writes each NaN float by its identity: a library's by name, others by number."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self._known = {id(value): name for name, value in _library_nans().items()}

    def persistent_id(self, obj: Any) -> str | None:
        """What stands for a NaN in the stream."""
        if type(obj) is not float or obj == obj:
            return None
        known = self._known.get(id(obj))
        if known is not None:
            return known
        number, _ = self.nans.setdefault(id(obj), (len(self.nans), obj))
        return f"{struct.pack('>d', obj).hex()}:{number}"


def load_nan(name: str, loaded: dict[str, float]) -> float:
    """The NaN that `persistent_id` named.

    Args:
        name: what the stream holds.
        loaded: those of this load so far.
    """
    found = _library_nans().get(name, loaded.get(name))
    if found is None:
        bits, colon, _ = name.partition(":")
        if not colon:
            raise NotRestorable(f"{name} is not imported here")
        (found,) = struct.unpack(">d", bytes.fromhex(bits))
        loaded[name] = found
    return found


def _library_nans() -> dict[str, float]:
    nans = {"math.nan": math.nan}
    numpy = sys.modules.get("numpy")
    value = getattr(numpy, "nan", None)
    if type(value) is float:
        nans["numpy.nan"] = value
    return nans
