"""The table of codecs: which types are reduced specially, and how.

Keyed by qualified type name, so that no library is imported to fill it; a type
is looked up along its bases, once. `register_codec` lets a library or a user
add one, and so does the entry-point group `nbrewind.codecs`.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from nbrewind.errors import NotStorable
from nbrewind.state.hidden import hides_state, reduce_with_hooks
from nbrewind.state.iterators import BUILT_IN, OF_ITERTOOLS
from nbrewind.state.views import VIEWS

if TYPE_CHECKING:
    from nbrewind.state.pickling import StatePickler

PLUGIN_GROUP = "nbrewind.codecs"
"""Entry points of this group name a type, `package.module.Class`, and a reducer for it."""

log = logging.getLogger(__name__)

Reducer = Callable[["StatePickler", Any], Any]

_OF_REGISTRY = "nbrewind.state.library_objects:reduce_of_registry"
_LIVE = "a live {name} cannot be stored"

_EXACT: dict[str, str] = {
    "functools.singledispatchmethod": "nbrewind.state.function_tools:reduce_method",
    "functools._lru_cache_wrapper": "nbrewind.state.function_tools:reduce_cached",
    "decimal.Context": "nbrewind.state.shared_objects:reduce_shared",
    "matplotlib.RcParams": "nbrewind.state.shared_objects:reduce_shared",
    "numpy.random.mtrand.RandomState": "nbrewind.state.shared_objects:reduce_shared",
    "os._Environ": "nbrewind.state.shared_objects:reduce_shared",
    "pandas._config.config.DictWrapper": "nbrewind.state.shared_objects:reduce_options",
    "nbrewind.state.shared_objects.SharedList": "nbrewind.state.shared_objects:reduce_list",
    "random.Random": "nbrewind.state.shared_objects:reduce_shared",
    "torch._C.Generator": "nbrewind.state.shared_objects:reduce_shared",
    "itertools.count": "nbrewind.state.counts:reduce_count",
    "numpy.ndarray": "nbrewind.state.arrays:reduce_array",
    "torch.Tensor": "nbrewind.state.tensors:reduce_tensor",
    "torch.nn.parameter.Parameter": "nbrewind.state.tensors:reduce_tensor",
    "torch.storage.UntypedStorage": "nbrewind.state.tensors:reduce_storage",
    "pandas.core.internals.managers.BlockManager": "nbrewind.state.frames:reduce_manager",
    "pandas.core.internals.managers.SingleBlockManager": "nbrewind.state.frames:reduce_manager",
    "pandas.StringDtype": "nbrewind.state.frames:reduce_string_type",
    "pandas.core.arrays.string_.StringDtype": "nbrewind.state.frames:reduce_string_type",
    "builtins.object": "nbrewind.state.references:reduce_sentinel",
    "typing.TypeVar": "nbrewind.state.typing_objects:reduce_type_variable",
    "typing.NewType": "nbrewind.state.typing_objects:reduce_new_type",
    "builtins.mappingproxy": "nbrewind.state.views:reduce_proxy",
    **{f"builtins.{name}": "nbrewind.state.views:reduce_view" for name in VIEWS},
    "_thread.lock": "nbrewind.state.locks:reduce_lock",
    "_thread.RLock": "nbrewind.state.locks:reduce_lock",
    "_struct.Struct": "nbrewind.state.library_objects:reduce_struct",
    **{f"builtins.{name}": "nbrewind.state.iterators:reduce_iterator" for name in BUILT_IN},
    **{f"itertools.{name}": "nbrewind.state.iterators:reduce_iterator" for name in OF_ITERTOOLS},
}
"""Codecs for one type only."""

_WITH_SUBCLASSES: dict[str, str] = {
    "pandas.Index": "nbrewind.state.frames:reduce_index",
    "pandas.core.indexes.base.Index": "nbrewind.state.frames:reduce_index",
    "pandas.api.extensions.ExtensionArray": "nbrewind.state.frames:reduce_cached",
    "pandas.core.arrays.base.ExtensionArray": "nbrewind.state.frames:reduce_cached",
    "pandas.core.base.PandasObject": "nbrewind.state.frames:reduce_cached",
    "pandas.core.base.SelectionMixin": "nbrewind.state.frames:reduce_cached",
    "pandas.core.groupby.ops.BaseGrouper": "nbrewind.state.frames:reduce_cached",
    "pandas.core.groupby.grouper.Grouping": "nbrewind.state.frames:reduce_cached",
    "pandas.core.generic.NDFrame": "nbrewind.state.frames:reduce_frame",
    "_io._IOBase": "nbrewind.state.closed_files:reduce_file",
    "builtins.BaseException": "nbrewind.state.exceptions:reduce_exception",
    "concurrent.futures._base.Future": "nbrewind.state.locks:reduce_future",
    "logging.Handler": "nbrewind.state.logging_state:reduce_handler",
    "logging.Logger": "nbrewind.state.logging_state:reduce_logger",
    "matplotlib.artist.Artist": "nbrewind.state.figures:reduce_artist",
    "matplotlib.cbook.CallbackRegistry": "nbrewind.state.figures:reduce_registry",
    "matplotlib.colors.Colormap": "nbrewind.state.figures:reduce_colormap",
    "matplotlib.figure.Figure": "nbrewind.state.figures:reduce_figure",
    "matplotlib.transforms.TransformNode": "nbrewind.state.figures:reduce_transform",
    "numpy.memmap": "nbrewind.state.arrays:refuse_memmap",
    "polars.dataframe.frame.DataFrame": "nbrewind.state.columns:reduce_frame",
    "polars.series.series.Series": "nbrewind.state.columns:reduce_series",
    "pyarrow.lib.Buffer": "nbrewind.state.columns:reduce_buffer",
    "plotly.basedatatypes.BaseFigure": "nbrewind.state.plain_state:reduce_attributes",
    "plotly.basedatatypes.BasePlotlyType": "nbrewind.state.plain_state:reduce_attributes",
    "networkx.classes.graph.Graph": "nbrewind.state.library_objects:reduce_graph",
    "numba.core.dispatcher.Dispatcher": "nbrewind.state.jitted:reduce_jitted",
    "pint.facets.plain.quantity.PlainQuantity": _OF_REGISTRY,
    "pint.facets.plain.unit.PlainUnit": _OF_REGISTRY,
    "sklearn.utils._bunch.Bunch": "nbrewind.state.library_objects:reduce_bunch",
    "torch.optim.optimizer.Optimizer": "nbrewind.state.optimizers:reduce_optimizer",
    "nbrewind.state.existence.StandIn": "nbrewind.state.existence:reduce_stand_in",
}
"""Codecs for a type and all derived from it."""

_NOT_STORABLE = frozenset(
    {
        "io.IOBase",
        "builtins.generator",
        "builtins.coroutine",
        "builtins.async_generator",
        "builtins.set_iterator",
        "builtins.dict_keyiterator",
        "builtins.dict_valueiterator",
        "builtins.dict_itemiterator",
        "builtins.frame",
        "builtins.memoryview",
        "builtins.traceback",
        "threading.Thread",
        "weakref.finalize",
        "weakref.ProxyType",
        "weakref.CallableProxyType",
        "_weakrefset.WeakSet",
        "argparse.ArgumentParser",  # compares strings by identity
        "unittest.mock.Base",  # answers every question, also pickle's
        "bs4.element.PageElement",  # is parsed anew, into other objects than others hold
        "socket.socket",
        "sqlalchemy.pool.base.Pool",  # an engine's: connects, and listens to it, once
        "matplotlib.animation.Animation",
        "matplotlib.backend_bases.FigureCanvasBase",
        "matplotlib.backend_bases.FigureManagerBase",
        "matplotlib.backend_bases.NavigationToolbar2",
        "matplotlib.backend_bases.RendererBase",
        "matplotlib.backend_bases.TimerBase",
        "matplotlib.widgets.Widget",
        "subprocess.Popen",
        "multiprocessing.process.BaseProcess",
        "concurrent.futures._base.Executor",
        "asyncio.futures.Future",
        "_asyncio.Future",
        "ipywidgets.widgets.widget.Widget",
        "comm.base_comm.BaseComm",
        "bokeh.model.model.Model",  # numbered within its process
        "bokeh.document.document.Document",
    }
)
"""Types that pickle badly or not at all: running their cell again is the only way back."""

_STORABLE_STREAMS = frozenset({"_io.BytesIO", "_io.StringIO"})

_cache: dict[type, Reducer | None] = {}
_registered: dict[type, Reducer] = {}


def register_codec(kind: type, reducer: Reducer) -> None:
    """Reduce values of `kind` and its subclasses with `reducer(pickler, value)`.

    The reducer returns what `__reduce_ex__` may return, `NotImplemented` to fall back
    on pickle, or raises `NotStorable`.
    """
    _registered[kind] = reducer
    _cache.clear()


def find_reducer(kind: type) -> Reducer | None:
    """The codec for a type, or None if pickle does it right."""
    try:
        return _cache[kind]
    except KeyError:
        pass
    except Exception:  # a metaclass that hashes its classes in its own way
        return _search(kind)
    reducer = _cache[kind] = _search(kind)
    if len(_cache) > 20_000:  # classes made in a loop must not live on here
        _cache.clear()
    return reducer


def _search(kind: type) -> Reducer | None:
    for base in kind.__mro__:
        if base in _registered:
            return _registered[base]
    plugins = _plugins()
    for base in kind.__mro__ if plugins else ():
        entry = plugins.get(_name(base))
        if entry is not None and (reducer := _load_plugin(entry)) is not None:
            return reducer
    exact = _EXACT.get(_name(kind))
    if exact is not None:
        return _load(exact)
    for base in kind.__mro__:
        name = _name(base)
        if name in _STORABLE_STREAMS:
            return None
        if name in _WITH_SUBCLASSES:
            return _load(_WITH_SUBCLASSES[name])
        if name in _NOT_STORABLE or (base.__module__ == "itertools" and base is kind):
            return _refuse
    return reduce_with_hooks if hides_state(kind) else None


@lru_cache(maxsize=1)
def _plugins() -> dict[str, EntryPoint]:
    """Codecs of other packages: an entry point is named after the type it is for."""
    return {entry.name: entry for entry in entry_points(group=PLUGIN_GROUP)}


def _load_plugin(entry: EntryPoint) -> Reducer | None:
    try:
        reducer: Reducer = entry.load()
    except Exception:
        log.warning("the codec %s of a plug-in is left out", entry.value, exc_info=True)
        return None
    return reducer


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _load(where: str) -> Reducer:
    module, _, function = where.partition(":")
    reducer: Reducer = getattr(importlib.import_module(module), function)
    return reducer


def _refuse(pickler: StatePickler, obj: Any) -> Any:
    raise NotStorable(_LIVE.format(name=type(obj).__qualname__))
