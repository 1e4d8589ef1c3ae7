"""matplotlib's figures and what they are made of.

matplotlib pickles its objects itself, but a look at a registry of callbacks moves its
counter, callbacks and canvases are dropped without a word, and what drawing works out
(matrices, flags that something is stale) is part of the state, so that looking at a figure
would change it. A figure that pyplot has open is not stored: code changes it without
naming it.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_128

from nbrewind.errors import NotStorable
from nbrewind.state.counts import peek

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler

# -- artists ------------------------------------------------------------------------------


def reduce_artist(pickler: StatePickler, artist: Any) -> Any:
    """Reduce an artist as matplotlib does, with its callback, and as not drawn yet."""
    state = {**artist.__getstate__(), "stale_callback": artist.stale_callback}
    if "_stale" in state:
        state["_stale"] = True
    return _new, (type(artist),), state


def reduce_figure(pickler: StatePickler, figure: Any) -> Any:
    """Reduce a figure that pyplot does not have open, with a canvas of the same kind.

    Raises:
        NotStorable: it is open, or an interactive backend draws it.
    """
    if is_open(figure) and not pickler.takes_open_figures:
        raise NotStorable("a figure that pyplot has open cannot be stored")
    canvas = figure.canvas
    kind = type(canvas)
    if kind.required_interactive_framework is not None:
        raise NotStorable(f"a figure in a {kind.__name__} cannot be stored")
    state = {**figure.__getstate__(), "stale_callback": figure.stale_callback, "_stale": True}
    number = getattr(canvas.manager, "num", None)
    state["__canvas"] = (kind.__module__, kind.__qualname__, number)
    return _new, (type(figure),), state, None, None, set_figure_state


def set_figure_state(figure: Any, state: dict[str, Any]) -> None:
    """Give a figure its state and a canvas of its own."""
    module, name, number = state.pop("__canvas")
    callback = state["stale_callback"]
    figure.__setstate__(state)
    figure.stale_callback = None
    kind = getattr(importlib.import_module(module), name)
    if number is not None:
        kind.new_manager(figure, number)
    elif type(figure.canvas) is not kind:
        kind(figure)
    figure.stale_callback = callback


def is_open(figure: Any) -> bool:
    """Whether pyplot manages a figure."""
    return any(manager.canvas.figure is figure for manager in _managers())


def open_figures() -> bytes:
    """A digest of the figures that pyplot has open, in order; empty if there are none.

    Jupyter's own backend closes them at the end of each cell, others do not.
    """
    managers = _managers()
    if not managers:
        return b""
    from nbrewind.state.entities import EntityTable
    from nbrewind.state.pickling import Scope, StatePickler

    pickler = StatePickler(Scope({}, EntityTable(), lambda entity: False))
    pickler.takes_open_figures = True
    try:
        pickler.dump([(str(manager.num), manager.canvas.figure) for manager in managers])
    except Exception:  # what cannot be looked at counts as changed
        return os.urandom(16)
    finally:
        pickler.unmark()
    hasher = xxh3_128(pickler.stream())
    for buffer in pickler.buffers:
        hasher.update(buffer.raw())
    return hasher.digest()


def _managers() -> list[Any]:
    helpers: Any = sys.modules.get("matplotlib._pylab_helpers")
    return [] if helpers is None else [*helpers.Gcf.figs.values()]


# -- callbacks ----------------------------------------------------------------------------

_OF_CANVASES = ("matplotlib.backend", "matplotlib_inline", "matplotlib._pylab_helpers")
"""Whose callbacks belong to a canvas or its manager, which make them anew."""


def reduce_registry(pickler: StatePickler, registry: Any) -> Any:
    """Reduce a `CallbackRegistry` with all its callbacks, without moving its counter."""
    callbacks: dict[Any, dict[int, Any]] = {}
    for signal, proxies in registry.callbacks.items():
        functions = {cid: proxy() for cid, proxy in proxies.items()}
        kept = {
            cid: function
            for cid, function in functions.items()
            if function is not None
            and (cid in registry._pickled_cids or not _is_of_canvas(function))
        }
        if kept:
            callbacks[signal] = kept
    state = {**vars(registry), "callbacks": callbacks, "_func_cid_map": None}
    state["_cid_gen"] = peek(registry._cid_gen)[0]
    return _new, (type(registry),), state


def _is_of_canvas(function: Any) -> bool:
    return all(str(part.__module__).startswith(_OF_CANVASES) for part in _wrapped(function))


def _wrapped(function: Any) -> Iterator[Any]:
    """The functions a callback consists of: some of matplotlib's wrap another one."""
    inner = []
    if isinstance(function, types.FunctionType):
        contents = [cell.cell_contents for cell in function.__closure__ or ()]
        inner = [item for item in contents if isinstance(item, types.FunctionType)]
    if not inner:
        yield function
    for item in inner:
        yield from _wrapped(item)


# -- transforms ---------------------------------------------------------------------------

_WORKED_OUT = ("_affine", "_inverted", "_transformed_path", "_transformed_points")


def reduce_transform(pickler: StatePickler, node: Any) -> Any:
    """Reduce a transform or bounding box without what it has worked out so far.

    A node tells its parents, which it refers to weakly, when it changes. The parents that
    matter are reached on their own; here they name the children that are to tell them.
    """
    state = dict(vars(node))
    parents = [parent for ref in state.pop("_parents").values() if (parent := ref()) is not None]
    held_otherwise = [p for p in parents if all(part is not node for part in vars(p).values())]
    state["_invalid"] = getattr(type(node), "_INVALID_FULL", 3)
    forgotten: tuple[str, ...] = _WORKED_OUT
    if type(node).__module__ == "matplotlib.transforms" and not hasattr(node, "set_matrix"):
        forgotten += ("_mtx",) if hasattr(node, "get_matrix") else ()
        forgotten += ("_points",) if not hasattr(node, "set_points") else ()
    state.update((key, None) for key in forgotten if key in state)
    children = [name for name, part in state.items() if _tells(part, node)]
    args = (state, children, held_otherwise)
    return _new, (type(node),), args, None, None, set_transform_state


def set_transform_state(node: Any, state: tuple[dict[str, Any], list[str], list[Any]]) -> None:
    """Give a transform its state; it works out the rest when asked."""
    values, children, parents = state
    vars(node).update(values)
    vars(node).setdefault("_parents", {})
    for name in children:
        _link(vars(node)[name], node)
    for parent in parents:
        _link(node, parent)


def _tells(child: Any, parent: Any) -> bool:
    """Whether `child` is a node that tells `parent` of its changes."""
    known = getattr(child, "_parents", None)
    ref = known.get(id(parent)) if isinstance(known, dict) else None
    return ref is not None and ref() is parent


def _link(child: Any, parent: Any) -> None:
    known = vars(child).setdefault("_parents", {})
    key = id(parent)

    def forget(_: object) -> None:
        known.pop(key, None)

    known[key] = weakref.ref(parent, forget)


# -- colours ------------------------------------------------------------------------------


def reduce_colormap(pickler: StatePickler, colours: Any) -> Any:
    """Reduce a colour map with its table, which the first use of it makes."""
    filled = colours.copy()
    if not filled._isinit:
        filled._init()
    return _new, (type(colours),), vars(filled)


def _new(kind: Any) -> Any:
    return kind.__new__(kind)
