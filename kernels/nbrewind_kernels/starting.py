"""Start the engine of a session; imported late, because it is heavy."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from typing import Literal, TextIO

from nbrewind.errors import NBRewindError
from nbrewind_kernels.location import Location
from nbrewind_kernels.ports import CellEngine, Shell


def start_engine(shell: Shell, mode: Literal["audit", "replay"], location: Location) -> CellEngine:
    """The engine for one session at one place.

    A store that cannot be written, or not be opened at all, costs recording and reuse, never
    the notebook (law L6).
    """
    from nbrewind.state.audit import unheard
    from nbrewind.store.opening import open_store
    from nbrewind_kernels.engine import Engine

    keep_logs_out_of_cells()
    store = None
    problem = ""
    try:
        store = open_store(location.store, flusher=unheard)
    except (NBRewindError, OSError) as error:
        problem = f"nothing is recorded: {error}"
        with contextlib.suppress(NBRewindError, OSError):
            store = open_store(location.store, create=False, read_only=True)
    engine = Engine(
        shell,
        mode=mode,
        root=location.root,
        notebook=location.notebook,
        store=store,
        environment=location.env_policy,
    )
    if problem:
        engine.warn(problem)
    return engine


def keep_logs_out_of_cells() -> None:
    """Send this package's logs to the process's own stderr, past what cells print.

    ipykernel puts whatever reaches `sys.stderr`, or even its descriptor, into the output
    of the running cell; it keeps a copy of the real descriptor.
    """
    stream: TextIO | None
    real = getattr(sys.stderr, "_original_stdstream_copy", None)
    if real is None:
        stream = sys.__stderr__
    else:
        stream = io.TextIOWrapper(io.FileIO(real, "w", closefd=False), write_through=True)
    handler = logging.NullHandler() if stream is None else logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("[%(name)s] %(levelname)s %(message)s"))
    for package in ("nbrewind", "nbrewind_kernels", "nbrewind_analysis"):
        logger = logging.getLogger(package)
        if not logger.handlers:
            logger.addHandler(handler)
            logger.propagate = False
