"""The outputs of the running cell, for a training session to save and to show again."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
from jupyter_client.session import Session

from nbrewind.model.records import OutputMessage
from nbrewind_kernels.outputs import OutputRecorder, Recording, publish_again


class OutputsSoFar:
    """See `nbrewind.training.context.Outputs`.

    Args:
        recorder: what records the kernel's outputs.
        recording: that of the cell.
        session: the kernel's session.
        iopub_socket: what the kernel publishes to.
        parent: the request of the cell.
        result_topic: topic of the kernel's results.
    """

    def __init__(
        self,
        recorder: OutputRecorder,
        recording: Recording,
        session: Session,
        iopub_socket: Any,
        parent: dict[str, Any],
        result_topic: bytes | None,
    ) -> None:
        self._recorder = recorder
        self._recording = recording
        self._session = session
        self._socket = iopub_socket
        self._parent = parent
        self._topic = result_topic

    def so_far(self) -> bytes:
        """What the cell has published."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self._recorder.drain()
        return msgspec.msgpack.encode(self._recording.outputs())

    def show_again(self, outputs: bytes) -> None:
        """Show outputs that `so_far` returned in place of what the cell has published."""
        messages = msgspec.msgpack.decode(outputs, type=tuple[OutputMessage, ...])
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        if self._recording.outputs():
            content = msgspec.Raw(msgspec.msgpack.encode({"wait": False}))
            messages = (OutputMessage("clear_output", content), *messages)
        publish_again(messages, self._session, self._socket, self._parent, 0, self._topic)
