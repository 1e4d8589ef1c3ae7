"""NaN, the one number whose identity code can see.

`nan in [nan]` is true only for the very same object, so containers that hold NaN
floats keep which one they hold. The C pickler writes floats without asking; only
streams that turn out to contain a NaN are written again by a pickler that asks.
"""

from __future__ import annotations

import math
import re
import struct
import sys
from collections.abc import Iterable

from nbrewind.errors import NotRestorable

_QUIET_NAN = re.compile(rb"\xf8(?<=G[\x7f\xff]\xf8)")
"""How one begins in a stream: opcode BINFLOAT, sign, exponent. The rarest byte is looked for."""


def may_hold_nan(pieces: Iterable[bytes]) -> bool:
    """Whether a stream, given in pieces that end between opcodes, may contain a NaN float."""
    return any(map(_QUIET_NAN.search, pieces))


def name_nan(value: float, number: int) -> str:
    """What stands for a NaN of the notebook's own in a stream.

    Args:
        value: the NaN; its bits are kept.
        number: tells the NaN objects of one stream apart.
    """
    return f"{struct.pack('>d', value).hex()}:{number}"


def load_nan(name: str, loaded: dict[str, float]) -> float:
    """The NaN that has a name in a stream.

    Args:
        name: where a library has it, or what `name_nan` gave.
        loaded: those of this load so far.
    """
    found = library_nans().get(name, loaded.get(name))
    if found is None:
        bits, colon, _ = name.partition(":")
        if not colon:
            raise NotRestorable(f"{name} is not imported here")
        (found,) = struct.unpack(">d", bytes.fromhex(bits))
        loaded[name] = found
    return found


def library_nans() -> dict[str, float]:
    """The NaN objects of libraries that are imported, by where they are."""
    nans = {"math.nan": math.nan}
    numpy = sys.modules.get("numpy")
    value = getattr(numpy, "nan", None)
    if type(value) is float:
        nans["numpy.nan"] = value
    return nans
