"""A kernel process with a small engine of its own, for tests of the kernel alone.

Run as `python fake_kernel.py MODE -f CONNECTION_FILE`. The engine keeps in
memory what each cell printed and bound; under `replay` a cell whose source ran
before is reused. A first line `# fake: …` steers it:

- `break-begin`, `break-finish`: the engine raises;
- `slow-begin`: the engine takes its time, until interrupted or ten seconds are over;
- `lazy`: the names that the cell binds are taken out of the namespace, to be
  loaded on demand.

`FAKE_JOURNAL` names a file that gets one JSON line per call.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

from nbrewind.model.reasons import Reason
from nbrewind.model.records import ExecutionRecord
from nbrewind.model.reports import CellReport
from nbrewind_kernels.interrupts import _open
from nbrewind_kernels.kernel import AuditKernel, ReplayKernel
from nbrewind_kernels.launch import main
from nbrewind_kernels.location import Location
from nbrewind_kernels.ports import CellOutcome, CellRequest, Decision, Execute, Reuse, Shell


class FakeEngine:
    def __init__(self, shell: Shell, mode: str) -> None:
        if os.environ.get("FAKE_BREAK") == "start":
            raise RuntimeError("broken start")
        self.shell = shell
        self.mode = mode
        self.warnings: list[str] = []
        self._known: dict[str, tuple[CellOutcome, dict[str, Any]]] = {}
        self._lazy: dict[str, Any] = {}
        self._before: dict[str, int] = {}
        self._request: CellRequest | None = None

    def plan(self, cells: list[CellRequest]) -> None:
        self._note("plan", cells=[[c.source, c.cell_id, c.policy, c.force] for c in cells])

    def begin(self, request: CellRequest) -> Decision:
        self._note(
            "begin",
            source=request.source,
            cell=request.cell_id,
            policy=request.policy,
            force=request.force,
            thread=threading.current_thread().name,
        )
        if "break-begin" in request.source:
            raise RuntimeError("broken begin")
        if "slow-begin" in request.source:
            self._note("waiting")
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline and not _open[-1].pending:
                time.sleep(0.01)
        self._request = request
        self._before = {name: id(value) for name, value in self._visible().items()}
        if self.mode == "replay" and request.source in self._known and not request.force:
            outcome, wrote = self._known[request.source]
            self._lazy.update(wrote) if "lazy" in request.source else self.shell.user_ns.update(
                wrote
            )
            if "lazy" in request.source:
                for name in wrote:
                    self.shell.user_ns.pop(name, None)
            report = CellReport(index=-1, id=request.cell_id, action="reused", recorded_seconds=2.0)
            return Reuse(
                ExecutionRecord(source=request.source, source_digest=""),
                outcome.outputs,
                report,
                outcome.result,
                outcome.has_result,
            )
        self.materialise(None)
        reasons = [Reason("never-run")]
        return Execute(CellReport(index=-1, id=request.cell_id, action="executed", reasons=reasons))

    def finish(self, outcome: CellOutcome) -> CellReport:
        assert self._request is not None
        self._note(
            "finish",
            status=outcome.status,
            error=outcome.error,
            has_result=outcome.has_result,
            result=repr(outcome.result),
            flags=sorted(outcome.flags),
            outputs=[o.type for o in outcome.outputs],
            visible=sorted(self._visible()),
        )
        if "break-finish" in self._request.source:
            raise RuntimeError("broken finish")
        if "slow-finish" in self._request.source:
            self._note("capturing")
            time.sleep(1)
        wrote = {
            name: value
            for name, value in self._visible().items()
            if name not in self._before or self._before[name] != id(value)
        }
        if outcome.status == "ok" and self.mode == "replay":
            self._known[self._request.source] = (outcome, wrote)
        action = "executed" if outcome.status == "ok" else "failed"
        return CellReport(
            index=-1,
            id=self._request.cell_id,
            action=action,
            reasons=[Reason("never-run")],
            writes=sorted(wrote),
            notes=sorted(outcome.flags),
        )

    def materialise(self, names: frozenset[str] | None) -> None:
        wanted = set(self._lazy) if names is None else names & self._lazy.keys()
        if wanted:
            self._note("materialise", names=sorted(wanted))
        for name in wanted:
            self.shell.user_ns[name] = self._lazy.pop(name)

    def absorb(self) -> None:
        self._note("absorb")

    def lazy_names(self) -> frozenset[str]:
        return frozenset(self._lazy)

    def secure(self) -> None:
        """Nothing is stored."""

    def captured(self) -> frozenset[str]:
        """Nothing is stored."""
        return frozenset()

    def close(self) -> None:
        self._note("close")

    def _visible(self) -> dict[str, Any]:
        hidden = self.shell.hidden_names()
        return {n: v for n, v in self.shell.user_ns.items() if n not in hidden}

    def _note(self, what: str, **fields: Any) -> None:
        journal = os.environ.get("FAKE_JOURNAL")
        if journal:
            with open(journal, "a") as file:
                file.write(json.dumps({"what": what, **fields}) + "\n")


class FakeAudit(AuditKernel):
    def make_engine(self, shell: Shell, location: Location) -> FakeEngine:
        return FakeEngine(shell, "audit")


class FakeReplay(ReplayKernel):
    def make_engine(self, shell: Shell, location: Location) -> FakeEngine:
        return FakeEngine(shell, "replay")


if __name__ == "__main__":
    mode = sys.argv.pop(1)
    main(mode, {"audit": FakeAudit, "replay": FakeReplay}[mode])
