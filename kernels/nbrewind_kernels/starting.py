"""Start the engine of a session; imported late, because it is heavy."""

from __future__ import annotations

from typing import Literal

from nbrewind_kernels.location import Location
from nbrewind_kernels.ports import CellEngine, Shell


def start_engine(shell: Shell, mode: Literal["audit", "replay"], location: Location) -> CellEngine:
    """The engine for one session at one place."""
    from nbrewind_kernels.engine import make_engine

    return make_engine(
        shell,
        mode=mode,
        root=location.root,
        notebook=location.notebook,
        store=location.store,
        env_policy=location.env_policy,
    )
