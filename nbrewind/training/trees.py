"""States as trees: nested dictionaries and lists, with tensors and plain values as leaves.

Tensors are taken out by name: the keys on the way joined by dots, as `state_dict` names them.
What is left is written in msgpack with a few types of ours, so that what is read back is what
was there: integer keys stay integers, tuples tuples, empty containers are not lost. Nothing
in it is code. Other objects need `pickle`, which whoever saves has to allow.
"""

from __future__ import annotations

import io
import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from nbrewind.errors import CheckpointError

_TENSOR, _TUPLE, _PAIRS, _INTEGER, _COMPLEX, _PICKLE, _SET, _ORDERED, _COUNTER = range(1, 10)


def join(keys: tuple[Any, ...]) -> str:
    """The name of a leaf."""
    return ".".join(map(str, keys))


def encode(
    state: Any,
    is_tensor: Callable[[Any], bool],
    *,
    pickles: bool = False,
    others: Mapping[str, str] | None = None,
) -> tuple[dict[str, Any], bytes, bool]:
    """Take a state apart.

    Args:
        state: Nested `dict`, `list` and `tuple`.
        is_tensor: Tells the leaves that are tensors.
        pickles: Pickle what is not a plain value, instead of refusing it.
        others: Tensors that are to be looked for under other names than their own.

    Returns:
        The tensors by name; the rest; whether something was pickled.

    Raises:
        CheckpointError: a value is not plain; the message names it.
    """
    tensors: dict[str, Any] = {}
    pickled = False

    def plain(value: Any, keys: tuple[Any, ...]) -> Any:
        nonlocal pickled
        if is_tensor(value):
            name = join(keys)
            while name in tensors:  # {"a.b": x, "a": {"b": y}}
                name += "'"
            tensors[name] = value
            return _ext(_TENSOR, others.get(name, name) if others else name)
        kind = type(value)
        if value is None or kind in (bool, float, str, bytes):
            return value
        if kind is int:
            return value if -(2**63) <= value < 2**63 else _ext(_INTEGER, str(value))
        if kind in (dict, OrderedDict, Counter):
            return mapping(value, keys)
        if kind is list:
            return [plain(each, (*keys, number)) for number, each in enumerate(value)]
        if kind is tuple:
            return _ext(_TUPLE, [plain(each, (*keys, n)) for n, each in enumerate(value)])
        if kind in (set, frozenset):
            members = [plain(each, (*keys, "")) for each in sorted(value, key=repr)]
            return _ext(_SET, [kind is frozenset, members])
        if kind is complex:
            return _ext(_COMPLEX, [value.real, value.imag])
        if _is_scalar(value):
            return plain(value.item(), keys)
        if not pickles:
            raise CheckpointError(
                f"{join(keys) or 'the state'} is a {kind.__module__}.{kind.__qualname__}, which is "
                "neither a tensor nor a plain value: leave it out, give it a state_dict(), or "
                "allow pickles"
            )
        pickled = True
        return _ext(_PICKLE, pickle.dumps(value, 5))

    def mapping(value: Mapping[Any, Any], keys: tuple[Any, ...]) -> Any:
        if type(value) is dict and all(type(key) is str for key in value):
            return {key: plain(each, (*keys, key)) for key, each in value.items()}
        pairs = [[plain(key, keys), plain(each, (*keys, key))] for key, each in value.items()]
        return _ext({OrderedDict: _ORDERED, Counter: _COUNTER}.get(type(value), _PAIRS), pairs)

    return tensors, msgspec.msgpack.encode(plain(state, ())), pickled


def decode(content: bytes, tensors: Callable[[str], Any], *, pickles: bool = False) -> Any:
    """Put a state together.

    Args:
        content: What `encode` returned.
        tensors: A tensor by name.
        pickles: Load pickles; for content of trusted origin only.

    Raises:
        CheckpointError: it is damaged, or has pickles and those are not allowed.
    """

    def extension(code: int, data: memoryview) -> Any:
        content = _decode(bytes(data))
        if code == _TENSOR:
            return tensors(content)
        if code == _TUPLE:
            return tuple(content)
        if code == _PAIRS:
            return {key: value for key, value in content}
        if code == _ORDERED:
            return OrderedDict((key, value) for key, value in content)
        if code == _COUNTER:
            return Counter({key: value for key, value in content})
        if code == _INTEGER:
            return int(content)
        if code == _COMPLEX:
            return complex(*content)
        if code == _SET:
            return frozenset(content[1]) if content[0] else set(content[1])
        if code == _PICKLE:
            if not pickles:
                raise CheckpointError(
                    "the checkpoint has pickled objects, which can execute anything: allow them "
                    "only if you trust who wrote it"
                )
            return pickle.load(io.BytesIO(content))
        raise CheckpointError(f"a value of the unknown kind {code}: upgrade NBRewind")

    def _decode(content: bytes) -> Any:
        return msgspec.msgpack.Decoder(ext_hook=extension).decode(content)

    try:
        return _decode(content)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as exc:
        raise CheckpointError(f"the values of a checkpoint cannot be read: {exc}") from exc


def merge(tree: dict[Any, Any], other: Mapping[Any, Any]) -> None:
    """Add to a tree what only another has."""
    for key, value in other.items():
        if key not in tree:
            tree[key] = value
        elif isinstance(tree[key], dict) and isinstance(value, Mapping):
            merge(tree[key], value)


def with_leaves(
    tree: Any, replaced: Callable[[Any, str], Any], kind: type, keys: tuple[Any, ...] = ()
) -> Any:
    """The same tree with every leaf of a type replaced.

    Args:
        tree: Nested containers.
        replaced: Is given a leaf and its own name.
        kind: Type of the leaves.
        keys: On the way to the tree.
    """
    if isinstance(tree, kind):
        return replaced(tree, join(keys))
    if type(tree) in (dict, OrderedDict):
        pairs = ((k, with_leaves(v, replaced, kind, (*keys, k))) for k, v in tree.items())
        return type(tree)(pairs)
    if type(tree) in (list, tuple):
        each = (with_leaves(v, replaced, kind, (*keys, n)) for n, v in enumerate(tree))
        return type(tree)(each)
    return tree


def _ext(code: int, content: Any) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, msgspec.msgpack.encode(content))


def _is_scalar(value: Any) -> bool:
    """Whether it is a number of numpy's."""
    return type(value).__module__ == "numpy" and hasattr(value, "item") and value.shape == ()
