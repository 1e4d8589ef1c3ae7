"""A session's trace: its cells, and what NBRewind did meanwhile, for browsers and Perfetto."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import MutableMapping

from nbrewind.model.spans import TRACE_VARIABLE, Span, chrome_trace, stopwatch
from nbrewind_kernels.session_report import first_line

log = logging.getLogger(__name__)


class Trace:
    """Written to the file that the environment names; nothing is kept if it names none.

    Args:
        environ: The environment; the name is taken out, it is not for cells to see.
    """

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._path = environ.pop(TRACE_VARIABLE, "")
        stopwatch.keeping = bool(self._path)

    def note_cell(self, action: str, source: str, start: float, seconds: float) -> None:
        """Keep the span of a whole cell.

        Args:
            action: What was done with it.
            source: Its text.
            start: As `time.perf_counter` had it.
            seconds: How long it took.
        """
        if self._path:
            name = f"{action}: {first_line(source)}"
            thread = threading.get_native_id()
            stopwatch.note([Span(name, start, seconds, 0.0, 0, os.getpid(), thread)])

    def write(self) -> str:
        """Write the file; returns what went wrong."""
        if not self._path:
            return ""
        spans = stopwatch.take_spans()
        names = {span.process: "flusher" for span in spans} | {os.getpid(): "kernel"}
        try:
            with open(self._path, "wb") as file:
                file.write(chrome_trace(spans, names))
        except OSError as problem:
            return f"the trace was not written: {problem}"
        return ""
