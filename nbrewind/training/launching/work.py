"""What a rank is to run: a function of the notebook, or the text of a cell."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from nbrewind.training.context import Context
from nbrewind.training.launching.shipping import pack, separable


class Work(msgspec.Struct, frozen=True):
    """What the kernel sends to each rank."""

    job: bytes
    """A `Call` or a `Body`, pickled by value."""
    path: list[str]
    """`sys.path` of the notebook."""
    environ: dict[str, str | None]
    """Environment variables that are other ones for the start of the process only."""
    context: Context | None
    """What the cell tells training sessions."""
    sources: dict[str, str]
    """Texts of cells by the file names that tracebacks show."""


@dataclass
class Call:
    """A function and what it is called with."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass
class Body:
    """The body of a `%%torchrun` cell."""

    code: str
    """After IPython's transformation."""
    filename: str
    flags: int
    """What `from __future__` features are in force."""
    names: dict[str, Any]
    """Values of the variables it may read."""


@dataclass
class Assigned:
    """What a body left in the namespace of rank 0."""

    names: dict[str, Any]
    deleted: tuple[str, ...]
    left: dict[str, str]
    """Names whose values cannot leave the rank, and why."""


def run_work(job: Call | Body, namespace: dict[str, Any], known: Mapping[type, str]) -> memoryview:
    """Run a job; what it returned, pickled.

    Args:
        job: what to run.
        namespace: of this process's `__main__`.
        known: classes that came from the notebook.
    """
    if isinstance(job, Call):
        result: Any = job.function(*job.args, **job.kwargs)
        return pack(result, namespace, known, with_globals=False)
    return _run_body(job, namespace, known)


def _run_body(body: Body, namespace: dict[str, Any], known: Mapping[type, str]) -> memoryview:
    namespace.update(body.names)
    before = dict(namespace)
    code = compile(body.code, body.filename, "exec", flags=body.flags, dont_inherit=True)
    exec(code, namespace)
    if os.environ.get("RANK") != "0":
        return pack(None, namespace)
    names = {
        name: value
        for name, value in namespace.items()
        if value is not before.get(name, _NOTHING) and not name.startswith("__")
    }
    deleted = tuple(name for name in before if name not in namespace)

    def packed(some: dict[str, Any], left: dict[str, str]) -> memoryview:
        result = Assigned(some, deleted, left)
        return pack(result, namespace, known, with_globals=False)

    try:
        return packed(names, {})
    except Exception:  # of any kind: values may do anything when they are pickled
        good, bad = separable(names, lambda one: packed(one, {}))
        return packed(good, bad)


_NOTHING = object()
