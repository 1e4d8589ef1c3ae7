"""Recording what a cell publishes on IOPub, and publishing it again.

Everything a kernel publishes passes through `Session.send`: display messages
from the thread that runs the cell, streams from the IO thread, anything from
threads the user starts. A message belongs to the cell whose request is its
parent, not to the cell that happens to run. What is recorded is the content,
as MessagePack, at the moment of sending; execution counts are put in anew when
it is shown again.
"""

from __future__ import annotations

import logging
import select
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import msgspec
from jupyter_client.session import DELIM, Session

from nbrewind.model.records import OutputMessage
from nbrewind_kernels.origins import MARK, POOL, ThreadOrigins, mark_origins
from nbrewind_kernels.widgets import ShownWidgets

RECORDED = frozenset(
    {
        "stream",
        "display_data",
        "update_display_data",
        "execute_result",
        "clear_output",
        # A cell can show a traceback and still succeed (`%run` of a script that raises).
        "error",
    }
)
COMMS = frozenset({"comm_open", "comm_msg", "comm_close"})
_UNANSWERED = frozenset({"status", "execute_input"})
"""Messages about the request itself; shown anew for every request."""

_muted: ContextVar[bool] = ContextVar("nbrewind_muted", default=False)


@contextmanager
def muted() -> Iterator[None]:
    """Publish nothing from this context: a cell runs again only to get a value back."""
    token = _muted.set(True)
    try:
        yield
    finally:
        _muted.reset(token)


class Recording:
    """The outputs of one running cell, in order."""

    def __init__(self) -> None:
        self.flags: set[str] = set()
        """Flags for the execution record (see `nbrewind.model.records.FLAGS`)."""
        self._messages: list[OutputMessage] = []
        self._widgets = ShownWidgets()
        self._opened: dict[str, int] = {}
        """Where among the messages widgets were opened."""
        self._stream = ""
        self._texts: list[str] = []
        self._lock = threading.Lock()

    def add(
        self,
        kind: str,
        content: dict[str, Any],
        metadata: dict[str, Any],
        buffers: Sequence[bytes | memoryview[bytes]],
    ) -> None:
        """Add one message; neighbouring texts of one stream become one message."""
        with self._lock:
            if kind == "stream" and not buffers and not metadata:
                if content["name"] != self._stream:
                    self._end_stream()
                    self._stream = content["name"]
                self._texts.append(content["text"])
                return
            self._end_stream()
            self._messages.append(
                OutputMessage(
                    type=kind,
                    content=_raw(content),
                    metadata=_raw(metadata),
                    buffers=tuple(bytes(b) for b in buffers),
                )
            )

    def add_comm(
        self,
        kind: str,
        content: dict[str, Any],
        metadata: dict[str, Any],
        buffers: Sequence[bytes | memoryview[bytes]],
    ) -> None:
        """Add a message of a widget, or flag what cannot be shown again without a run."""
        with self._lock:
            opened = self._widgets.note(kind, content, buffers)
        if opened is None:
            self.flags.add("widgets")
        elif opened:
            self.add(kind, content, metadata, buffers)
            self._opened[opened] = len(self._messages) - 1

    def outputs(self) -> tuple[OutputMessage, ...]:
        """What was recorded so far; widgets are opened with the state they have by now."""
        with self._lock:
            self._end_stream()
            messages = list(self._messages)
            for comm, place in self._opened.items():
                content = _raw(self._widgets.content(comm))
                messages[place] = msgspec.structs.replace(messages[place], content=content)
            return tuple(messages)

    def _end_stream(self) -> None:
        if self._texts:
            content = {"name": self._stream, "text": "".join(self._texts)}
            self._messages.append(OutputMessage(type="stream", content=_raw(content)))
        self._stream, self._texts = "", []


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.msgpack.encode(value))


