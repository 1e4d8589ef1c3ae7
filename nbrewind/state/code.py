"""Code objects: what they are, as a digest, and which globals they can touch.

The digest must stay stable for stored data within one Python minor version: function
versions are made of it. It leaves out file name and line numbers, so that a comment above
a function does not change the function. `marshal` is no help: its bytes depend on reference
counts and on the order of frozensets.
"""

from __future__ import annotations

import builtins
import dis
import struct
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from nbrewind.model.versions import digest
from nbrewind.state.bytecode import Instruction, flow_encoding, instructions
from nbrewind.state.evaluators import (
    DYNAMIC_MAGICS,
    EVALUATOR_MODULES,
    EVALUATORS,
    EXECUTORS,
    LOCAL_NAMESPACE_NAMES,
    MAIN_MODULE,
    NAMESPACE_ATTRIBUTES,
    NAMESPACE_NAMES,
    SHELL_CALLS,
    identifiers,
)

CODE_ENCODING: Final = "code1"
"""Tag of the encoding; changed whenever equal code would get another digest."""

FINALISER: Final = "__del__"
"""Among the attributes that code uses: it is a finaliser, which runs when an object ends."""

_NOT_MODULE_LEVEL = 0x0001 | 0x0002
"""CO_OPTIMIZED | CO_NEWLOCALS: set on functions."""


@dataclass(frozen=True, slots=True)
class CodeUses:
    """What a code object and those nested in it may touch when they run."""

    loads: frozenset[str]
    """Global names it loads, builtins included."""
    stores: frozenset[str]
    """Global names it stores or deletes."""
    attributes: frozenset[str]
    """Attribute names it uses, those imported from modules included."""
    imports: frozenset[str]
    """Modules it imports, dotted; `from a import b` gives `a` and `a.b`."""
    strings: frozenset[str]
    """Texts it loads."""
    dynamic: bool
    """It may read or write any global."""


_NONE: Final[frozenset[str]] = frozenset()
ALL_NAMES: Final = CodeUses(_NONE, _NONE, _NONE, _NONE, _NONE, dynamic=True)
"""What something uses that leads to every global."""


@lru_cache(maxsize=8192)
def code_digest(code: types.CodeType) -> str:
    """Canonical digest of a code object, the same for every layout of its source text.

    Args:
        code: any code object; those of functions and classes nested in it count too.

    Returns:
        48 hex digits; comparable within one Python minor version only.
    """
    return digest(CODE_ENCODING, code_encoding(code))[:48]


def code_encoding(code: types.CodeType) -> bytes:
    """The bytes that `code_digest` hashes."""
    out: list[bytes] = []
    _encode_code(code, out)
    return b"".join(out)


def _encode_code(code: types.CodeType, out: list[bytes]) -> None:
    _put(out, b"C", code.co_qualname.encode("utf-8", "surrogatepass"))
    numbers = (
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags,
        code.co_stacksize,
        code.co_nlocals,
    )
    _put(out, b"n", ",".join(map(str, numbers)).encode())
    for names in (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars):
        _encode_constant(names, out)
    _put(out, b"f", flow_encoding(code).encode())
    _encode_constant(code.co_consts, out)


def _encode_constant(value: object, out: list[bytes]) -> None:
    """Append a constant so that no two that behave differently agree."""
    match value:
        case None | bool() | types.EllipsisType():
            _put(out, b"k", repr(value).encode())
        case int():
            _put(out, b"i", hex(value).encode())
        case float():
            _put(out, b"d", struct.pack("<d", value))
        case complex():
            _put(out, b"c", struct.pack("<dd", value.real, value.imag))
        case str():
            _put(out, b"s", value.encode("utf-8", "surrogatepass"))
        case bytes():
            _put(out, b"b", value)
        case tuple():
            _put(out, b"t", str(len(value)).encode())
            for item in value:
                _encode_constant(item, out)
        case frozenset():
            _put(out, b"z", str(len(value)).encode())
            for encoded in sorted(_encoded(item) for item in value):
                out.append(encoded)
        case types.CodeType():
            _encode_code(value, out)
        case _:
            # Only hand-made code objects get here; their constants are told apart by type
            # and repr, which may cost an execution but hides no difference that repr shows.
            _put(out, b"o", f"{type(value).__qualname__}:{value!r}".encode())


def _encoded(value: object) -> bytes:
    out: list[bytes] = []
    _encode_constant(value, out)
    return b"".join(out)


def _put(out: list[bytes], tag: bytes, raw: bytes) -> None:
    out.append(tag + len(raw).to_bytes(8, "little"))
    out.append(raw)


def _opcodes(*names: str) -> frozenset[int]:
    return frozenset(dis.opmap[name] for name in names if name in dis.opmap)


