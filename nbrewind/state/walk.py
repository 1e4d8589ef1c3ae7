"""What a value that cannot be pickled consists of: shared objects, and code it may run.

Only for such values: everything else is seen by the pickler's one pass. The walk
stops at modules, library classes and the globals of functions, so it stays in
the value's own graph.
"""

from __future__ import annotations

import gc
import sys
import types
import weakref
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
    front: list[Any] = [value]
    modules = [m for m in list(sys.modules.values()) if isinstance(m, types.ModuleType)]
    module_dicts = {id(vars(module)) for module in modules}
    module_dicts.add(id(namespace))
    while front:
        if len(seen.objects) > LIMIT:
            seen.complete = False
            break
        following: list[Any] = []
        for obj in front:
            if id(obj) in seen.objects or id(obj) in module_dicts:
                continue
            seen.objects[id(obj)] = obj
            following += _parts(obj, namespace, seen, identify)
        front = following
    return seen


def _parts(
    obj: Any, namespace: dict[str, Any], seen: Walk, identify: Callable[[Any], str]
) -> list[Any]:
    if isinstance(obj, types.ModuleType):
        seen.modules.add(obj.__name__)
        return []
    if isinstance(obj, types.FunctionType):
        return _parts_of_function(obj, namespace, seen, identify)
    if isinstance(obj, type):
        if is_notebook_class(obj) and is_entity_class(obj):
            seen.entities[identify(obj)] = obj
            return []
        seen.modules.add(obj.__module__)
        return list(vars(obj).values()) if is_notebook_class(obj) else []
    if isinstance(obj, types.FrameType):
        seen.codes.append(code_uses(obj.f_code))
        return [] if obj.f_locals is namespace else list(obj.f_locals.values())
    if isinstance(obj, (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)):
        frame = getattr(obj, "gi_frame", None) or getattr(obj, "cr_frame", None)
        frame = frame or getattr(obj, "ag_frame", None)
        return [] if frame is None else [frame]
    if isinstance(obj, types.CodeType):
        seen.codes.append(code_uses(obj))
        return []
    if isinstance(obj, memoryview):
        return [obj.obj]
    if isinstance(obj, weakref.ref):
        # Whoever holds a weak reference sees its target change, and die.
        target = obj()
        return [] if target is None else [target]
    if type(obj).__module__ == "torch.autograd" or hasattr(type(obj), "next_functions"):
        # The graph lives in C++, out of the collector's sight; its leaves are parameters.
        nodes = [node for node, _ in getattr(obj, "next_functions", ())]
        return [p for p in (*nodes, getattr(obj, "variable", None)) if p is not None]
    parts = gc.get_referents(obj)
    if _is_tensor(obj) and obj.grad_fn is not None:
        parts.append(obj.grad_fn)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(obj, numpy.ndarray):
        if obj.dtype.hasobject:
            parts += list(obj.flat)
        if obj.base is not None:
            parts.append(obj.base)
    return [part for part in parts if not isinstance(part, (str, bytes, int, float))]


def _is_tensor(obj: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, torch.Tensor)


def _parts_of_function(
    function: types.FunctionType,
    namespace: dict[str, Any],
    seen: Walk,
    identify: Callable[[Any], str],
) -> list[Any]:
    if is_entity_function(function, namespace):
        seen.entities[identify(function)] = function
        return []
    if function.__globals__ is namespace:
        seen.codes.append(code_uses(function.__code__))
    elif function.__closure__ is None:
        seen.modules.add(function.__module__ or "")
        return []
    parts: list[Any] = list(function.__closure__ or ())
    parts += [function.__defaults__, function.__kwdefaults__, function.__dict__]
    return [part for part in parts if part is not None]
