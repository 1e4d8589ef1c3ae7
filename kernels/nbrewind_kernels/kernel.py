"""The audit and the replay kernel: ipykernel with an engine in front of each cell.

A cell is an execute request on the main shell that is neither silent nor kept
out of the history. Its flow:

1. `execute_request` starts recording what the request publishes;
2. `do_execute` asks the engine; a reused cell gets its recorded outputs and
   leaves behind in IPython what a run would have left, any other cell runs
   exactly as under ipykernel;
3. after the reply is sent, and before ipykernel publishes `idle`, the engine
   captures what the cell did, with Ctrl-C held back.

Everything else that can look at the namespace (completion, inspection, the
debugger, silent requests, comm handlers, subshells) first gets the variables
loaded that it may see.
"""

from __future__ import annotations

import atexit
import random
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import Any, ClassVar, Literal

from ipykernel.ipkernel import IPythonKernel
from IPython.utils.tokenutil import token_at_cursor
from traitlets import Enum, Unicode

from nbrewind.training.context import provide_outputs
from nbrewind_kernels.cells import Cell, Cells, is_recorded
from nbrewind_kernels.control import answer
from nbrewind_kernels.cursor_names import head_name, names_at
from nbrewind_kernels.interrupts import deferred
from nbrewind_kernels.leftovers import in_cell
from nbrewind_kernels.location import Location
from nbrewind_kernels.magic import RewindMagics
from nbrewind_kernels.outputs import COMMS, OutputRecorder, publish_again
from nbrewind_kernels.outputs_so_far import OutputsSoFar
from nbrewind_kernels.pending_results import settle
from nbrewind_kernels.policies import cell_request
from nbrewind_kernels.ports import CellEngine, Execute, Reuse, Shell
from nbrewind_kernels.rank_magic import RankMagics
from nbrewind_kernels.reuse import count_and_remember, remember_result
from nbrewind_kernels.shell_port import IPythonShellPort
from nbrewind_kernels.starting import start_engine

_cell: ContextVar[Cell | None] = ContextVar("nbrewind_cell", default=None)
"""The cell whose request this context handles; unset on subshells and in comm handlers."""

_LOOKING = frozenset(
    {
        "attach",
        "scopes",
        "variables",
        "evaluate",
        "inspectVariables",
        "richInspectVariables",
        "copyToGlobals",
    }
)
"""Debugger requests that show variables."""
_DEBUGGER_PATIENCE = 5.0


class _NotLoaded:
    """Stands for a variable that is not loaded, where only its name matters."""


_Base: Any = IPythonKernel  # annotated only in part: what is inherited counts as Any