class OutputRecorder:
    """Watches a session and sorts what it publishes by cell.

    Args:
        session: the kernel's session; its `send` is wrapped until `uninstall`.
        iopub_thread: the kernel's IOPub thread; forked children publish through it.
        iopub_socket: what the kernel publishes to.
        holders: streams, publishers and hooks that choose parent headers.
        log: where problems are told, each once.
        stdin_socket: where a cell asks the front end for input; it is flagged then.
    """

    def __init__(
        self,
        session: Session,
        iopub_thread: Any,
        iopub_socket: Any,
        holders: Sequence[Any],
        log: logging.Logger,
        stdin_socket: Any = None,
    ) -> None:
        self.origins = ThreadOrigins()
        self._session = session
        self._sockets = (iopub_socket, iopub_thread)
        self._stdin_socket = stdin_socket
        self._log = log
        self._open: dict[str, Recording] = {}
        self._sending = threading.local()
        self._undo: list[Callable[[], None]] = [mark_origins(h, self.origins) for h in holders]
        self._complained = False
        self._wrap_send(session)
        if hasattr(iopub_thread, "send_multipart"):
            self._wrap_forwarding(iopub_thread)

    def uninstall(self) -> None:
        """Leave the session as it was found."""
        while self._undo:
            self._undo.pop()()

    def open(self, msg_id: str) -> Recording:
        """Record what the request `msg_id` publishes from now on."""
        self.origins.begin(msg_id)
        recording = self._open[msg_id] = Recording()
        return recording

    def close(self, msg_id: str) -> None:
        """Stop recording; what arrives later (a thread that outlives its cell) is not kept."""
        self._open.pop(msg_id, None)

    def drain(self) -> None:
        """Wait until what was written to file descriptors 1 and 2 so far is published.

        `os.system("echo a")` writes to a pipe that a thread of ipykernel reads.
        """
        for stream in (sys.stdout, sys.stderr):
            descriptor = getattr(stream, "_fid", None)
            if descriptor is not None and _wait_until_read(descriptor):
                stream.flush()

    def _wrap_send(self, session: Session) -> None:
        original = session.send
        attributes = vars(session)
        had_own = "send" in attributes

        def send(
            stream: Any, msg_or_type: Any, content: Any = None, *args: Any, **kwargs: Any
        ) -> dict[str, Any] | None:
            if not any(stream is socket for socket in self._sockets):
                if stream is self._stdin_socket and stream is not None:
                    self._note_input(kwargs.get("parent", args[0] if args else None))
                return original(stream, msg_or_type, content, *args, **kwargs)
            origin = _take_mark(msg_or_type, args, kwargs)
            if _muted.get() and _kind(msg_or_type) not in _UNANSWERED:
                return None
            self._sending.depth = getattr(self._sending, "depth", 0) + 1
            try:
                sent = original(stream, msg_or_type, content, *args, **kwargs)
            finally:
                self._sending.depth -= 1
            if sent is not None:
                buffers = kwargs.get("buffers") or (args[2] if len(args) > 2 else None)
                self._note(sent, buffers or sent.get("buffers") or (), origin)
            return sent

        def undo() -> None:
            if had_own:
                session.send = original  # type: ignore[method-assign]
            elif vars(session).get("send") is send:
                del session.send

        session.send = send  # type: ignore[method-assign]
        self._undo.append(undo)

    def _wrap_forwarding(self, iopub_thread: Any) -> None:
        """Forked children publish through a pipe; their frames are forwarded as they are."""
        original = iopub_thread.send_multipart

        def send_multipart(frames: Any, *args: Any, **kwargs: Any) -> None:
            original(frames, *args, **kwargs)
            if not getattr(self._sending, "depth", 0):
                self._note_frames(frames)

        def undo() -> None:
            if vars(iopub_thread).get("send_multipart") is send_multipart:
                del iopub_thread.send_multipart

        iopub_thread.send_multipart = send_multipart
        self._undo.append(undo)

    def _note_input(self, parent: Any) -> None:
        header = parent.get("header", parent) if isinstance(parent, dict) else {}
        recording = self._open.get(header.get("msg_id", ""))
        if recording is not None:
            recording.flags.add("stdin")

    def _note_frames(self, frames: Sequence[Any]) -> None:
        try:
            parts = [bytes(f) for f in frames]
            if DELIM not in parts:
                return
            at = parts.index(DELIM) + 2
            header, parent, metadata, content = map(self._session.unpack, parts[at : at + 4])
        except Exception as error:
            self._complain(error)
            return
        message = {
            "header": header,
            "msg_type": header["msg_type"],
            "parent_header": parent,
            "metadata": metadata,
            "content": content,
        }
        self._note(message, parts[at + 4 :], None)

    def _note(self, message: dict[str, Any], buffers: Sequence[Any], origin: str | None) -> None:
        """Never raises: the message is out already, and the cell must go on."""
        recording = None
        try:
            kind = message["header"]["msg_type"]
            if kind not in RECORDED and kind not in COMMS:
                return
            parent_id = message["parent_header"].get("msg_id", "")
            recording = self._open.get(parent_id if origin is None or origin == POOL else origin)
            if recording is None:
                return
            if origin == POOL:
                recording.flags.add("untracked")
            add = recording.add_comm if kind in COMMS else recording.add
            add(kind, message["content"], message.get("metadata") or {}, buffers)
        except Exception as error:
            if recording is not None:  # incomplete outputs must never be shown as complete
                recording.flags.add("untracked")
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        if not self._complained:
            self._complained = True
            self._log.warning("An output could not be recorded: %s", error, exc_info=True)


