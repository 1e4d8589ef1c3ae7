"""The headless driver: runs a notebook file against a kernel, cell by cell.

Responsibilities, in the order of a run: read the file and put parameters in;
start a kernel in the notebook's folder; send the plan; run each cell and fetch
its report; on an error, a dead kernel or an interruption keep what is complete;
bring files up to date and stop the kernel; write the notebook.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_output

from nbrewind.errors import KernelError, NotebookError
from nbrewind.model.reports import CellReport, NotebookReport
from nbrewind.model.spans import TRACE_VARIABLE
from nbrewind_kernels.cell_client import CellRunner, NoReply
from nbrewind_kernels.kernel_process import KernelProcess
from nbrewind_kernels.kernelspecs import RunMode
from nbrewind_kernels.notebooks import (
    NotebookFile,
    cell_policy,
    check_writable,
    first_line,
    read_notebook,
    tags_of,
    write_notebook,
)
from nbrewind_kernels.parameters import inject
from nbrewind_kernels.stopping import Stopping
from nbrewind_kernels.store_place import store_place

_PATIENCE = 600.0
"""Seconds the engine may think about a request before the run goes on without it."""
_SAVE_EVERY = 30.0


@dataclass(frozen=True)
class RunRequest:
    """What to run and how."""

    notebook: Path
    mode: RunMode
    output: Path | None = None
    """Where the result goes; None: in place."""
    store: str | None = None
    """None: `NBREWIND_STORE`, else `.nbrewind` beside the notebook."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    env_policy: Literal["rerun", "accept"] = "rerun"
    cell_timeout: float | None = None
    """Seconds a cell may run before it is interrupted; None: for ever."""
    start_timeout: float = 60.0
    trace: Path | None = None
    """Where a trace of the session goes."""


@dataclass(frozen=True)
class RunResult:
    """How a run ended."""

    report: NotebookReport
    exit_code: int
    """0, 1 (a cell raised, ran out of time, or the kernel died) or 130 (interrupted)."""
    failure: str
    """What went wrong, with the traceback if there is one; empty if nothing did."""
    written: Path | None
    """The notebook written; None if no cell was run."""


class Progress(Protocol):
    """Who watches a run."""

    def started(self, lines: Sequence[str]) -> None:
        """The kernel is about to start; `lines` name the code cells, in order."""

    def cell_started(self, index: int) -> None:
        """A code cell was sent to the kernel."""

    def cell_finished(self, report: CellReport) -> None:
        """A code cell was dealt with, or passed over."""

    def warning(self, text: str) -> None:
        """Something a person should know; each text once."""


class NoProgress:
    """Nobody watches."""

    def started(self, lines: Sequence[str]) -> None:
        """Ignore."""

    def cell_started(self, index: int) -> None:
        """Ignore."""

    def cell_finished(self, report: CellReport) -> None:
        """Ignore."""

    def warning(self, text: str) -> None:
        """Ignore."""


def run_notebook(request: RunRequest, progress: Progress | None = None) -> RunResult:
    """Run a notebook and write the result; must not be called from a running event loop.

    Raises:
        NotebookError: the file cannot be read, run here, or written.
        KernelError: the kernel did not start; the notebook is untouched.
    """
    return asyncio.run(run_notebook_async(request, progress))


async def run_notebook_async(request: RunRequest, progress: Progress | None = None) -> RunResult:
    """As `run_notebook`, inside an event loop."""
    file = read_notebook(request.notebook)
    _check_language(file)
    check_writable(request.output or file.path)
    inject(file.nb, request.parameters)
    run = _Run(request, file, progress or NoProgress())
    with run.stopping.signals():
        return await run.whole()


def _check_language(file: NotebookFile) -> None:
    metadata = file.nb.metadata
    language = (
        metadata.get("kernelspec", {}).get("language")
        or metadata.get("language_info", {}).get("name")
        or "python"
    )
    if str(language).lower() not in ("python", "ipython"):
        raise NotebookError(
            f"{file.path} is a notebook in {language}; NBRewind runs Python notebooks only"
        )


