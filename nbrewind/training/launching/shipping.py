"""Values between the notebook and its ranks: by value, with functions that stay the notebook's.

Functions and classes of the notebook travel with their code (cloudpickle). A function that
arrives belongs to the namespace it arrives in: what a cell assigns on a rank is what its
functions see there. A class that came from the notebook comes back as the notebook's own class.
"""

from __future__ import annotations

import io
import pickle
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

import cloudpickle
import cloudpickle.cloudpickle as _by_value

_NAMESPACE = "namespace"
_CLASS = "class"
_NO_FILE = "<dynamic-code>"


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles by value, but for the namespace, and for classes that the other side has.

    Args:
        file: where to.
        namespace: whose functions belong to the namespace of the other side.
        known: classes that the other side has, with the ids that it knows them by.
        with_globals: functions bring along what they use; without, the other side has it.
    """

    def __init__(
        self,
        file: io.BytesIO,
        namespace: dict[str, Any],
        known: Mapping[type, str],
        with_globals: bool,
    ) -> None:
        super().__init__(file, protocol=5)
        # cloudpickle gives all functions of one namespace one new dictionary: this one, which
        # is not sent but stands for the other side's.
        self._marker: dict[str, Any] = {"__name__": "__main__"}
        self.globals_ref[id(namespace)] = self._marker
        self._globals = namespace
        self._known = known
        self._with_globals = with_globals

    def persistent_id(self, obj: Any) -> Any:
        if obj is self._marker:
            return (_NAMESPACE,)
        if isinstance(obj, type) and obj in self._known:
            return _CLASS, self._known[obj]
        return None

    def reducer_override(self, obj: Any) -> Any:
        refuse_distributed(obj)
        if isinstance(obj, types.CodeType):
            # cloudpickle leaves out the file's name, by which tracebacks find their lines.
            make, args = _by_value._code_reduce(obj)
            return make, tuple(
                obj.co_filename if isinstance(arg, str) and arg == _NO_FILE else arg for arg in args
            )
        return super().reducer_override(obj)

    def _dynamic_function_reduce(self, func: types.FunctionType) -> Any:
        made = super()._dynamic_function_reduce(func)
        if not self._with_globals and func.__globals__ is self._globals:
            made[2][1]["__globals__"] = {}
        return made


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, namespace: dict[str, Any]) -> None:
        super().__init__(file)
        self._namespace = namespace

    def persistent_load(self, pid: Any) -> Any:
        if pid[0] == _CLASS:
            return _by_value._DYNAMIC_CLASS_TRACKER_BY_ID[pid[1]]
        return self._namespace


def pack(
    value: Any,
    namespace: dict[str, Any],
    known: Mapping[type, str] | None = None,
    *,
    with_globals: bool = True,
) -> memoryview:
    """A value as bytes, by value.

    Args:
        value: anything that cloudpickle takes.
        namespace: the globals of the notebook's functions here.
        known: classes that the other side has; see `classes_known`.
        with_globals: whether functions of the namespace bring along the globals they use.

    Raises:
        Exception: of whatever kind, if it cannot be pickled.
    """
    file = io.BytesIO()
    _Pickler(file, namespace, known or {}, with_globals).dump(value)
    return file.getbuffer()


def unpack(data: bytes | bytearray | memoryview, namespace: dict[str, Any]) -> Any:
    """What `pack` packed; its functions get `namespace` as their globals."""
    return _Unpickler(io.BytesIO(data), namespace).load()


def classes_known() -> dict[type, str]:
    """The classes that came by value so far, with the ids that their sender knows them by."""
    return dict(_by_value._DYNAMIC_CLASS_TRACKER_BY_CLASS)


def refuse_distributed(obj: Any) -> None:
    """Raise `PicklingError` for what exists only together with the other ranks."""
    if not type(obj).__module__.startswith("torch"):
        return
    for module, names in _DISTRIBUTED.items():
        loaded = sys.modules.get(module)
        for name in names:
            kind = getattr(loaded, name, None)
            if isinstance(kind, type) and isinstance(obj, kind):
                raise pickle.PicklingError(f"a {name} is a part of all ranks together")


_DISTRIBUTED: dict[str, tuple[str, ...]] = {
    "torch.distributed.tensor": ("DTensor",),
    "torch.distributed.device_mesh": ("DeviceMesh",),
    "torch.distributed": ("ProcessGroup", "Store"),
    "torch.nn.parallel": ("DistributedDataParallel",),
}


def separable(
    values: Mapping[str, Any], pack_one: Callable[[Any], object]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Tell values that can be packed from those that cannot, with the reasons."""
    good: dict[str, Any] = {}
    bad: dict[str, str] = {}
    for name, value in values.items():
        try:
            pack_one({name: value})
        except Exception as problem:
            bad[name] = f"{type(problem).__name__}: {problem}"
        else:
            good[name] = value
    return good, bad