_LOAD_NAMES = _opcodes("LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]
_STORE_GLOBALS = _opcodes("STORE_GLOBAL", "DELETE_GLOBAL")
_STORE_NAMES = _opcodes("STORE_NAME", "DELETE_NAME")
_ATTRIBUTES = _opcodes("LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "IMPORT_FROM")
_LOAD_ATTR = dis.opmap["LOAD_ATTR"]
_LOAD_ATTR_SHIFT = 0 if sys.version_info < (3, 12) else 1
_LOAD_SUPER_ATTR = dis.opmap.get("LOAD_SUPER_ATTR", -1)
_IMPORT_NAME = dis.opmap["IMPORT_NAME"]
_CONSTANTS = _opcodes("LOAD_CONST", "RETURN_CONST")
_LOAD_CONST = dis.opmap["LOAD_CONST"]
_BETWEEN = _opcodes("PUSH_NULL", "NOP", "RESUME")


@dataclass(slots=True)
class _Found:
    """What was seen so far in a code object and those nested in it."""

    loads: set[str]
    stores: set[str]
    attributes: set[str]
    imports: set[str]
    strings: set[str]
    dynamic: bool = False


@lru_cache(maxsize=8192)
def code_uses(code: types.CodeType) -> CodeUses:
    """The globals, attributes and modules that `code` may touch, nested code included.

    Names that a class body binds for itself count as loads all the same, which errs
    on the safe side.
    """
    found = _Found(set(), set(), set(), set(), set())
    _collect(code, found, module=_is_module(code))
    if code.co_name == FINALISER:
        found.attributes.add(FINALISER)
    if (found.loads | found.attributes) & (EVALUATORS | EVALUATOR_MODULES):
        found.loads |= identifiers(found.strings)
    return CodeUses(
        frozenset(found.loads),
        frozenset(found.stores),
        frozenset(found.attributes),
        frozenset(found.imports),
        frozenset(found.strings),
        found.dynamic,
    )


def _is_module(code: types.CodeType) -> bool:
    """Whether its names are globals: neither a function nor a class body."""
    return not code.co_flags & _NOT_MODULE_LEVEL and "__qualname__" not in code.co_names


def _collect(code: types.CodeType, found: _Found, *, module: bool) -> None:
    names = code.co_names
    body = list(instructions(code))
    loads: set[str] = set()
    strings: set[str] = set()
    for index, (_, _, opcode, arg) in enumerate(body):
        if opcode == _LOAD_GLOBAL or opcode in _LOAD_NAMES:
            name = names[arg >> 1 if opcode == _LOAD_GLOBAL else arg]
            loads.add(name)
            if name in EXECUTORS:
                _collect_executed(code, body, index + 1, found)
        elif opcode in _STORE_GLOBALS:
            found.stores.add(names[arg])
        elif opcode in _STORE_NAMES:
            if module:
                found.stores.add(names[arg])
        elif opcode == _LOAD_ATTR:
            found.attributes.add(names[arg >> _LOAD_ATTR_SHIFT])
        elif opcode in _ATTRIBUTES:
            found.attributes.add(names[arg])
        elif opcode == _LOAD_SUPER_ATTR:
            found.attributes.add(names[arg >> 2])
        elif opcode in _CONSTANTS:
            if index + 1 == len(body) or body[index + 1].opcode != _IMPORT_NAME:
                strings.update(_texts(code.co_consts[arg]))
        elif opcode == _IMPORT_NAME:
            _collect_import(code, body, index, found)
    if not code.co_flags & _NOT_MODULE_LEVEL and not module:
        # Every class body loads the module's name to set its own; that is no use of it.
        loads.discard("__name__")
    found.loads |= loads
    found.strings |= strings
    if _reaches_all(loads, set(names), strings, module=module) or MAIN_MODULE in found.imports:
        found.dynamic = True
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _collect(constant, found, module=False)


def _reaches_all(loads: set[str], names: set[str], strings: set[str], *, module: bool) -> bool:
    if loads & NAMESPACE_NAMES or names & NAMESPACE_ATTRIBUTES:
        return True
    if module and loads & LOCAL_NAMESPACE_NAMES:
        return True
    if "get_ipython" in loads and (not names & SHELL_CALLS or strings & DYNAMIC_MAGICS):
        return True
    # `__name__ == "__main__"` is the one harmless use of that text.
    return MAIN_MODULE in strings and "__name__" not in names


def _collect_executed(
    code: types.CodeType, body: list[Instruction], index: int, found: _Found
) -> None:
    """Account for `eval` or `exec` whose first argument is at `index` of `body`."""
    while index < len(body) and body[index].opcode in _BETWEEN:
        index += 1
    if index < len(body) and body[index].opcode == _LOAD_CONST:
        text = code.co_consts[body[index].arg]
        if isinstance(text, str):
            try:
                inner = builtins.compile(text, "<text>", "exec")
            except (SyntaxError, ValueError):
                return
            _collect(inner, found, module=True)
            return
    found.dynamic = True


def _collect_import(
    code: types.CodeType, body: list[Instruction], index: int, found: _Found
) -> None:
    """Account for an import; the compiler loads level and names right before it."""
    name = code.co_names[body[index].arg]
    constants = [
        code.co_consts[body[at].arg]
        for at in (index - 2, index - 1)
        if at >= 0 and body[at].opcode == _LOAD_CONST
    ]
    level, wanted = constants if len(constants) == 2 else (0, None)
    module = "." * level + name if isinstance(level, int) else name
    found.imports.add(module)
    if isinstance(wanted, tuple):
        dot = "" if not name else "."
        found.imports.update(f"{module}{dot}{item}" for item in wanted if item != "*")


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple | frozenset):
        for item in value:
            yield from _texts(item)
