"""The `%rewind` magic."""

# mypy: allow-untyped-calls
# (IPython and ipykernel are annotated only in part)

from __future__ import annotations

import time
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class
from IPython.display import display

from nbrewind_kernels.cells import Cells
from nbrewind_kernels.session_report import SessionReport

_MOMENT = 1.0
"""Seconds a report waits for the disk: usually there is nothing to be said of it then."""
_LOOKS = 50
_USAGE = "Usage: %rewind report | %rewind status"


@magics_class
class RewindMagics(Magics):
    """Commands about this session's records; cells made of them alone are not recorded."""

    def __init__(self, shell: Any, cells: Cells, mode: str, place: str) -> None:
        super().__init__(shell)
        self._cells = cells
        self._mode = mode
        self._place = place

    @line_magic
    def rewind(self, line: str) -> None:
        """Tell what NBRewind did in this session.

        %rewind report   a table of all cells so far: executed or reused, and why
        %rewind status   the mode, the store, and what is not loaded yet
        """
        command = line.split()
        if command == ["report"]:
            cells = self._cells
            display(
                SessionReport(self._mode, list(cells.entries), cells.warnings, self._captured())
            )
        elif command == ["status"]:
            display({"text/plain": self._status()}, raw=True)
        else:
            raise UsageError(_USAGE)

    def _captured(self) -> frozenset[str]:
        """Ids of records that are not on the disk, and will not be there in a moment."""
        engine = self._cells.engine
        if engine is None:
            return frozenset()
        for _ in range(_LOOKS):
            if not engine.captured():
                break
            time.sleep(_MOMENT / _LOOKS)
        return engine.captured()

    def _status(self) -> str:
        cells = self._cells
        lines = [
            SessionReport(self._mode, cells.entries).summary(),
            f"store: {self._place}",
        ]
        if cells.engine is None:
            lines.append("not recording: cells run as in a plain kernel")
        lazy = sorted(cells.lazy_names())
        if lazy:
            lines.append("known but not loaded: " + ", ".join(lazy))
        lines += [f"warning: {warning}" for warning in cells.warnings]
        return "\n".join(lines)