def _kind(msg_or_type: Any) -> str:
    if isinstance(msg_or_type, dict):
        return str(msg_or_type["header"]["msg_type"])
    return str(msg_or_type)


def _take_mark(msg_or_type: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Remove the mark of `nbrewind_kernels.origins` from a message about to be sent."""
    if isinstance(msg_or_type, dict):
        parent = msg_or_type.get("parent_header")
    else:
        parent = kwargs.get("parent", args[0] if args else None)
    if isinstance(parent, dict) and MARK in parent:
        return cast(str, parent.pop(MARK))  # marked headers are copies made for this message
    return None


def _wait_until_read(descriptor: int, tries: int = 20) -> bool:
    """Wait until the reader thread has emptied a pipe; True if there was something in it."""
    for tried in range(tries):
        readable, _, _ = select.select([descriptor], [], [], 0)
        if not readable:
            return tried > 0
        threading.Event().wait(0.002)  # the reader needs the interpreter lock
    return True


def publish_again(
    outputs: Sequence[OutputMessage],
    session: Session,
    iopub_socket: Any,
    parent: dict[str, Any],
    execution_count: int,
    result_topic: bytes | None,
) -> None:
    """Publish recorded messages for the request `parent`.

    Display ids stay as recorded, so that an update in one cell finds the display
    of another whether either was reused or executed.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    for output in outputs:
        content = msgspec.msgpack.decode(output.content)
        if output.type == "execute_result":
            content["execution_count"] = execution_count
        session.send(
            iopub_socket,
            output.type,
            content,
            parent=parent,
            ident=_topic(output.type, content, result_topic),
            buffers=[*output.buffers] or None,
            metadata=msgspec.msgpack.decode(output.metadata),
        )


def _topic(kind: str, content: dict[str, Any], result_topic: bytes | None) -> bytes | None:
    """The topic ipykernel gives a message of this kind."""
    if kind == "stream":
        return b"stream." + str(content.get("name")).encode()
    if kind == "comm_open":
        return f"comm-{content.get('comm_id')}".encode()
    if kind in ("display_data", "update_display_data", "clear_output"):
        return b"display_data"
    if result_topic is not None and kind == "error":
        return result_topic.replace(b"execute_result", b"error")
    return result_topic
