"""The same cells through plain ipykernel and through a NBRewind kernel, in turn.

Both kernels are driven by the same client over the same kind of socket. A cell is
timed from its request to its `idle`: capture runs between the reply and `idle`, so all
of it counts. The end of a session counts too, because commits may still be on their
way to the disk then. Single times say little on a shared machine; ratios are taken run
by run, the two kernels in turn, and the median of those is what is reported.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from nbrewind_kernels.kernelspecs import FixedSpecs, RunMode, spec_in_memory

PATIENCE = 600.0


@dataclass(frozen=True)
class Notebook:
    """Cells to run: those that set the scene, and those that are compared."""

    name: str
    setup: Sequence[str]
    cells: Sequence[str]


@dataclass(frozen=True)
class Run:
    """One run of a notebook in one kernel; all times in seconds."""

    setup: float
    cells: list[float]
    end: float
    """From the last cell's `idle` until everything is on the disk."""
    stored: int
    """Bytes in the store."""

    @property
    def whole(self) -> float:
        """From the first request to the end."""
        return self.setup + sum(self.cells) + self.end


@dataclass(frozen=True)
class Comparison:
    """Several pairs of runs."""

    notebook: Notebook
    plain: list[Run]
    audited: list[Run]

    def row(self) -> dict[str, Any]:
        """The figures that are reported."""
        count = len(self.notebook.cells)
        pairs = list(zip(self.plain, self.audited, strict=True))
        return {
            "notebook": self.notebook.name,
            "cells": count,
            "ratio, whole notebook": _median([a.whole / p.whole for p, a in pairs]),
            "ratio, cells": _median(
                [(sum(a.cells) + a.end) / (sum(p.cells) + p.end) for p, a in pairs]
            ),
            "ms per cell, plain": _median([1e3 * statistics.median(p.cells) for p in self.plain]),
            "ms per cell, audit": _median([1e3 * statistics.median(a.cells) for a in self.audited]),
            "ms added per cell": _median(
                [1e3 * (sum(a.cells) + a.end - sum(p.cells) - p.end) / count for p, a in pairs]
            ),
            "MB stored": round(_median([a.stored / 1e6 for a in self.audited]), 1),
        }


def compare(notebook: Notebook, rounds: int) -> Comparison:
    """Run a notebook in both kernels, in turn, `rounds` times each."""
    plain, audited = [], []
    for number in range(rounds):
        order: list[RunMode] = ["plain", "audit"] if number % 2 == 0 else ["audit", "plain"]
        for mode in order:
            (plain if mode == "plain" else audited).append(run(notebook, mode))
    return Comparison(notebook, plain, audited)


def run(notebook: Notebook, mode: RunMode) -> Run:
    """Run a notebook once in a fresh kernel and an empty folder.

    Raises:
        RuntimeError: a cell failed.
    """
    with tempfile.TemporaryDirectory(prefix="nbrewind-benchmark-") as folder:
        manager = KernelManager(
            kernel_name=mode, kernel_spec_manager=FixedSpecs(), transport="ipc", ip=f"{folder}/k"
        )
        manager.kernel_spec_manager.fixed = spec_in_memory(mode)
        manager.connection_file = f"{folder}/kernel.json"
        manager.start_kernel(
            cwd=folder,
            env={**os.environ, "NBREWIND_CONFIG_DIR": f"{folder}/config"},
            extra_arguments=["--HistoryManager.hist_file=:memory:"],
        )
        client = manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=PATIENCE)
            execute(client, "pass")  # the engine's first cell pays for imports
            setup = sum(execute(client, source) for source in notebook.setup)
            setup += 0.0 if mode == "plain" else ask(client, "report")
            cells = [execute(client, source) for source in notebook.cells]
            end = 0.0 if mode == "plain" else ask(client, "close")
            stored = sum(f.stat().st_size for f in Path(folder, ".nbrewind").rglob("*.pack"))
            return Run(setup, cells, end, stored)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def execute(client: BlockingKernelClient, source: str) -> float:
    """Run one cell; seconds from its request to its `idle`."""
    began = time.perf_counter()
    asked = client.execute(source)
    while True:
        message = client.get_iopub_msg(timeout=PATIENCE)
        if message["parent_header"].get("msg_id") != asked:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "error":
            raise RuntimeError(f"{content['ename']}: {content['evalue']} in {source!r}")
        if kind == "status" and content["execution_state"] == "idle":
            seconds = time.perf_counter() - began
            client.get_shell_msg(timeout=PATIENCE)
            return seconds


def ask(client: BlockingKernelClient, operation: str) -> float:
    """Ask the engine for something that it answers when everything is on the disk; seconds."""
    began = time.perf_counter()
    message = client.session.msg("nbrewind_request", {"op": operation})
    client.control_channel.send(message)
    asked = message["header"]["msg_id"]
    while client.get_control_msg(timeout=PATIENCE)["parent_header"].get("msg_id") != asked:
        continue
    return time.perf_counter() - began


def _median(figures: Sequence[float]) -> float:
    return round(statistics.median(figures), 2)