class RewindKernel(_Base):  # type: ignore[misc]
    """What both kernels share."""

    mode: ClassVar[Literal["audit", "replay"]] = "audit"

    env_policy = Enum(
        ["rerun", "accept"],
        default_value="rerun",
        help="""What a changed package means for the cells that used it: `rerun` executes
        them again, `accept` reuses them with a note. NBREWIND_ENV_POLICY overrides it.
        """,
    ).tag(config=True)

    store = Unicode(
        "",
        help="""Place of the store, see NBREWIND_STORE; `.nbrewind` beside the notebook if empty.
        NBREWIND_STORE overrides it.
        """,
    ).tag(config=True)

    control_msg_types: ClassVar[list[str]] = [
        *IPythonKernel.control_msg_types,
        "nbrewind_request",
    ]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cells = Cells(None, self.log)
        for kind in COMMS:
            self.shell_handlers[kind] = partial(self._comm, kind, self.shell_handlers[kind])

    def start(self) -> None:
        """Start the engine, now that IPython's start-up files have run, and the kernel."""
        location = Location.find()
        try:
            location = location.with_defaults(self.store, self.env_policy)
            self.cells.engine = self.make_engine(IPythonShellPort(self.shell), location)
        except Exception as error:
            self.cells.tell("start recording", error)
        try:
            self.cells.recorder = self._recorder()
            magics = RewindMagics(self.shell, self.cells, self.mode, location.store)
            self.shell.register_magics(magics, RankMagics(self.shell))
        except Exception as error:
            self.cells.tell("watch outputs", error)
        atexit.register(self.cells.close, 5.0)
        super().start()

    @property
    def banner(self) -> str:
        """IPython's banner; it draws its tip at random, which is not the notebook's affair."""
        state = random.getstate()
        try:
            return str(super().banner)
        finally:
            random.setstate(state)

    def make_engine(self, shell: Shell, location: Location) -> CellEngine:
        """The engine of this kernel."""
        return start_engine(shell, self.mode, location)

    def _recorder(self) -> OutputRecorder:
        holders = (sys.stdout, sys.stderr, self.shell.displayhook, self.shell.display_pub)
        return OutputRecorder(
            self.session,
            self.iopub_thread,
            self.iopub_socket,
            holders,
            self.log,
            stdin_socket=self.stdin_socket,
        )

    # Cells

    async def execute_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Run one request, as a cell or as code outside cells."""
        content = parent.get("content") or {}
        silent = content.get("silent", False)
        hidden = silent or not content.get("store_history", not silent)
        if hidden or parent.get("header", {}).get("subshell_id") is not None:
            token = _cell.set(None)
            try:
                with ExitStack() as stack:
                    with deferred() as deferral:
                        stack.enter_context(self.cells.outside(_names_of_hidden(content)))
                    self._swallow(deferral.pending)
                    await super().execute_request(stream, ident, parent)
            finally:
                _cell.reset(token)
            return
        meta = parent.get("metadata") or {}
        request = cell_request(str(content.get("code", "")), meta.get("cellId"), meta)
        cell = self.cells.open(request, parent["header"]["msg_id"])
        token, marker = _cell.set(cell), in_cell.set(True)
        provide_outputs(self._outputs_so_far(cell, parent))
        try:
            await super().execute_request(stream, ident, parent)
        finally:
            with deferred() as deferral:
                provide_outputs(None)
                _cell.reset(token)
                in_cell.reset(marker)
                self.cells.finish(cell)
            self._swallow(deferral.pending)

    def _outputs_so_far(self, cell: Cell, parent: dict[str, Any]) -> OutputsSoFar | None:
        recorder, recording = self.cells.recorder, cell.recording
        if recorder is None or recording is None:
            return None
        topic = self.shell.displayhook.topic
        return OutputsSoFar(recorder, recording, self.session, self.iopub_socket, parent, topic)

    async def do_execute(
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: Mapping[str, str] | None = None,
        allow_stdin: bool = False,
        *,
        cell_meta: Any = None,
        cell_id: str | None = None,
    ) -> dict[str, Any]:
        """Reuse the cell if the engine says so, else run it as ipykernel does."""
        cell = _cell.get()
        previous = self.shell.last_execution_result
        before = None if previous is None else weakref.ref(previous)
        del previous  # it holds the last value shown, which this cell may want to drop
        if cell is not None:
            with deferred() as deferral:
                decision = self.cells.decide(cell)
            if isinstance(decision, Reuse):
                self._swallow(deferral.pending)
                return self._reuse(cell, decision, user_expressions or {}, cell_id, cell_meta)
            if deferral.pending:
                return self._stop(cell, cell_id, cell_meta)
            settle(self.shell)
        try:
            reply: dict[str, Any] = await super().do_execute(
                code,
                silent,
                store_history,
                user_expressions,
                allow_stdin,
                cell_meta=cell_meta,
                cell_id=cell_id,
            )
        except BaseException as error:
            if cell is not None:
                cell.note_error(type(error).__name__, str(error))
            raise
        if cell is not None and isinstance(cell.decision, Execute):
            self._note_end(cell, reply, before)
        return reply

    def _note_end(self, cell: Cell, reply: Mapping[str, Any], before: Any) -> None:
        if reply.get("status") != "ok":
            cell.note_error(str(reply.get("ename")), str(reply.get("evalue")))
            return
        if reply.get("payload"):
            cell.flags.add("untracked")  # pagers and `%load` talk to the front end directly
        result = self.shell.last_execution_result
        known = before() if before is not None else None
        if result is not known and result.result is not self.shell.user_ns.get("_oh"):
            cell.result = result.result

    def _reuse(
        self,
        cell: Cell,
        reuse: Reuse,
        user_expressions: Mapping[str, str],
        cell_id: str | None,
        cell_meta: Any,
    ) -> dict[str, Any]:
        shell = self.shell
        result = count_and_remember(shell, cell.request.source, cell_id, cell_meta, reuse.code)
        try:
            publish_again(
                reuse.outputs,
                self.session,
                self.iopub_socket,
                self.get_parent("shell"),
                result.execution_count,
                shell.displayhook.topic,
            )
            remember_result(shell, result, reuse)
        except Exception as error:
            self.cells.tell("show recorded outputs", error)
        values = {}
        if user_expressions:
            with self.cells.outside(_names_of(user_expressions.values())):
                values = shell.user_expressions(user_expressions)
        return self._reply("ok", user_expressions=values)

    def _stop(self, cell: Cell, cell_id: str | None, cell_meta: Any) -> dict[str, Any]:
        """The user interrupted while the cell's inputs were loaded: it does not run."""
        shell = self.shell
        result = count_and_remember(shell, cell.request.source, cell_id, cell_meta)
        error = KeyboardInterrupt("Interrupted before the cell ran")
        result.error_before_exec = error
        shell.last_execution_succeeded = False
        shell.last_execution_result = result
        shell.showtraceback((KeyboardInterrupt, error, None))
        cell.note_error("KeyboardInterrupt", str(error))
        return self._reply(
            "error",
            ename="KeyboardInterrupt",
            evalue=str(error),
            traceback=shell._last_traceback or [],
            user_expressions={},
        )

    def _reply(self, status: str, **fields: Any) -> dict[str, Any]:
        manager = self.shell.payload_manager
        payload = manager.read_payload()
        manager.clear_payload()
        count = self.shell.execution_count - 1
        return {"status": status, **fields, "execution_count": count, "payload": payload}

    def _swallow(self, interrupted: bool) -> None:
        if interrupted:
            self.log.info("nbrewind: an interrupt came between two cells; nothing to stop")

    # Code outside cells

    def _comm(
        self, kind: str, handler: Callable[..., Any], stream: Any, ident: Any, msg: dict[str, Any]
    ) -> Any:
        token = _cell.set(None)
        try:
            with self.cells.outside() if self._is_handled(kind, msg) else nullcontext():
                return handler(stream, ident, msg)
        finally:
            _cell.reset(token)

    def _is_handled(self, kind: str, msg: Mapping[str, Any]) -> bool:
        """Whether a comm message reaches code of the user."""
        content = msg.get("content") or {}
        if kind == "comm_open":
            return content.get("target_name") in getattr(self.comm_manager, "targets", {})
        return content.get("comm_id") in getattr(self.comm_manager, "comms", {})

    def do_complete(self, code: str, cursor_pos: int | None) -> Any:
        """Complete; what is not loaded is known by name, and loaded where members are asked for."""
        cursor = len(code) if cursor_pos is None else cursor_pos
        self._load(partial(names_at, code, cursor))
        with self._lazy_names_visible():
            return super().do_complete(code, cursor_pos)

    def do_inspect(
        self, code: str, cursor_pos: int, detail_level: int = 0, omit_sections: Any = ()
    ) -> Any:
        """Inspect; the object is loaded first."""
        self._load(lambda: frozenset({head_name(token_at_cursor(code, cursor_pos) or "")}))
        return super().do_inspect(code, cursor_pos, detail_level, omit_sections)

    async def do_debug_request(self, msg: dict[str, Any]) -> Any:
        """Pass a request to the debugger; everything is loaded before variables are shown."""
        if msg.get("command") in _LOOKING:
            self.cells.materialise(None, patience=_DEBUGGER_PATIENCE)
        return await super().do_debug_request(msg)

    def _load(self, names: Callable[[], frozenset[str]]) -> None:
        if not self.cells.lazy_names():
            return
        try:
            wanted = names()
        except Exception as error:
            self.cells.tell("see what a completion needs", error)
            return
        with deferred() as deferral:
            self.cells.materialise(wanted)
        self._swallow(deferral.pending)

    @contextmanager
    def _lazy_names_visible(self) -> Iterator[None]:
        """Let the completer see the names of variables that are not loaded."""
        lazy = self.cells.lazy_names()
        completer = self.shell.Completer
        if not lazy:
            yield
            return
        namespace = completer.namespace
        completer.namespace = {**dict.fromkeys(sorted(lazy), _NotLoaded()), **namespace}
        try:
            yield
        finally:
            completer.namespace = namespace

    # The session

    async def nbrewind_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Answer the headless driver on the control channel; see `nbrewind_kernels.control`."""
        content = await answer(self.cells, parent.get("content") or {})
        self.session.send(stream, "nbrewind_reply", content, parent, ident)

    def do_shutdown(self, restart: bool) -> Any:
        """End the engine's session, then shut down."""
        self.cells.close()
        return super().do_shutdown(restart)


class AuditKernel(RewindKernel):
    """Executes every cell and records it."""

    mode = "audit"


class ReplayKernel(RewindKernel):
    """Executes the cells whose inputs changed and reuses the others."""

    mode = "replay"


def _names_of_hidden(content: Mapping[str, Any]) -> frozenset[str] | None:
    """Names that a hidden request may read; None if that cannot be told."""
    code = str(content.get("code", ""))
    if is_recorded(code):
        return None
    return _names_of((content.get("user_expressions") or {}).values())


def _names_of(expressions: Any) -> frozenset[str] | None:
    names = frozenset(str(expression).strip() for expression in expressions)
    return names if all(name.isidentifier() for name in names) else None
