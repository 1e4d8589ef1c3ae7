"""`%load_ext nbrewind`: audit the cells of a plain ipykernel, or of terminal IPython.

Cells are followed by IPython's `pre_run_cell` and `post_run_cell` events, so the
capture happens before the cell's reply, and nothing is ever reused: for that
there is the replay kernel. In a terminal there are no messages to record; state
is recorded all the same.
"""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any
from weakref import WeakKeyDictionary

from nbrewind_kernels.cells import Cell, Cells
from nbrewind_kernels.interrupts import deferred
from nbrewind_kernels.location import Location
from nbrewind_kernels.magic import RewindMagics
from nbrewind_kernels.outputs import OutputRecorder
from nbrewind_kernels.policies import cell_request
from nbrewind_kernels.ports import Execute
from nbrewind_kernels.rank_magic import RankMagics
from nbrewind_kernels.shell_port import IPythonShellPort
from nbrewind_kernels.starting import start_engine

_log = logging.getLogger("nbrewind")
_loaded: WeakKeyDictionary[Any, Auditing] = WeakKeyDictionary()


class Auditing:
    """The extension in one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._cell: Cell | None = None
        location = Location.find()
        location = location.with_defaults("", "rerun")
        self.cells = Cells(None, _log)
        try:
            self.cells.engine = start_engine(IPythonShellPort(shell), "audit", location)
        except Exception as error:
            self.cells.tell("start recording", error)
        kernel = getattr(shell, "kernel", None)
        if kernel is not None and getattr(kernel, "session", None) is not None:
            holders = (sys.stdout, sys.stderr, shell.displayhook, shell.display_pub)
            self.cells.recorder = OutputRecorder(
                kernel.session,
                kernel.iopub_thread,
                kernel.iopub_socket,
                holders,
                _log,
                stdin_socket=kernel.stdin_socket,
            )
        magics = RewindMagics(shell, self.cells, "audit", location.store)
        shell.register_magics(magics, RankMagics(shell))
        shell.events.register("pre_run_cell", self.begin)
        shell.events.register("post_run_cell", self.end)

    def begin(self, info: Any) -> None:
        """A cell is about to run."""
        if info.silent or not info.store_history or not _on_main_thread():
            return
        if self._cell is not None:
            return  # a cell that runs a cell
        request = cell_request(info.raw_cell, info.cell_id, info.cell_meta)
        with deferred():
            self._cell = self.cells.open(request, self._message_id())
            self.cells.decide(self._cell)

    def end(self, result: Any) -> None:
        """A cell has run."""
        cell = self._cell
        if cell is None or not _on_main_thread():
            return
        if result is not None and result.info.raw_cell != cell.request.source:
            return  # a cell that the cell itself ran
        self._cell = None
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        if isinstance(cell.decision, Execute):
            error = result.error_before_exec or result.error_in_exec if result else None
            if error is not None or result is None:
                cell.note_error(type(error).__name__, str(error))
            elif result.result is not self._shell.user_ns.get("_oh"):
                cell.result = result.result
        with deferred():
            self.cells.finish(cell)

    def stop(self) -> None:
        """Leave the shell as it was found."""
        self._shell.events.unregister("pre_run_cell", self.begin)
        self._shell.events.unregister("post_run_cell", self.end)
        self._shell.magics_manager.magics["line"].pop("rewind", None)
        self._shell.magics_manager.magics["cell"].pop("torchrun", None)
        if self.cells.recorder is not None:
            self.cells.recorder.uninstall()
        self.cells.close()

    def _message_id(self) -> str:
        kernel = getattr(self._shell, "kernel", None)
        if kernel is None:
            return ""
        return str(kernel.get_parent("shell").get("header", {}).get("msg_id", ""))


def load(shell: Any) -> None:
    """Start auditing in `shell`; nothing happens where cells are followed already."""
    if shell in _loaded or _is_followed_by_kernel(shell):
        return
    _loaded[shell] = Auditing(shell)


def unload(shell: Any) -> None:
    """Stop auditing in `shell`."""
    auditing = _loaded.pop(shell, None)
    if auditing is not None:
        auditing.stop()


def _is_followed_by_kernel(shell: Any) -> bool:
    return isinstance(getattr(getattr(shell, "kernel", None), "cells", None), Cells)


def _on_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
