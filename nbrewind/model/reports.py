"""What a run says about itself: the JSON contract of the command line."""

from __future__ import annotations

from typing import Literal

import msgspec

from nbrewind.model.reasons import Reason

Action = Literal["executed", "reused", "failed", "not-run"]


class CellReport(msgspec.Struct, kw_only=True):
    """One code cell of a run."""

    index: int
    """Position among the code cells, from 0; -1 where the kernel cannot know it."""
    id: str
    action: Action
    reasons: list[Reason] = []
    seconds: float = 0.0
    """Wall-clock seconds this run spent on the cell, capture included."""
    recorded_seconds: float | None = None
    """What the reused (or previous) execution of the cell took."""
    reads: list[str] = []
    writes: list[str] = []
    checkpoint_bytes: int = 0
    """Bytes the cell added to the store."""
    notes: list[str] = []
    """What a person should know: network used, environment differs, not stored, …"""
    record: str = ""
    """Id of the execution record made or reused, in hex."""


class NotebookReport(msgspec.Struct, kw_only=True):
    """A whole run of `nbrewind audit` or `nbrewind replay`."""

    notebook: str
    kernel: str
    seconds: float
    executed: int
    reused: int
    saved_seconds: float
    cells: list[CellReport]
    warnings: list[str] = []


Forecast = Literal["reusable", "would-run", "may-run"]


class CellStatus(msgspec.Struct, kw_only=True):
    """One code cell as `nbrewind status` sees it, without executing anything."""

    index: int
    id: str
    status: Forecast
    reasons: list[Reason] = []
    recorded_seconds: float | None = None
    resumable_step: int | None = None
    """Steps of training that it will not make again, because they are saved."""


class StatusReport(msgspec.Struct, kw_only=True):
    """What a replay would do."""

    notebook: str
    reusable: int
    would_run: int
    may_run: int
    cells: list[CellStatus]


class CellTimes(msgspec.Struct, kw_only=True):
    """The last recorded run of one cell."""

    ordinal: int
    """Position among the cells run in its session, from 0."""
    id: str
    source: str
    seconds: float
    """Of the user's code."""
    capture_seconds: float
    """Of recording it, as far as the notebook waited."""
    stages: dict[str, tuple[float, int]]
    """Seconds of capture by stage, and the bytes each worked on."""


class TimeReport(msgspec.Struct, kw_only=True):
    """A whole notebook."""

    notebook: str
    seconds: float
    capture_seconds: float
    stages: dict[str, tuple[float, int]]
    cells: list[CellTimes]
