"""Differences between two states of an option table or a search list, and their versions.

A table is a mapping of option names to plain values; a list is an ordered sequence
of plain values (`sys.path`, warning filters). Both are described relative to how
they were at the start, in a form that does not depend on what the start was.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from types import CodeType
from typing import Any

from nbrewind.errors import NotStorable
from nbrewind.model.versions import Version, content_version, digest, lineage_version

_SCALARS = (type(None), bool, int, float, complex, str, bytes)

TableDelta = tuple[tuple[tuple[str, Any], ...], tuple[str, ...]]
"""Changed or added items, and removed names; both sorted by name."""

ListDelta = tuple[tuple[Any, ...], ...]
"""`("run", i, j)` for items i to j (None: the last) of the start, `("item", x)` for others."""


def same(left: object, right: object) -> bool:
    """Whether two snapshots are equal; False where comparing them fails (arrays in options)."""
    try:
        return bool(left == right)
    except Exception:
        return False


def table_delta(start: Mapping[str, Any], now: Mapping[str, Any]) -> TableDelta:
    """What turns the table `start` into `now`."""
    changed = tuple(
        (key, now[key])
        for key in sorted(now)
        if key not in start or not _identical(start[key], now[key])
    )
    return changed, tuple(sorted(key for key in start if key not in now))


def apply_table(start: Mapping[str, Any], delta: TableDelta) -> dict[str, Any]:
    """The table that `delta` makes of `start`."""
    changed, removed = delta
    table = {key: value for key, value in start.items() if key not in removed}
    table.update(changed)
    return table


def list_delta(start: Sequence[Any], now: Sequence[Any]) -> ListDelta:
    """What turns the list `start` into `now`; the empty tuple if nothing."""
    if list(start) == list(now):
        return ()
    parts: list[tuple[Any, ...]] = []
    at = 0  # items of `start` are looked for in order, so that runs stay runs
    for item in now:
        try:
            index = start.index(item, at)
        except ValueError:
            parts.append(("item", item))
            continue
        if parts and parts[-1][0] == "run" and parts[-1][2] == index:
            parts[-1] = ("run", parts[-1][1], index + 1)
        else:
            parts.append(("run", index, index + 1))
        at = index + 1
    # A run up to the end stays open: an equal change of a longer start is the same change.
    return tuple(
        ("run", part[1], None) if part[0] == "run" and part[2] == len(start) else part
        for part in parts
    )


def apply_list(start: Sequence[Any], delta: ListDelta) -> list[Any]:
    """The list that `delta` makes of `start`."""
    if not delta:
        return list(start)
    items: list[Any] = []
    for part in delta:
        if part[0] == "run":
            items += start[part[1] : part[2]]
        else:
            items.append(part[1])
    return items


def delta_version(tag: str, delta: object) -> Version:
    """Version of a difference: a lineage version if it holds something that cannot be stored."""
    try:
        return content_version(tag, canonical(delta))
    except NotStorable:
        return lineage_version("ambient", digest(tag, _describe(delta)))


def pack(delta: object) -> bytes | None:
    """The difference as bytes; None if it holds something that cannot be stored."""
    try:
        canonical(delta)
        return pickle.dumps(delta, 5)
    except NotStorable:
        return None


def canonical(value: object) -> bytes:
    """Bytes that are equal exactly for equal values, in every process.

    Raises:
        NotStorable: `value` holds a function of the notebook or something unpicklable.
    """
    if type(value) in _SCALARS:
        return repr(value).encode("utf-8", "surrogatepass")
    if isinstance(value, tuple | list):
        return b"(" + b",".join(canonical(item) for item in value) + b")"
    if isinstance(value, set | frozenset):
        return b"<" + b",".join(sorted(canonical(item) for item in value)) + b">"
    if isinstance(value, dict):
        items = sorted(canonical(k) + b":" + canonical(v) for k, v in value.items())
        return b"{" + b",".join(items) + b"}"
    try:
        raw = pickle.dumps(value, 5)
    except Exception as error:
        raise NotStorable(f"an option holds a {type(value).__qualname__}: {error}") from error
    if b"__main__" in raw:
        raise NotStorable(f"an option holds {value!r}, which the notebook defines")
    return b"p" + raw


def _identical(left: object, right: object) -> bool:
    """Equal and of one type: `True` and `1` print differently."""
    return left is right or (type(left) is type(right) and same(left, right))


def _describe(value: object) -> str:
    """A process-independent description of a value that cannot be stored."""
    if type(value) in _SCALARS:
        return repr(value)
    if isinstance(value, tuple | list):
        return "(" + ",".join(_describe(item) for item in value) + ")"
    if isinstance(value, dict):
        return "{" + ",".join(f"{k}:{_describe(v)}" for k, v in value.items()) + "}"
    code = getattr(value, "__code__", None)
    if isinstance(code, CodeType):
        return _describe_code(code)
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}:{getattr(value, '__qualname__', '')}"


def _describe_code(code: CodeType) -> str:
    constants = [
        _describe_code(const) if isinstance(const, CodeType) else repr(const)
        for const in code.co_consts
    ]
    return f"{code.co_qualname}:{code.co_code.hex()}:{code.co_names}:{constants}"
