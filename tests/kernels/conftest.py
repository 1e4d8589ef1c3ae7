"""Real kernel processes over ZMQ, and a client that says what a front end would see."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

TIMEOUT = 60
ROOTS = [Path(__file__).parents[2] / part for part in ("", "kernels", "analysis", "packaging")]
FAKE = Path(__file__).with_name("fake_kernel.py")
ARGV = {
    "plain": ["-m", "ipykernel_launcher"],
    "audit": ["-m", "nbrewind_launcher", "--mode", "audit"],
    "replay": ["-m", "nbrewind_launcher", "--mode", "replay"],
    "fake-audit": [str(FAKE), "audit"],
    "fake-replay": [str(FAKE), "replay"],
}
"""Kernels: ipykernel, ours, and ours with the small engine of `fake_kernel`."""


@dataclass
class Answer:
    """What came back for one request."""

    reply: dict[str, Any]
    outputs: list[tuple[str, dict[str, Any]]]

    def text(self, name: str = "stdout") -> str:
        return "".join(
            c["text"] for kind, c in self.outputs if kind == "stream" and c["name"] == name
        )

    def comparable(self) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
        """Without what differs between any two runs: process ids, comm and display ids."""
        reply = {k: v for k, v in self.reply.items() if k not in ("engine_info", "banner")}
        return _scrub(reply), _scrub(self.outputs)


def _scrub(value: Any) -> Any:
    if isinstance(value, str):
        value = re.sub(r"ipykernel_\d+", "ipykernel_PID", value)
        value = re.sub(r"0x[0-9a-f]+", "0xADDR", value)
        value = re.sub(r"[\d.e+-]+ (ns|[µμu]s|ms|s)\b", "TIME", value)
        return re.sub(r"\b[0-9a-f]{32}\b", "ID", value)
    if isinstance(value, dict):
        return {k: _scrub(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_scrub(v) for v in value]
    return value


def merged(outputs: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    """Neighbouring texts of one stream as one, as every front end shows them."""
    result: list[tuple[str, dict[str, Any]]] = []
    for kind, content in outputs:
        if kind == "stream" and result and result[-1][0] == "stream":
            last = result[-1][1]
            if last["name"] == content["name"]:
                result[-1] = (kind, {**last, "text": last["text"] + content["text"]})
                continue
        result.append((kind, content))
    return result


class Front:
    """A front end with one kernel."""

    def __init__(self, manager: KernelManager, journal: Path) -> None:
        self.manager = manager
        self.client: BlockingKernelClient = manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIMEOUT)
        self._journal = journal
        self._stopped = False

    def send(
        self,
        kind: str,
        content: dict[str, Any],
        *,
        metadata: dict[str, Any] | None = None,
        channel: str = "shell",
        subshell: str | None = None,
    ) -> str:
        message = self.client.session.msg(kind, content, metadata=metadata)
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        getattr(self.client, f"{channel}_channel").send(message)
        return str(message["header"]["msg_id"])

    def start(self, code: str, **options: Any) -> str:
        """Request the execution of a cell without waiting."""
        silent = options.get("silent", False)
        content = {
            "code": code,
            "silent": silent,
            "store_history": options.get("store_history", not silent),
            "user_expressions": options.get("user_expressions", {}),
            "allow_stdin": "stdin" in options,
            "stop_on_error": options.get("stop_on_error", True),
        }
        metadata = options.get("metadata")
        return self.send(
            "execute_request", content, metadata=metadata, subshell=options.get("subshell")
        )

    def run(self, code: str, **options: Any) -> Answer:
        """Execute a cell and wait until the kernel is idle again."""
        return self.wait(self.start(code, **options), stdin=options.get("stdin"))

    def ask(self, kind: str, content: dict[str, Any], channel: str = "shell") -> dict[str, Any]:
        """Any other request; the content of its reply."""
        return self.wait(self.send(kind, content, channel=channel), channel).reply

    def wait(self, msg_id: str, channel: str = "shell", stdin: str | None = None) -> Answer:
        outputs: list[tuple[str, dict[str, Any]]] = []
        for message in self.published(msg_id, stdin):
            outputs.append((message["msg_type"], message["content"]))
        return Answer(self.reply(msg_id, channel), merged(outputs))

    def published(self, msg_id: str, stdin: str | None = None) -> Iterator[dict[str, Any]]:
        """IOPub messages of a request until it is idle, without the kernel's own."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            if stdin is not None and self.client.stdin_channel.msg_ready():
                self.client.stdin_channel.get_msg()
                self.client.input(stdin)
            try:
                message = self.client.get_iopub_msg(timeout=0.2)
            except Empty:
                continue
            if message["parent_header"].get("msg_id") != msg_id:
                continue
            if message["msg_type"] == "status":
                if message["content"]["execution_state"] == "idle":
                    return
            elif message["msg_type"] != "execute_input":
                yield message
        raise TimeoutError(msg_id)

    def reply(self, msg_id: str, channel: str = "shell") -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            message = getattr(self.client, f"get_{channel}_msg")(timeout=TIMEOUT)
            if message["parent_header"].get("msg_id") == msg_id:
                content: dict[str, Any] = message["content"]
                return content
        raise TimeoutError(msg_id)

    def control(self, **content: Any) -> dict[str, Any]:
        return self.ask("nbrewind_request", content, channel="control")

    def debug(self, command: str, seq: int, **arguments: Any) -> dict[str, Any]:
        content = {"type": "request", "seq": seq, "command": command, "arguments": arguments}
        return self.ask("debug_request", content, channel="control")

    def journal(self, what: str = "") -> list[dict[str, Any]]:
        """What the fake engine was asked so far."""
        if not self._journal.exists():
            return []
        calls = [json.loads(line) for line in self._journal.read_text().splitlines()]
        return [call for call in calls if not what or call["what"] == what]

    def wait_for(self, what: str) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not self.journal(what):
            assert time.monotonic() < deadline, f"the engine was never asked to {what}"
            time.sleep(0.01)

    def stop(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        self.client.stop_channels()
        self.manager.shutdown_kernel()
        self.manager.cleanup_resources()


def launch(argv: list[str], folder: Path, **environ: str) -> Front:
    manager = KernelManager(transport="ipc")
    manager.ip = str(folder / "k")
    spec = KernelSpec(
        argv=[sys.executable, *argv, "-f", "{connection_file}"],
        display_name="test",
        language="python",
    )
    manager._kernel_spec = spec
    journal = folder / "journal.jsonl"
    path = os.pathsep.join(map(str, ROOTS))
    settings = {
        **os.environ,
        "PYTHONPATH": path,
        "FAKE_JOURNAL": str(journal),
        "IPYTHONDIR": str(folder / "ipython"),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        **environ,
    }
    settings.pop("PYTEST_CURRENT_TEST", None)  # ipykernel leaves descriptors alone under pytest
    work = folder / "work"
    work.mkdir(exist_ok=True)
    manager.start_kernel(env=settings, cwd=str(work))
    return Front(manager, journal)


@pytest.fixture(scope="session")
def launch_fake() -> Callable[[str, Path], Front]:
    """Start one kernel with the fake engine; whoever asks stops it."""
    return lambda mode, folder: launch(ARGV[f"fake-{mode}"], folder)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Front]]:
    """Start kernels of this test; they are stopped after it."""
    fronts: list[Front] = []

    def starter(kind: str, **environ: str) -> Front:
        folder = tmp_path / f"{kind}{len(fronts)}"
        folder.mkdir()
        fronts.append(launch(ARGV[kind], folder, **environ))
        return fronts[-1]

    yield starter
    for front in fronts:
        front.stop()


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Front]]:
    """A plain, an audit and a replay kernel that are asked the same things."""
    fronts: dict[str, Front] = {}
    try:
        for kind in ("plain", "audit", "replay"):
            fronts[kind] = launch(ARGV[kind], tmp_path_factory.mktemp(kind))
        yield fronts
    finally:
        for front in fronts.values():
            front.stop()


@pytest.fixture
def same(trio: dict[str, Front]) -> Callable[[Callable[[Front], Any]], Any]:
    """Ask all three kernels the same; the answer of plain ipykernel, which all must give."""

    def ask(question: Callable[[Front], Any]) -> Any:
        answers = {kind: question(front) for kind, front in trio.items()}
        shown = {
            k: a.comparable() if isinstance(a, Answer) else _scrub(a) for k, a in answers.items()
        }
        assert shown["audit"] == shown["plain"]
        assert shown["replay"] == shown["plain"]
        return answers["plain"]

    return ask
