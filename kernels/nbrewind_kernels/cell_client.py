"""Talking to a kernel cell by cell: nbclient plus what NBRewind's kernels add.

Two things are added to the Jupyter protocol. An `execute_request` carries the
cell's id and its `nbrewind` metadata, which nbclient does not send. And on the
control channel a message `nbrewind_request` with an `op` (`plan`, `report`,
`close`) is answered by `nbrewind_reply`; a kernel that does not know it stays
silent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient
from nbclient.client import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode
from traitlets import Dict

REQUEST = "nbrewind_request"
REPLY = "nbrewind_reply"


class NoReply(Exception):
    """The kernel is alive but did not answer in time."""


class CellClient(AsyncKernelClient):
    """A kernel client that says which cell it runs."""

    cell_metadata = Dict()
    """Metadata of the next `execute_request`."""

    def execute(
        self,
        code: str,
        silent: bool = False,
        store_history: bool = True,
        user_expressions: dict[str, Any] | None = None,
        allow_stdin: bool | None = None,
        stop_on_error: bool = True,
    ) -> str:
        """Send one cell, arguments as in the Jupyter protocol; returns the message's id."""
        content = {
            "code": code,
            "silent": silent,
            "store_history": store_history,
            "user_expressions": user_expressions or {},
            "allow_stdin": self.allow_stdin if allow_stdin is None else allow_stdin,
            "stop_on_error": stop_on_error,
        }
        message = self.session.msg("execute_request", content, metadata=dict(self.cell_metadata))
        self.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    async def request(self, op: str, patience: float | None = None, **more: Any) -> dict[str, Any]:
        """Ask the kernel's engine something.

        Args:
            op: `plan`, `report` or `close`.
            patience: seconds to wait while the kernel is alive; None is for ever.
            more: the rest of the request.

        Raises:
            DeadKernelError: the kernel died.
            NoReply: it lives but does not answer.
        """
        message = self.session.msg(REQUEST, {"op": op, **more})
        self.control_channel.send(message)
        asked = message["header"]["msg_id"]
        deadline = None if patience is None else time.monotonic() + patience
        while True:
            try:
                reply = await self.get_control_msg(timeout=0.5)
            except Empty:
                if not await self.is_alive():
                    raise DeadKernelError("Kernel died") from None
                if deadline is not None and time.monotonic() > deadline:
                    raise NoReply(op) from None
                continue
            if reply["parent_header"].get("msg_id") == asked:
                return dict(reply["content"])


class CellRunner(NotebookClient):
    """nbclient with streams joined as Jupyter's front ends do, and a hook when a cell begins."""

    on_begin: Callable[[], None] | None = None
    """Called when the kernel has taken up a cell: only from then on can it be interrupted."""

    def process_message(
        self, msg: dict[str, Any], cell: NotebookNode, cell_index: int
    ) -> NotebookNode | None:
        """Process one message of a running cell."""
        if msg["msg_type"] == "execute_input" and self.on_begin is not None:
            self.on_begin()
        return super().process_message(msg, cell, cell_index)

    def output(
        self,
        outs: list[NotebookNode],
        msg: dict[str, Any],
        display_id: str | None,
        cell_index: int,
    ) -> NotebookNode | None:
        """Add an output; text of the same stream goes on where the last one stopped."""
        if (
            msg["msg_type"] == "stream"
            and outs
            and outs[-1].get("output_type") == "stream"
            and outs[-1].get("name") == msg["content"].get("name")
            and not self.clear_before_next_output
            and not self.output_hook_stack[msg["parent_header"].get("msg_id")]
        ):
            outs[-1]["text"] += msg["content"]["text"]
            return outs[-1]
        return super().output(outs, msg, display_id, cell_index)
