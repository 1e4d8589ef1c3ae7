"""Whether code reads the clock or the system's entropy, as far as names tell.

Such a cell is reused like others, with a note: its answer is that of the recorded run.
"""

from __future__ import annotations

import re
import types
from collections.abc import Set

_READERS: dict[str, frozenset[str]] = {
    "time": frozenset(
        {"time", "time_ns", "localtime", "gmtime", "ctime", "asctime", "strftime"}
        | {"perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time"}
    ),
    "datetime": frozenset({"now", "utcnow", "today"}),
    "pandas": frozenset({"now", "utcnow", "today"}),
    "uuid": frozenset({"uuid1", "uuid4"}),
    "os": frozenset({"urandom", "getrandom"}),
    "secrets": frozenset(
        {"token_bytes", "token_hex", "token_urlsafe", "choice", "randbelow", "randbits"}
    ),
    "posix": frozenset({"urandom", "getrandom"}),
    "random": frozenset({"SystemRandom"}),
}
"""For each module the names of what reads the clock or entropy."""

CLOCK_NAMES: frozenset[str] = frozenset().union(*_READERS.values())
"""All of those names."""

_UNSEEDED = re.compile(r"\b(?:default_rng|RandomState|Random|SeedSequence)\(\s*\)")


def is_clock(value: object) -> bool:
    """Whether a value is itself a function that reads the clock or entropy."""
    if not issubclass(type(value), (types.BuiltinFunctionType, types.FunctionType)):
        return False
    name, module = getattr(value, "__name__", ""), getattr(value, "__module__", None)
    return isinstance(module, str) and name in _READERS.get(module, ())


def reads_clock(code: str, modules: Set[str], attributes: Set[str]) -> bool:
    """Whether a cell may have read the clock or entropy through a module.

    Args:
        code: its text.
        modules: modules that it could reach.
        attributes: names that its code, and code it could call, looks up in objects.
    """
    for module, readers in _READERS.items():
        if module in modules and readers & attributes:
            return True
    return _UNSEEDED.search(code) is not None
