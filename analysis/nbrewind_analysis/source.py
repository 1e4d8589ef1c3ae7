"""Digest of a cell's source: its AST without positions, in an encoding of our own.

`ast.dump` differs between Python minors (3.12 added `type_params`, 3.13 leaves out empty
lists), so records made by one Python would be stale under the next. The encoding here names
each field that is set and leaves out those that are empty, and it must stay stable for
stored data: a change of it comes with a new `SOURCE_ENCODING`.

Not part of the digest: comments, blank lines, formatting, quoting style, redundant
parentheses, type comments, the contexts of names. Part of it: docstrings, the types of
constants (`1`, `True` and `1.0` differ), whether the output is silenced, and the
`__future__` features in force.
"""

from __future__ import annotations
import __future__

import ast
import struct
import types
from collections.abc import Callable
from typing import Final

from nbrewind.model.versions import digest
from nbrewind_analysis.magics import magic_body, parse_text

SOURCE_ENCODING: Final = "source1"
"""Tag of the encoding; changed whenever equal source would get another digest."""

_IGNORED = frozenset({"ctx", "type_comment", "type_ignores", "kind"})

_FIELDS: dict[type, tuple[tuple[str, str], ...]] = {
    cls: tuple((name, f".{name}=") for name in cls._fields if name not in _IGNORED)
    for cls in vars(ast).values()
    if isinstance(cls, type) and issubclass(cls, ast.AST)
}


def source_digest(
    tree: ast.Module,
    *,
    trailing_semicolon: bool,
    compile_flags: int,
    transform: Callable[[str], str] = str,
) -> str:
    """Digest of a cell that parses.

    Args:
        tree: the cell after the input transformation.
        trailing_semicolon: whether the cell ends in `;`, which keeps its result from
            being shown.
        compile_flags: flags the cell is compiled with; only those of `__future__`
            features count.
        transform: the input transformation, for code inside cell magics.

    Returns:
        48 hex digits, the same under Python 3.11, 3.12 and 3.13.
    """
    encoding = source_encoding(tree, trailing_semicolon, compile_flags, transform)
    return digest(SOURCE_ENCODING, encoding)[:48]


def text_digest(text: str) -> str:
    """Digest of a cell that does not parse: of its text as it is."""
    return digest(SOURCE_ENCODING, "text", text)[:48]


def source_encoding(
    tree: ast.Module,
    trailing_semicolon: bool,
    compile_flags: int,
    transform: Callable[[str], str] = str,
) -> bytes:
    """The bytes that `source_digest` hashes."""
    out = [";" if trailing_semicolon else ""]
    out += [f"+{name}" for name in future_features(compile_flags)]
    _encode(tree, out, transform)
    return "".join(out).encode("utf-8", "surrogatepass")


def future_features(compile_flags: int) -> list[str]:
    """Names of the `__future__` features that `compile_flags` switches on."""
    return [
        name
        for name in __future__.all_feature_names
        if getattr(__future__, name).compiler_flag & compile_flags
    ]


def _encode(node: ast.AST, out: list[str], transform: Callable[[str], str]) -> None:
    cls = type(node)
    out.append("(" + cls.__name__)
    if cls is ast.Constant:
        _encode_constant(node.value, out)  # type: ignore[attr-defined]
    elif cls is ast.Name:
        out.append(" " + node.id)  # type: ignore[attr-defined]
    elif cls is ast.Call and (text := magic_body(node)) is not None:  # type: ignore[arg-type]
        _encode_magic(node, text, out, transform)  # type: ignore[arg-type]
    else:
        for name, label in _FIELDS[cls]:
            value = getattr(node, name, None)
            if value is None or value == []:
                continue
            if cls is ast.JoinedStr:
                value = _merged(value)
            elif cls is ast.Delete:
                value = _flattened(value)
            elif name == "format_spec" and not _merged(value.values):
                continue
            out.append(label)
            if isinstance(value, list):
                for item in value:
                    if isinstance(item, ast.AST):
                        _encode(item, out, transform)
                    else:
                        out.append("-" if item is None else " " + item)
            elif isinstance(value, ast.AST):
                _encode(value, out, transform)
            else:
                _encode_constant(value, out)
    out.append(")")


def _encode_constant(value: object, out: list[str]) -> None:
    match value:
        case str():
            out.append(f"s{len(value)}:{value}")
        case None | bool() | types.EllipsisType():
            out.append(f"k{value!r}")
        case int():
            out.append(f"i{value:x}")
        case float():
            out.append(f"d{struct.pack('>d', value).hex()}")
        case complex():
            out.append(f"c{struct.pack('>dd', value.real, value.imag).hex()}")
        case bytes():
            out.append(f"b{value.hex()}")
        case tuple() | frozenset():
            # Not written by the parser, only by programs that build trees.
            parts: list[str] = []
            for item in value:
                inner: list[str] = []
                _encode_constant(item, inner)
                parts.append("".join(inner))
            if isinstance(value, frozenset):
                parts.sort()
            out.append(f"{type(value).__name__}{len(parts)}[{''.join(parts)}]")
        case _:
            text = repr(value)
            out.append(f"o{type(value).__name__}{len(text)}:{text}")


def _encode_magic(
    call: ast.Call, text: str, out: list[str], transform: Callable[[str], str]
) -> None:
    """A cell magic that runs Python: its body counts as code, not as text."""
    for arg in call.args[:2]:
        _encode(arg, out, transform)
    tree = parse_text(text, transform)
    if tree is None:
        _encode_constant(text, out)
    else:
        out.append(";" if ends_in_semicolon(tree, text) else "")
        _encode(tree, out, transform)


def ends_in_semicolon(tree: ast.Module, code: str) -> bool:
    """Whether the last token of `code` but comments is `;`, as IPython's display hook tests."""
    if ";" not in code or not tree.body:
        return False
    last = _last_simple(tree.body[-1])
    if last.end_lineno is None or last.end_col_offset is None:
        return False
    lines = code.split("\n")
    if last is not tree.body[-1] and lines[last.lineno - 1][:1].isspace():
        # The tokens that end an indented block come after the `;`.
        return False
    line = lines[last.end_lineno - 1]
    rest = line.encode()[last.end_col_offset :].decode()
    return rest.lstrip(" \t\f\\").startswith(";")


def _last_simple(node: ast.stmt) -> ast.stmt:
    """The last statement inside a compound one, whose own end may include the `;`."""
    for name in ("finalbody", "orelse", "handlers", "cases", "body"):
        parts = getattr(node, name, None)
        if isinstance(parts, list) and parts:
            return _last_simple(parts[-1])
    return node


def _merged(values: list[ast.expr]) -> list[ast.expr]:
    """Parts of an f-string with neighbouring texts joined and empty ones left out.

    How the parser splits the texts differs between Python minors.
    """
    merged: list[ast.expr] = []
    for part in values:
        if not isinstance(part, ast.Constant) or not isinstance(part.value, str):
            merged.append(part)
        elif merged and isinstance(last := merged[-1], ast.Constant):
            merged[-1] = ast.Constant(str(last.value) + part.value)
        elif part.value:
            merged.append(part)
    return merged


def _flattened(targets: list[ast.expr]) -> list[ast.expr]:
    """Targets of `del` with parentheses dissolved: `del (a, b)` is `del a, b`."""
    flat: list[ast.expr] = []
    for target in targets:
        if isinstance(target, ast.Tuple | ast.List):
            flat += _flattened(target.elts)
        else:
            flat.append(target)
    return flat
