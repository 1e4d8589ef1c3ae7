"""`launch`: a function of the notebook on several ranks."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import nbrewind
from nbrewind.errors import LaunchError
from nbrewind.training.context import current
from nbrewind.training.launching.shipping import pack, separable, unpack
from nbrewind.training.launching.supervising import Supervisor
from nbrewind.training.launching.work import Assigned, Body, Call, Work

_T = TypeVar("_T")

TIMEOUT = 1800.0
"""Seconds after which a rank that others wait for counts as hanging: as long as torch waits."""
GRACE = 30.0
"""Seconds that ranks have to end after an interrupt: time to save."""


def launch(
    fn: Callable[..., _T],
    nproc: int,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    timeout: float | None = TIMEOUT,
    grace: float = GRACE,
) -> list[_T]:
    """Call a function on several ranks and wait for all of them.

    The ranks are started by torch's elastic launcher, as by `torchrun --standalone`: they find
    `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `MASTER_ADDR` and so on in their environment. The
    function, its arguments, and what it uses of the notebook travel by value. What ranks print
    is shown with their rank. Ctrl-C, SIGTERM and SIGUSR1 are passed on to them. No rank
    outlives the call, nor the notebook's process.

    Args:
        fn: the function; of the notebook or of a module.
        nproc: the number of ranks.
        args: what it is called with.
        kwargs: the same, by name.
        timeout: seconds after which a rank counts as hanging that got no further while others
            waited for it; None: never.
        grace: seconds that ranks have to end after an interrupt, before they are killed.

    Returns:
        What the function returned on each rank, in the order of ranks.

    Raises:
        RankFailed: the function raised on a rank, or a rank was killed, or hangs. The message
            names the rank, its exit code and its traceback.
        LaunchError: the ranks could not be started.
        KeyboardInterrupt: a signal told the ranks to end, and they did.
    """
    __tracebackhide__ = True  # IPython leaves such frames out
    call = Call(fn, tuple(args), dict(kwargs or {}))
    results = _run(call, nproc, timeout, grace)
    return [unpack(result, _main()) for result in results]


def run_body(
    body: Body, nproc: int, *, timeout: float | None = TIMEOUT, grace: float = GRACE
) -> Assigned:
    """Run a cell's body on several ranks; what rank 0 assigned.

    Raises:
        Exception: as `launch`.
    """
    __tracebackhide__ = True
    results = _run(body, nproc, timeout, grace)
    assigned = unpack(results[0], _main())
    assert isinstance(assigned, Assigned)
    return assigned


def _run(job: Call | Body, nproc: int, timeout: float | None, grace: float) -> list[bytes]:
    __tracebackhide__ = True
    if nproc < 1:
        raise ValueError(f"nproc is {nproc}: there is at least one rank")
    environ, changed = _environment(nproc)
    work = Work(_packed(job), list(sys.path), changed, current(), _sources())
    supervisor = Supervisor(
        nproc, msgspec.msgpack.encode(work), grace=grace, timeout=timeout, environ=environ
    )
    return supervisor.run()


def _main() -> dict[str, Any]:
    return sys.modules["__main__"].__dict__


def _packed(job: Call | Body) -> bytes:
    try:
        return bytes(pack(job, _main()))
    except Exception as problem:  # of any kind: values may do anything when they are pickled
        parts = job.names if isinstance(job, Body) else _parts(job)
        _, bad = separable(parts, lambda one: pack(one, _main()))
        if not bad:
            raise LaunchError(f"the ranks cannot be given what they need: {problem}") from problem
        told = "; ".join(f"{name} ({why})" for name, why in bad.items())
        raise LaunchError(f"the ranks cannot be given {told}") from problem


def _parts(call: Call) -> dict[str, Any]:
    named = {f"argument {number}": value for number, value in enumerate(call.args)}
    named |= {f"argument {name}": value for name, value in call.kwargs.items()}
    return {getattr(call.function, "__name__", "the function"): call.function, **named}


def _environment(nproc: int) -> tuple[dict[str, str], dict[str, str | None]]:
    """What ranks start with, and what they then set back to how the notebook has it."""
    environ = dict(os.environ)
    home = str(Path(nbrewind.__file__).parent.parent)
    before = environ.get("PYTHONPATH")
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [home, before]))
    if "OMP_NUM_THREADS" not in environ:
        # Ranks share the cores; left alone, each would start a thread for every core.
        count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        environ["OMP_NUM_THREADS"] = str(max(1, (count or 1) // nproc))
    return environ, {"PYTHONPATH": before}


def _sources() -> dict[str, str]:
    """Texts of cells, which are in no file: ranks show them in tracebacks."""
    return {
        name: "".join(entry[2])
        for name, entry in list(linecache.cache.items())
        if len(entry) > 2 and not name.startswith("<frozen") and not os.path.exists(name)
    }
