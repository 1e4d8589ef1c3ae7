"""State that a class leaves out when it pickles itself: changes of it must be seen all the same.

A class of a library may reduce its instances in its own way, and leave out what it deems
derived, or what a subclass has added. The attributes that do not go into the stream are
*hidden*: they are part of the fingerprint, by a digest of their own. The digest is stored
with the value, so that after a load it shows whether they came back.
"""

from __future__ import annotations

import copyreg
import enum
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nbrewind.errors import NotStorable

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler

_HOOKS = ("__reduce_ex__", "__reduce__", "__getstate__")
_ATOMS = (str, bytes, int, float, complex)
_DEPTH = 4
"""How deep in what a class reduces to its attributes are looked for."""

FAITHFUL = frozenset(
    {
        *("builtins", "collections", "datetime", "decimal", "enum", "fractions", "functools"),
        *("ipaddress", "pathlib", "uuid", "zoneinfo"),
        *("PIL", "altair", "astropy", "attr", "bokeh", "cv2", "dask", "dateutil"),
        *("distributed", "erfa", "geopandas", "h5py", "httpx", "joblib", "lightgbm", "lxml"),
        *("matplotlib", "networkx", "nltk", "numba", "numpy", "pandas", "patsy", "pint", "plotly"),
        *("polars", "pyarrow", "pydantic", "pyproj", "requests", "scipy", "seaborn", "shapely"),
        *("skimage", "sklearn", "sortedcontainers", "spacy", "sqlalchemy", "srsly"),
        *("statsmodels", "sympy", "thinc", "tokenizers", "toolz", "torch", "urllib3", "xarray"),
        *("xgboost", "zarr"),
    }
)
"""Packages whose own classes hide nothing but caches: the tables of tests show it."""


def hides_state(kind: type) -> bool:
    """Whether instances of a class may have attributes that its reduction leaves out."""
    owner = _owner_of_hook(kind)
    if owner is None or isinstance(kind, enum.EnumMeta) or _is_generated(kind):
        return False
    if not (kind.__dictoffset__ or any(_slots(kind))):
        return False
    return not (_package(owner) in FAITHFUL and _package(kind) in FAITHFUL)


def reduce_with_hooks(pickler: StatePickler, obj: Any) -> Any:
    """Reduce an instance as its class has it, and note what is left out."""
    reducer = copyreg.dispatch_table.get(type(obj))
    reduced = obj.__reduce_ex__(5) if reducer is None else reducer(obj)
    if isinstance(reduced, tuple):
        hidden = _left_out(obj, reduced)
        if hidden:
            pickler.hidden.append((obj, hidden))
    return reduced


def hidden_parts(pickler: StatePickler) -> list[bytes | memoryview]:
    """The hidden attributes noted by a pickler, as streams and buffers to be digested.

    Raises:
        NotStorable: a hidden attribute cannot be pickled, so that its changes go unseen.
    """
    child = pickler.child()
    waiting, seen = list(pickler.hidden), set()
    try:
        while waiting:
            for obj, hidden in waiting:
                if id(obj) not in seen:
                    seen.add(id(obj))
                    child.dump(hidden)
            waiting = [entry for entry in child.hidden if id(entry[0]) not in seen]
    except NotStorable as problem:
        raise NotStorable(f"its pickle leaves part of it out: {problem}") from problem
    finally:
        child.unmark()
    pickler.absorb(child)
    return [*child.pieces(), *(buffer.raw() for buffer in child.buffers)]


def _owner_of_hook(kind: type) -> type | None:
    """The class that says how instances are reduced, if it is not `object`."""
    for hook in _HOOKS:
        owner = next((base for base in kind.__mro__ if hook in vars(base)), object)
        if owner is not object:
            return owner
    return kind if kind in copyreg.dispatch_table else None


def _is_generated(kind: type) -> bool:
    """Whether a decorator wrote the hook of this very class, for all of its fields."""
    hook = vars(kind).get("__getstate__")
    return getattr(hook, "__globals__", {}).get("__name__") in ("dataclasses", "attr._make")


def _package(kind: type) -> str:
    return (kind.__module__ or "").partition(".")[0].lstrip("_")


def _left_out(obj: Any, reduced: tuple[Any, ...]) -> dict[str, Any]:
    """Attributes of an object that are not in what it reduces to."""
    attributes: dict[str, Any] = getattr(obj, "__dict__", None) or {}
    found: set[int] = set()
    named: dict[str, Any] = {}
    _note_parts(reduced[1:3], _DEPTH, found, named)
    if id(attributes) in found:
        attributes = {}
    slots = {name: getattr(obj, name) for name in _slots(type(obj)) if hasattr(obj, name)}
    return {
        name: value
        for name, value in {**attributes, **slots}.items()
        if value is not None
        and not (name in named and named[name] is value)
        and (isinstance(value, _ATOMS) or id(value) not in found)
    }


def _note_parts(part: Any, depth: int, found: set[int], named: dict[str, Any]) -> None:
    found.add(id(part))
    if depth == 0:
        return
    if type(part) is dict:
        named.update((key, value) for key, value in part.items() if type(key) is str)
        part = list(part.values())
    if type(part) in (tuple, list):
        for inner in part[:100]:
            _note_parts(inner, depth - 1, found, named)


def _slots(kind: type) -> Iterator[str]:
    """Names under which instances have attributes outside their dictionary."""
    for base in kind.__mro__:
        if "__slots__" in vars(base):
            for name, value in vars(base).items():
                if isinstance(value, types.MemberDescriptorType):
                    yield name
