"""Decorators, bases and context managers known not to do what unknown ones may.

An unknown decorator may call the function, an unknown base its methods, an unknown context
manager may swallow an exception. Taking each for the worst would tie most cells to too
many names, so the common ones are listed.
"""

from __future__ import annotations

import ast
from collections.abc import Container

_DECORATORS = frozenset(
    {
        *("property", "cached_property", "setter", "getter", "deleter"),
        *("staticmethod", "classmethod", "abstractmethod", "override", "final", "overload"),
        *("dataclass", "define", "frozen", "total_ordering", "runtime_checkable"),
        *("wraps", "cache", "lru_cache", "singledispatch", "contextmanager", "no_grad"),
        *("inference_mode", "asynccontextmanager"),
    }
)

_BASES = frozenset(
    {
        *("object", "ABC", "Protocol", "NamedTuple", "TypedDict", "Generic"),
        *("dict", "list", "tuple", "set", "frozenset", "int", "float", "str", "bytes"),
        *("BaseException", "Exception", "ValueError", "TypeError", "RuntimeError", "KeyError"),
        *("Module", "Dataset", "IterableDataset", "Function", "LightningModule", "Thread"),
        *("BaseEstimator", "TransformerMixin", "ClassifierMixin", "RegressorMixin"),
        *("TestCase", "UserDict", "UserList", "OrderedDict", "defaultdict", "Counter"),
    }
)

_MANAGERS = frozenset(
    {
        *("open", "File", "ZipFile", "TarFile", "GzipFile", "HDFStore", "ExcelWriter"),
        *("ExcelFile", "open_dataset", "connect", "urlopen", "Session", "scandir"),
        *("TemporaryDirectory", "NamedTemporaryFile", "TemporaryFile", "closing", "nullcontext"),
        *("redirect_stdout", "redirect_stderr", "catch_warnings", "localcontext", "errstate"),
        *("printoptions", "option_context", "rc_context", "context", "style", "axes_style"),
        *("no_grad", "inference_mode", "enable_grad", "autocast", "device", "set_grad_enabled"),
        *("Pool", "ThreadPool", "ThreadPoolExecutor", "ProcessPoolExecutor", "Parallel"),
        *("Lock", "RLock", "Semaphore", "tqdm", "trange", "Client", "LocalCluster"),
        *("GradientTape", "strategy", "scope", "fork_rng", "profile", "Progress"),
    }
)
"""Callables whose context managers never swallow an exception."""


def is_plain_decorator(node: ast.expr, own: Container[str]) -> bool:
    """Whether a decorator neither runs what it decorates nor hands it to others.

    Args:
        node: the decorator.
        own: names the cell binds itself; a function of the notebook is never plain.
    """
    if isinstance(node, ast.Name) and node.id in own:
        return False
    return _last_name(node) in _DECORATORS


def is_plain_base(node: ast.expr, own: Container[str]) -> bool:
    """Whether making a subclass runs none of its methods.

    Args:
        node: the base.
        own: names the cell binds itself; a class of the notebook is never plain.
    """
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name) and node.id in own:
        return False
    return _last_name(node) in _BASES


def lets_exceptions_through(node: ast.expr) -> bool:
    """Whether a `with` over this expression ends normally only if its body did."""
    return isinstance(node, ast.Call) and _last_name(node) in _MANAGERS


def runs_at_least_once(node: ast.expr) -> bool:
    """Whether a loop over this expression has a first round for certain."""
    match node:
        case ast.List() | ast.Tuple() | ast.Set():
            return any(not isinstance(item, ast.Starred) for item in node.elts)
        case ast.Constant(value=str() | bytes()):
            return bool(node.value)
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(stop))], keywords=[]):
            return stop > 0
        case ast.Call(
            func=ast.Name(id="range"),
            args=[ast.Constant(value=int(start)), ast.Constant(value=int(stop))],
            keywords=[],
        ):
            return start < stop
        case ast.Call(func=ast.Name(id="enumerate" | "tqdm"), args=[inner], keywords=[]):
            return runs_at_least_once(inner)
    return False


def _last_name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None