@dataclass(frozen=True)
class _Slot:
    """One code cell of the run."""

    index: int
    position: int
    cell: NotebookNode
    skipped: str
    """Why it is passed over; empty if it is run."""

    @property
    def id(self) -> str:
        return str(self.cell.get("id", ""))

    @property
    def name(self) -> str:
        line = first_line(self.cell.source)
        return f"code cell {self.index}" + (f" ({line[:60]})" if line else "")


class _Run:
    """One run of one notebook."""

    def __init__(self, request: RunRequest, file: NotebookFile, progress: Progress) -> None:
        self.request = request
        self.file = file
        self.progress = progress
        self.slots = [
            _Slot(index, position, cell, _why_skipped(cell))
            for index, (position, cell) in enumerate(file.code_cells())
        ]
        self.reports: list[CellReport] = []
        self.warnings: list[str] = []
        self.failure = ""
        self.stopping = Stopping(self.warn)
        self.saved_at = time.monotonic()
        self.save_every = _SAVE_EVERY

    async def whole(self) -> RunResult:
        """Run everything; the notebook is written whatever happens once the kernel is there."""
        began = time.perf_counter()
        for note in self.file.notes:
            self.warn(note)
        self.progress.started([first_line(slot.cell.source) for slot in self.slots])
        if any(not slot.skipped for slot in self.slots):
            with tempfile.TemporaryDirectory(prefix="nbrewind-", ignore_cleanup_errors=True) as at:
                await self.in_kernel(KernelProcess(self.request.mode, Path(at)))
        stopped = self.stopping.wishes > 0
        written = None
        if self.reports or not stopped:
            for slot in self.slots[len(self.reports) :]:
                self.pass_over(slot)
            try:
                written = self.save()
            except NotebookError as error:
                self.failure = f"{error}\n{self.failure}".rstrip()
        report = self.summary(time.perf_counter() - began)
        return RunResult(report, 130 if stopped else int(bool(self.failure)), self.failure, written)

    async def in_kernel(self, kernel: KernelProcess) -> None:
        """Run the cells in a kernel that lives for this call."""
        self.stopping.kernel = kernel
        started = False
        try:
            started = await self.stopping.unless_stopped(
                kernel.start(self.file.path.parent, self.environment(), self.request.start_timeout)
            )
            if started and kernel.client is not None:
                self.client = kernel.client
                self.runner = CellRunner(
                    self.file.nb,
                    km=kernel.manager,
                    record_timing=False,  # times differ in every run; reports have them
                )
                self.runner.kc = kernel.client
                self.runner.on_begin = self.stopping.cell_begun
                await self.learn_language()
                await self.plan()
                await self.run_cells()
                await self.close()
        except DeadKernelError:
            await self.note_death(kernel)
        finally:
            await self.stopping.settle()
            self.stopping.kernel = None
            await kernel.shut_down(now=not started or self.stopping.wishes > 1)

    def environment(self) -> dict[str, str]:
        """The kernel's environment."""
        file = self.request.trace
        trace = {TRACE_VARIABLE: str(file.absolute())} if file is not None else {}
        return {
            **os.environ,
            "NBREWIND_NOTEBOOK": str(self.file.path),
            "NBREWIND_STORE": store_place(self.file.path, self.request.store),
            "NBREWIND_ENV_POLICY": self.request.env_policy,
            **trace,
        }

    async def learn_language(self) -> None:
        """Note in the notebook which language it is in, as every front end does."""
        if "language_info" not in self.file.nb.metadata:
            reply = await self.runner.async_wait_for_reply(self.client.kernel_info())
            if reply is not None:
                self.file.nb.metadata["language_info"] = reply["content"]["language_info"]

    async def plan(self) -> None:
        """Tell the engine what will come."""
        if self.request.mode == "plain":
            return
        cells = [
            {
                "source": slot.cell.source,
                "cell_id": slot.id,
                "policy": cell_policy(slot.cell.source, slot.cell.metadata),
                "force": False,
            }
            for slot in self.slots
            if not slot.skipped
        ]
        try:
            self.take_warnings(await self.client.request("plan", _PATIENCE, cells=cells))
        except NoReply:
            self.warn("the kernel did not take the plan; cells are judged one by one")

    async def run_cells(self) -> None:
        """Run one cell after the other until one fails or the run is to stop."""
        for slot in self.slots:
            if self.stopping.wishes or self.failure:
                break
            if slot.skipped:
                self.pass_over(slot)
            else:
                await self.run_cell(slot)
            self.save_now_and_then()
        self.runner.set_widgets_metadata()

    async def run_cell(self, slot: _Slot) -> None:
        """Run one cell and note what became of it.

        Raises:
            DeadKernelError: the kernel died; the cell is reported as failed.
        """
        self.progress.cell_started(slot.index)
        own = slot.cell.metadata.get("nbrewind")
        self.client.cell_metadata = {
            "cellId": slot.id,
            "nbrewind": dict(own) if isinstance(own, Mapping) else {},
        }
        began = time.perf_counter()
        report = CellReport(index=slot.index, id=slot.id, action="failed")
        error: CellExecutionError | None = None
        try:
            with self.stopping.cell(self.request.cell_timeout):
                try:
                    await self.runner.async_execute_cell(slot.cell, slot.position)
                except CellExecutionError as raised:
                    error = raised
            report.action = "failed" if error is not None else "executed"
            if error is None and _only_comments(slot.cell.source):
                report.action, report.notes = "not-run", ["only comments"]
            report = await self.fetch_report(slot, report)
        finally:
            if error is not None:
                report.action = "failed"
                self.failure = self.describe(slot, error)
            elif report.action == "failed" and "raises-exception" in tags_of(slot.cell):
                report.action = "executed"
                report.notes = [*report.notes, "raised, as its tag allows"]
            report.index, report.id = slot.index, slot.id
            report.seconds = report.seconds or time.perf_counter() - began
            self.reports.append(report)
            self.progress.cell_finished(report)

    async def fetch_report(self, slot: _Slot, fallback: CellReport) -> CellReport:
        """The engine's report on the cell that has just ended."""
        if self.request.mode == "plain":
            return fallback
        try:
            content = await self.client.request("report", _PATIENCE)
            self.take_warnings(content)
            if content.get("status") == "ok":
                report = content.get("report")
                return msgspec.convert(report, CellReport) if report is not None else fallback
            self.warn(f"{slot.name}: no report: {content.get('evalue', 'unknown error')}")
        except NoReply:
            self.warn(f"{slot.name}: the kernel did not report within {_PATIENCE:.0f} s")
        except msgspec.ValidationError as error:
            self.warn(f"{slot.name}: the kernel's report cannot be read: {error}")
        return fallback

    async def close(self) -> None:
        """End the engine's session: files on disk are brought up to date."""
        if self.request.mode == "plain":
            return
        content = await self.client.request("close")
        self.take_warnings(content)
        try:
            final = msgspec.convert(content.get("reports", []), list[CellReport])
        except msgspec.ValidationError as error:
            self.warn(f"the kernel's last reports cannot be read: {error}")
            return
        # A cell reused at first may have had to run after all, for a later one.
        ran = [at for at in range(len(self.reports)) if not self.slots[at].skipped]
        for at, report in zip(ran, final, strict=False):
            if self.reports[at].action == "reused" and report.action == "executed":
                self.reports[at].action = "executed"
                self.reports[at].reasons = report.reasons
                self.reports[at].seconds = max(self.reports[at].seconds, report.seconds)

    async def note_death(self, kernel: KernelProcess) -> None:
        """The kernel died: say where and how, in the notebook too."""
        how = await kernel.how_it_ended()
        if not self.reports:
            raise KernelError(f"the kernel {how} before the first cell{kernel.last_words()}")
        slot = self.slots[len(self.reports) - 1]
        if self.stopping.wishes > 1:
            self.failure = f"the kernel was killed on request in {slot.name}"
        elif self.stopping.timed_out:
            self.failure = self.describe_timeout(slot)
        else:
            self.failure = f"the kernel {how} in {slot.name}; earlier cells are kept"
        slot.cell.outputs.append(
            new_output("error", ename="DeadKernel", evalue=self.failure, traceback=[self.failure])
        )
        self.reports[-1].action = "failed"
        self.failure += kernel.last_words()

    def pass_over(self, slot: _Slot) -> None:
        """Note a cell that is not run, and clear what an earlier run showed for it."""
        slot.cell.outputs = []
        slot.cell.execution_count = None
        report = CellReport(index=slot.index, id=slot.id, action="not-run")
        if slot.skipped:
            report.notes = [slot.skipped]
        self.reports.append(report)
        self.progress.cell_finished(report)

    def describe(self, slot: _Slot, error: CellExecutionError) -> str:
        """A failed cell, for people."""
        if self.stopping.wishes:
            return f"interrupted in {slot.name}"
        if self.stopping.timed_out:
            return self.describe_timeout(slot)
        last = next((o for o in reversed(slot.cell.outputs) if o.output_type == "error"), None)
        lines = "\n".join(last.traceback) if last is not None else ""
        return f"{slot.name} raised {error.ename}: {error.evalue}" + (f"\n{lines}" if lines else "")

    def describe_timeout(self, slot: _Slot) -> str:
        """A cell that took too long, for people."""
        return f"{slot.name} ran longer than {self.request.cell_timeout:g} s and was interrupted"

    def take_warnings(self, content: Mapping[str, Any]) -> None:
        """Pass the engine's warnings on."""
        for text in content.get("warnings", ()):
            self.warn(str(text))

    def warn(self, text: str) -> None:
        """Say something once."""
        if text not in self.warnings:
            self.warnings.append(text)
            self.progress.warning(text)

    def summary(self, seconds: float) -> NotebookReport:
        """The run as a whole."""
        reused = [report for report in self.reports if report.action == "reused"]
        return NotebookReport(
            notebook=str(self.file.path),
            kernel="python3" if self.request.mode == "plain" else f"nbrewind-{self.request.mode}",
            seconds=seconds,
            executed=sum(report.action == "executed" for report in self.reports),
            reused=len(reused),
            saved_seconds=sum(
                max(0.0, (report.recorded_seconds or 0.0) - report.seconds) for report in reused
            ),
            cells=self.reports,
            warnings=self.warnings,
        )

    def save(self) -> Path:
        """Write the notebook."""
        before = len(self.file.notes)
        began = time.monotonic()
        where = write_notebook(self.file, self.request.output)
        self.saved_at = time.monotonic()
        self.save_every = max(_SAVE_EVERY, 20 * (self.saved_at - began))
        for note in self.file.notes[before:]:
            self.warn(note)
        return where

    def save_now_and_then(self) -> None:
        """Write what there is, so that not even this process's death loses hours of outputs."""
        if time.monotonic() - self.saved_at < self.save_every:
            return
        try:
            self.save()
        except NotebookError as error:
            self.saved_at = time.monotonic()
            self.warn(str(error))


def _only_comments(source: str) -> bool:
    lines = (line.strip() for line in source.splitlines())
    return all(not line or line.startswith("#") for line in lines)


def _why_skipped(cell: NotebookNode) -> str:
    if not cell.source.strip():
        return "empty"
    return "tagged skip-execution" if "skip-execution" in tags_of(cell) else ""
