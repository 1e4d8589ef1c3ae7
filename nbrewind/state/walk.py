"""What a value that cannot be pickled consists of: shared objects, and code it may run.

Only for such values: everything else is seen by the pickler's one pass. The walk
stops at modules, library classes and the globals of functions, so it stays in
the value's own graph.
"""

from __future__ import annotations

import contextvars
import gc
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from nbrewind.state.code import CodeUses, code_uses
from nbrewind.state.entities import (
    is_entity_class,
    is_entity_function,
    is_notebook_class,
)

LIMIT = 200_000
"""Objects looked at; a larger graph counts as reading and writing everything."""


class Walk:
    """The result of walking one value."""

    def __init__(self) -> None:
        self.codes: list[CodeUses] = []
        self.entities: dict[str, Any] = {}
        self.modules: set[str] = set()
        self.objects: dict[int, Any] = {}
        """Objects reached, by id; they are kept alive as long as the walk is."""
        self.complete = True


def walk(value: Any, namespace: dict[str, Any], identify: Callable[[Any], str]) -> Walk:
    """Walk everything reachable from `value` that belongs to it.

    Args:
        value: where to start.
        namespace: the notebook's namespace, which is not entered.
        identify: gives the entity id of a function or class of the notebook.
    """
    seen = Walk()
    modules = [m for m in list(sys.modules.values()) if isinstance(m, types.ModuleType)]
    passed = {id(vars(module)) for module in modules}
    passed.add(id(namespace))
    plain: dict[int, bool] = {}
    waiting = deque([value])
    while waiting:
        obj = waiting.popleft()
        if id(obj) in seen.objects or id(obj) in passed:
            continue
        if len(seen.objects) >= LIMIT:
            seen.complete = False
            break
        seen.objects[id(obj)] = obj
        kind = type(obj)
        is_plain = plain.get(id(kind))
        if is_plain is None:
            is_plain = plain[id(kind)] = _is_plain(kind)
        parts = gc.get_referents(obj) if is_plain else _parts(obj, namespace, seen, identify)
        waiting.extend([part for part in parts if id(type(part)) not in _LEAVES])
    return seen


# Types are told by their identity and their bases, never by what an object says of itself:
# metaclasses may compare classes in their own way, and instances lie about `__class__`.
_LEAVES = frozenset(map(id, (str, bytes, int, float, bool, type(None))))
_SPECIAL = (
    *(type, types.ModuleType, types.FunctionType, types.FrameType, types.CodeType),
    *(types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType),
    *(memoryview, weakref.ref, contextvars.Context),
)
_BOUNDS = frozenset({("ipykernel.iostream", "OutStream")})
"""Types behind which the whole kernel lies; a thread holds on to its `sys.stderr`."""


def _is_plain(kind: type) -> bool:
    """Whether what the collector knows of an instance is all there is to it."""
    return not (
        issubclass(kind, _SPECIAL) or _is_bound(kind) or _is_graph_node(kind) or _is_array(kind)
    )


def _is_bound(kind: type) -> bool:
    return (kind.__module__, kind.__qualname__) in _BOUNDS


def _parts(
    obj: Any, namespace: dict[str, Any], seen: Walk, identify: Callable[[Any], str]
) -> list[Any]:
    """What belongs to an object of a type that is not plain."""
    kind = type(obj)
    if issubclass(kind, types.ModuleType):
        seen.modules.add(obj.__name__)
        return []
    if issubclass(kind, types.FunctionType):
        return _parts_of_function(obj, namespace, seen, identify)
    if issubclass(kind, type):
        if is_notebook_class(obj) and is_entity_class(obj):
            seen.entities[identify(obj)] = obj
            return []
        seen.modules.add(obj.__module__)
        return list(vars(obj).values()) if is_notebook_class(obj) else []
    if issubclass(kind, types.FrameType):
        seen.codes.append(code_uses(obj.f_code))
        return [] if obj.f_locals is namespace else list(obj.f_locals.values())
    if issubclass(kind, types.CodeType):
        seen.codes.append(code_uses(obj))
        return []
    if issubclass(kind, contextvars.Context) or _is_bound(kind):
        return []
    if issubclass(kind, memoryview):
        return [obj.obj]
    if issubclass(kind, weakref.ref):
        # Whoever holds a weak reference sees its target change, and die.
        target = weakref.ref.__call__(obj)
        return [] if target is None else [target]
    if _is_graph_node(kind):
        # The graph lives in C++, out of the collector's sight; its leaves are parameters.
        nodes = [node for node, _ in getattr(obj, "next_functions", ())]
        return [p for p in (*nodes, getattr(obj, "variable", None)) if p is not None]
    if _is_array(kind):
        return _parts_of_array(obj)
    frame = getattr(obj, "gi_frame", None) or getattr(obj, "cr_frame", None)
    frame = frame or getattr(obj, "ag_frame", None)
    return [] if frame is None else [frame]


def _parts_of_array(array: Any) -> list[Any]:
    parts = gc.get_referents(array)
    if getattr(array, "grad_fn", None) is not None:
        parts.append(array.grad_fn)
    if hasattr(array, "base"):
        if array.dtype.hasobject:
            parts += list(array.flat)
        if array.base is not None:
            parts.append(array.base)
    return parts


def _is_graph_node(kind: type) -> bool:
    return kind.__module__ == "torch.autograd" or any(
        "next_functions" in vars(base) for base in _mro(kind)
    )


def _is_array(kind: type) -> bool:
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    return (numpy is not None and issubclass(kind, numpy.ndarray)) or (
        torch is not None and issubclass(kind, torch.Tensor)
    )


def _mro(kind: type) -> tuple[type, ...]:
    mro: tuple[type, ...] = type.__dict__["__mro__"].__get__(kind)
    return mro


def _parts_of_function(
    function: types.FunctionType,
    namespace: dict[str, Any],
    seen: Walk,
    identify: Callable[[Any], str],
) -> list[Any]:
    if is_entity_function(function, namespace):
        seen.entities[identify(function)] = function
        return []
    space = function.__globals__
    if space is namespace:
        seen.codes.append(code_uses(function.__code__))
    elif _is_of_no_module(space):
        # Of a script that `%run` ran: its globals are nobody else's.
        names = code_uses(function.__code__).loads
        return [space[name] for name in sorted(names) if name in space]
    elif function.__closure__ is None:
        seen.modules.add(function.__module__ or "")
        return []
    parts: list[Any] = list(function.__closure__ or ())
    parts += [function.__defaults__, function.__kwdefaults__, function.__dict__]
    return [part for part in parts if part is not None]


def _is_of_no_module(space: dict[str, Any]) -> bool:
    name = space.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return module is None or vars(module) is not space
