"""Training sessions in cells: what the running cell tells them.

A session asks which run it is ([023](../../docs/design/023-training-cells.md)). A cell that was
interrupted has changed the model it reads: run again in the same session, it goes on with the
run it was, not with a new one that starts from a half-trained model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbrewind.model.records import ExecutionRecord
from nbrewind.model.versions import combine
from nbrewind.training.context import Context, provide
from nbrewind_analysis.runs import run_name
from nbrewind_kernels.drafts import RunningCell
from nbrewind_kernels.ports import CellOutcome

if TYPE_CHECKING:
    from nbrewind_kernels.engine import Engine

_SAME = frozenset({"not-stored", "source-changed", "session-effect", "never-run", "previous-error"})
"""Reasons to run a cell under which what a finished run made is what it would make again."""


class TrainingRuns:
    """The runs of one session of a kernel."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._told: Context | None = None
        self._continued: dict[str, str] = {}
        """Runs as the state after an interruption would name them → the interrupted ones."""

    def begin(self, running: RunningCell) -> None:
        """A cell is about to run: answer what a session in it asks."""
        self._told = None
        provide(lambda: self._tell(running))

    def end(self) -> None:
        """The cell has run."""
        provide(None)

    def follow(self, running: RunningCell, outcome: CellOutcome) -> None:
        """The versions are those that the cell left."""
        if self._told is not None and outcome.status != "ok":
            self._continued[self._name(running)] = self._told.run

    def _tell(self, running: RunningCell) -> Context:
        if self._told is None:
            name = self._name(running)
            inputs, changed = self._files(running)
            reasons = {reason.kind for reason in running.report.reasons}
            self._told = Context(
                run=self._continued.get(name, name),
                store=self._engine.place,
                names=tuple(sorted(running.cell.names.stores)),
                inputs=inputs,
                changed=changed,
                anew=self._engine.mode == "audit" or not reasons <= _SAME,
            )
        return self._told

    def _name(self, running: RunningCell) -> str:
        engine = self._engine
        return run_name(
            running.cell,
            engine.now,
            running.magics.uses,
            engine.shell.transform,
            engine.shell.compile_flags(),
        )

    def _files(self, running: RunningCell) -> tuple[str, bool]:
        """Digest of the files that the cell read when it ran before; whether any is changed."""
        record = self._before(running)
        if record is None:
            return "", False
        now = self._engine.now
        parts, changed = [], False
        for file in record.files:
            if file.read is None or file.write is not None:
                continue
            current = now.file_version(file.path, file.read)
            parts.append(f"{file.path}={current}")
            changed = changed or current != file.read
        return combine("files", sorted(parts)) if parts else "", changed

    def _before(self, running: RunningCell) -> ExecutionRecord | None:
        book, hint = self._engine.book, running.hint
        found = book.find(running.cell.digest).entries
        if found:
            return found[0].record
        bodies = book.refs_of_cell(hint.notebook, hint.cell_id, hint.ordinal)
        return book.get(bodies[0].record) if bodies else None
