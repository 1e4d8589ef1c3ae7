"""A rank: a process that runs code of the notebook, `python -m nbrewind.training.launching.rank`.

It connects to the notebook's process three times: for messages, and for what is written to its
standard output and error, by Python or by code in C. It gets its work, runs it in a fresh
`__main__`, and sends back what it returned or how it failed.
"""

from __future__ import annotations

import atexit
import io
import linecache
import os
import signal
import socket
import sys
import threading
import traceback
import types
from queue import SimpleQueue
from types import FrameType, TracebackType
from typing import Any

import msgspec

from nbrewind.training.context import provide, provide_outputs
from nbrewind.training.launching import frames
from nbrewind.training.launching.agent import AGENT
from nbrewind.training.launching.frames import Failure, Hello, Kind, Position
from nbrewind.training.launching.lifetime import die_with
from nbrewind.training.launching.shipping import classes_known, unpack
from nbrewind.training.launching.work import Work, run_work

ADDRESS = "NBREWIND_NOTEBOOK"
TOKEN = "NBREWIND_TOKEN"

_WAITING = ("torch/distributed/", "torch/_C/_distributed")
_marks = [0]
_sending = threading.Lock()


def note_progress() -> None:
    """Tell that this process got on; a launch that waits for its ranks asks for it."""
    _marks[0] += 1


def run() -> None:
    """Be a rank until the work is done."""
    die_with(int(os.environ[AGENT]))
    control = _connect("control")
    for number, channel in ((1, "out"), (2, "err")):
        connection = _connect(channel)
        os.dup2(connection.fileno(), number)
        connection.close()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
    message = frames.receive(control)
    if message is None:
        os._exit(1)
    # From here on the notebook may go away, or ask for something.
    _outputs.control = control
    listener = threading.Thread(
        target=_listen, args=(control,), name="nbrewind-control", daemon=True
    )
    listener.start()
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    code = 1
    try:
        work = msgspec.msgpack.decode(message[1], type=Work)
        linecache.cache.update({name: _lines(name, text) for name, text in work.sources.items()})
        _as_in_notebook(work)
        provide(lambda: work.context)
        provide_outputs(_outputs)
        job = unpack(work.job, main.__dict__)
        known = classes_known()
        result = run_work(job, main.__dict__, known)
        _flush()
        _send(control, Kind.RESULT, result)
        code = 0
    except BaseException as problem:
        _flush()
        _send(control, Kind.ERROR, msgspec.msgpack.encode(_failure(problem)))
        if isinstance(problem, SystemExit) and isinstance(problem.code, int):
            code = problem.code
    _leave_group()
    _end(code)


def _send(control: socket.socket, kind: Kind, body: bytes | memoryview) -> None:
    with _sending:
        frames.send(control, kind, body)


def _connect(channel: str) -> socket.socket:
    address = os.environ[ADDRESS]
    if address.startswith("tcp:"):
        host, _, port = address[4:].rpartition(":")
        connection = socket.create_connection((host, int(port)))
    else:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(address.replace("@", "\0", 1) if address[0] == "@" else address)
    hello = Hello(
        os.environ[TOKEN],
        int(os.environ["RANK"]),
        channel,
        os.getpid(),
        socket.gethostname(),
    )
    frames.send(connection, Kind.HELLO, msgspec.msgpack.encode(hello))
    return connection


def _as_in_notebook(work: Work) -> None:
    sys.path[:] = work.path
    for name, value in work.environ.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _lines(name: str, text: str) -> tuple[int, None, list[str], str]:
    return len(text), None, text.splitlines(keepends=True), name


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue  # closed by the code that ran, or the notebook is gone


def _leave_group() -> None:
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_initialized():
            distributed.destroy_process_group()
    except Exception as problem:  # the work is done, or failed for another reason
        print(f"while leaving the process group: {problem}", file=sys.stderr)  # noqa: T201


def _end(code: int) -> None:
    """End this process as Python does, but for taking the interpreter down.

    What is left of process groups and of threads now and then aborts there, long after the
    result was sent, and a thread that nobody ends would keep the rank for ever.
    """
    atexit._run_exitfuncs()
    _flush()
    os._exit(code)


def _failure(problem: BaseException) -> Failure:
    trace = problem.__traceback__
    while trace is not None and _is_ours(trace):
        trace = trace.tb_next
    lines = traceback.format_exception(type(problem), problem, trace)
    return Failure(type(problem).__name__, str(problem), "".join(lines))


def _is_ours(trace: TracebackType) -> bool:
    return os.path.dirname(trace.tb_frame.f_code.co_filename) == os.path.dirname(__file__)


class _NotebookOutputs:
    """The outputs of the cell, which the notebook's process keeps; for the first rank."""

    control: socket.socket
    answers: SimpleQueue[bytes] = SimpleQueue()

    def so_far(self) -> bytes:
        """See `context.Outputs`."""
        if os.environ.get("RANK") != "0":
            return b""
        _flush()
        _send(self.control, Kind.OUTPUTS, b"")
        return self.answers.get()

    def show_again(self, outputs: bytes) -> None:
        """See `context.Outputs`."""
        if os.environ.get("RANK") == "0":
            _flush()
            _send(self.control, Kind.SHOW, outputs)


_outputs = _NotebookOutputs()


# -- what the notebook asks meanwhile ------------------------------------------------------


def _listen(control: socket.socket) -> None:
    """Answer the notebook; end this process when it is gone."""
    while (message := frames.receive(control)) is not None:
        kind, body = message
        if kind is Kind.SIGNAL:
            os.kill(os.getpid(), msgspec.msgpack.decode(body, type=int))
        elif kind is Kind.OUTPUTS:
            _outputs.answers.put(bytes(body))
        elif kind is Kind.LOOK:
            _send(control, Kind.SEEN, msgspec.msgpack.encode(_position()))
    os.kill(os.getpid(), signal.SIGKILL)


def _position() -> Position:
    main = threading.main_thread().ident
    frame = sys._current_frames().get(main) if main is not None else None
    stack, marks = [], [str(_marks[0]), _collectives()]
    here: FrameType | None = frame
    while here is not None:
        stack.append(here)
        marks.append(f"{id(here):x}:{here.f_lasti}")
        here = here.f_back
    waiting = any(part in one.f_code.co_filename for one in stack[:12] for part in _WAITING)
    shown = traceback.format_list(
        [
            entry
            for entry in traceback.extract_stack(frame)
            if os.path.dirname(entry.filename) != os.path.dirname(__file__)
            and not entry.filename.startswith("<frozen")
        ]
    )
    return Position(" ".join(marks), waiting, "".join(shown))


def _collectives() -> str:
    """The number of the last collective of the default group, if it tells."""
    distributed: Any = sys.modules.get("torch.distributed.distributed_c10d")
    try:
        group = distributed._get_default_group()
        return str(group._get_sequence_number_for_group())
    except Exception:  # no group, or one that does not count
        return ""


if __name__ == "__main__":
    from nbrewind.training.launching.rank import run as run_imported

    run_imported()
