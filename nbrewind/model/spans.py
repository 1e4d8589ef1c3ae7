"""Where the time of a session goes: how long each stage took, and on how many bytes.

A stage that runs within another is taken out of it, so that the seconds of all add up. What
stages are there:

| stage | what is done |
|---|---|
| detect | finding out what a cell read and changed |
| hash | naming bytes by their digests |
| stage | copying what changed to where the flusher finds it |
| compress | encoding objects |
| write | handing bytes to the file system |
| fsync | waiting until they are durable |
| restore | loading recorded values |
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec

STAGES = ("detect", "hash", "stage", "compress", "write", "fsync", "restore")
TRACE_VARIABLE = "NBREWIND_TRACE"
"""Names the file that a session writes its trace to."""
_MOST_KEPT = 1_000_000
"""Spans kept for a trace; a session that makes more loses the last ones."""


class Span(msgspec.Struct, frozen=True, array_like=True):
    """One stretch of work."""

    stage: str
    """One of `STAGES`, or what a person should read."""
    start: float
    """Seconds on the system's monotonic clock, which all processes share."""
    seconds: float
    own: float
    """Seconds without those of stages within it."""
    size: int
    """Bytes it worked on."""
    process: int
    thread: int


class Stopwatch:
    """The spans of one process. Safe to use from several threads."""

    def __init__(self) -> None:
        self.keeping = False
        """Keep every span, for a trace."""
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget everything: in a forked child another thread may have been at it."""
        self._stack = threading.local()
        self._lock = threading.Lock()
        self._totals: dict[str, list[float]] = {}
        self._spans: list[Span] = []

    @contextmanager
    def measure(self, stage: str, size: int = 0) -> Iterator[None]:
        """Count what is done inside as a stage, of work on `size` bytes."""
        inside: list[float] | None = getattr(self._stack, "inside", None)
        if inside is None:
            inside = self._stack.inside = [0.0]
        inside.append(0.0)
        start = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - start
            own = seconds - inside.pop()
            inside[-1] += seconds
            thread = threading.get_native_id()
            self._add(Span(stage, start, seconds, own, size, os.getpid(), thread))

    def note(self, spans: Iterable[Span]) -> None:
        """Keep what another process measured."""
        with self._lock:
            self._keep(spans)

    def take_totals(self) -> dict[str, tuple[float, int]]:
        """Seconds and bytes of each stage since the last call."""
        with self._lock:
            totals, self._totals = self._totals, {}
        return {stage: (seconds, int(size)) for stage, (seconds, size) in totals.items()}

    def take_spans(self) -> list[Span]:
        """The spans kept since the last call."""
        with self._lock:
            spans, self._spans = self._spans, []
        return spans

    def _add(self, span: Span) -> None:
        with self._lock:
            total = self._totals.setdefault(span.stage, [0.0, 0.0])
            total[0] += span.own
            total[1] += span.size
            self._keep((span,))

    def _keep(self, spans: Iterable[Span]) -> None:
        if self.keeping and len(self._spans) < _MOST_KEPT:
            self._spans += spans


stopwatch = Stopwatch()
"""This process's."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=stopwatch.begin_anew)


def chrome_trace(spans: Iterable[Span], names: dict[int, str]) -> bytes:
    """Spans in the trace event format, which browsers and Perfetto show.

    Args:
        spans: What to show.
        names: Names of processes by their number.
    """
    events: list[dict[str, object]] = [
        {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
        for process, name in names.items()
    ]
    for span in sorted(spans, key=lambda span: span.start):
        event = {
            "ph": "X",
            "name": span.stage,
            "cat": "nbrewind",
            "ts": round(span.start * 1e6, 1),
            "dur": round(span.seconds * 1e6, 1),
            "pid": span.process,
            "tid": span.thread,
        }
        if span.size:
            event["args"] = {"bytes": span.size}
        events.append(event)
    return msgspec.json.encode({"traceEvents": events, "displayTimeUnit": "ms"})
