"""Functions compiled by numba: made again from the function they were made of.

Compiling takes in the values that globals have at the first call with arguments of some
types. Where there are such values they belong to the state, and they do not come back: what
was compiled with them is made again by running its cells.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from blake3 import blake3

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler

_taken_in: weakref.WeakKeyDictionary[Any, dict[str, bytes]] = weakref.WeakKeyDictionary()
"""For each compiled function, by signature: a digest of the values when it was first seen."""


def reduce_jitted(pickler: StatePickler, jitted: Any) -> Any:
    """Reduce a compiled function to the function it was made of and its options."""
    if jitted.overloads and (values := _values(jitted.py_func)):
        taken = _taken_in.setdefault(jitted, {})
        for signature in map(str, jitted.overloads):
            if signature not in taken:
                taken[signature] = _digest(pickler, values)
        pickler.hidden.append((jitted, taken))
    signatures = None
    if not jitted._can_compile:
        signatures = [compiled.signature for compiled in jitted.overloads.values()]
    options = (jitted.locals, jitted.targetoptions, signatures)
    return make_jitted, (type(jitted), jitted.py_func, *options)


def make_jitted(kind: Any, function: Any, names: Any, options: Any, signatures: Any) -> Any:
    """A function that numba compiles when it is called, or now for the types it was made for."""
    jitted = kind(function, names, options)
    for signature in signatures or ():
        jitted.compile(signature)
    jitted._can_compile = signatures is None
    return jitted


def _values(function: types.FunctionType) -> dict[str, Any]:
    """What a function gets from around it, but for modules."""
    known = function.__globals__
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    values = {name: known[name] for name in sorted(names & known.keys())}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        values[name] = cell.cell_contents
    return {k: v for k, v in values.items() if not isinstance(v, types.ModuleType)}


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _digest(pickler: StatePickler, values: dict[str, Any]) -> bytes:
    child = pickler.child()
    child.dump(values)
    pickler.absorb(child)
    hasher = blake3()
    parts: list[bytes | memoryview] = [*child.pieces(), *(buffer.raw() for buffer in child.buffers)]
    for part in parts:
        hasher.update(part)
    return hasher.digest()
