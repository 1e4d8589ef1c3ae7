"""A notebook as a front end shows it: outputs by cell, with updates and clearing applied."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from queue import Empty
from typing import Any

from .conftest import ARGV, TIMEOUT, _scrub, launch

Cell = str | tuple[str, str]
"""Source, and what to answer if the cell asks for input."""


class Page:
    """The cells sent to one kernel and what is shown below them, late messages included."""

    def __init__(self, front: Any) -> None:
        self.front = front
        self.outputs: list[list[Any]] = []
        self.replies: list[dict[str, Any]] = []
        self.actions: list[str] = []
        self.reports: list[dict[str, Any]] = []
        self._by_request: dict[str, list[Any]] = {}
        self._clear: set[str] = set()

    def run(self, cell: Cell, cell_id: str = "") -> list[Any]:
        """Run a cell, wait until the kernel is idle, and give its outputs."""
        code, answer = (cell, None) if isinstance(cell, str) else cell
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": answer is not None,
            "stop_on_error": False,
        }
        msg_id = self.front.send("execute_request", content, metadata={"cellId": cell_id})
        outputs: list[Any] = []
        self.outputs.append(outputs)
        self._by_request[msg_id] = outputs
        deadline = time.monotonic() + TIMEOUT
        while not self._take(msg_id) and time.monotonic() < deadline:
            if answer is not None and self.front.client.stdin_channel.msg_ready():
                self.front.client.stdin_channel.get_msg()
                self.front.client.input(answer)
        self.replies.append(self.front.reply(msg_id))
        return outputs

    def ask(self, **content: Any) -> dict[str, Any]:
        """A request of the command line; cells' messages that come meanwhile are not lost."""
        msg_id = self.front.send("nbrewind_request", content, channel="control")
        return dict(self.front.reply(msg_id, "control"))

    def note_report(self) -> None:
        """Note what became of the last cell."""
        report = self.ask(op="report")["report"] or {}
        self.reports.append(report)
        self.actions.append(report.get("action", ""))

    def drain(self) -> None:
        """Take what has arrived by now."""
        while self._take("") is not None:
            pass

    def _take(self, awaited: str) -> bool | None:
        """Apply one message: whether it ends a request, None if there is none."""
        try:
            message = self.front.client.get_iopub_msg(timeout=0.2)
        except Empty:
            return None
        kind, content = message["msg_type"], message["content"]
        parent = message["parent_header"].get("msg_id", "")
        if kind == "status":
            return parent == awaited and content["execution_state"] == "idle"
        if kind == "update_display_data":
            self._update(content)
        elif parent in self._by_request and kind != "execute_input":
            self._show(parent, kind, content)
        return False

    def _update(self, content: dict[str, Any]) -> None:
        wanted = content["transient"]["display_id"]
        for kind, shown in (output for outputs in self.outputs for output in outputs):
            if kind == "display_data" and shown.get("transient", {}).get("display_id") == wanted:
                shown.update(data=content["data"], metadata=content["metadata"])

    def _show(self, parent: str, kind: str, content: dict[str, Any]) -> None:
        outputs = self._by_request[parent]
        if kind == "clear_output":
            self._clear.add(parent)
            if content["wait"]:
                return
        if parent in self._clear:
            self._clear.discard(parent)
            outputs.clear()
        if kind == "clear_output":
            return
        if kind == "stream" and outputs and outputs[-1][0] == kind:
            last = outputs[-1][1]
            if last["name"] == content["name"]:
                last["text"] += content["text"]
                return
        if kind == "error":
            text = "\n".join(content["traceback"])
            content = {**content, "traceback": re.sub(r"\x1b\[[\d;]*m", "", text)}
        outputs.append([kind, dict(content)])

    def comparable(self) -> list[Any]:
        """Replies and outputs without what differs between any two runs."""
        replies = [
            {k: v for k, v in reply.items() if k in ("status", "ename", "execution_count")}
            for reply in self.replies
        ]
        shown = json.dumps([list(pair) for pair in zip(replies, self.outputs, strict=True)])
        return list(_scrub(json.loads(re.sub(r"[0-9a-f-]{32,}(_\d+)*", "ID", shown))))


def run_page(
    kind: str,
    cells: Sequence[Cell],
    folder: Path,
    *,
    store: Path | None = None,
    plan: bool = False,
    ids: Sequence[str] | None = None,
    **environ: str,
) -> Page:
    """Run a notebook in a kernel of its own.

    Args:
        kind: `plain`, `audit` or `replay`.
        cells: the cells.
        folder: where the kernel's files go; it works in `work` below.
        store: the store of records.
        plan: whether the kernel is told all cells first.
        ids: the cells' ids.
        environ: further variables of the kernel's environment.
    """
    folder.mkdir(exist_ok=True)
    if store is not None:
        environ["NBREWIND_STORE"] = str(store)
        environ["NBREWIND_NOTEBOOK"] = str(folder / "work" / "notebook.ipynb")
    names = list(ids or (f"c{index}" for index in range(len(cells))))
    front = launch(ARGV[kind], folder, **environ)
    try:
        page = Page(front)
        if plan:
            planned = [
                {"source": cell if isinstance(cell, str) else cell[0], "cell_id": name}
                for cell, name in zip(cells, names, strict=True)
            ]
            page.ask(op="plan", cells=planned)
        for cell, name in zip(cells, names, strict=True):
            page.run(cell, name)
            if kind != "plain":
                page.note_report()
        page.drain()
        return page
    finally:
        front.stop()
