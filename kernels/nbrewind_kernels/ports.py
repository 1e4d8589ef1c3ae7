"""What passes between a kernel and the engine: requests, decisions, outcomes.

The engine knows no ZMQ and no IPython; a kernel gives it a `Shell` to look at
the namespace through. Tests drive the engine with a plain Python shell.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Protocol

from nbrewind.model.records import ExecutionRecord, OutputMessage
from nbrewind.model.reports import CellReport


class Shell(Protocol):
    """The engine's view of the process that runs the user's code."""

    user_ns: dict[str, Any]
    """The notebook's namespace; `__main__`'s dictionary."""

    def hidden_names(self) -> frozenset[str]:
        """Names in `user_ns` that the shell put there (`In`, `get_ipython`, `_`, …)."""

    def transform(self, source: str) -> str:
        """Cell text to Python text (magics, `!cmd`, `obj?`); raises `SyntaxError`."""

    def compile_flags(self) -> int:
        """`from __future__` flags that earlier cells switched on."""

    def registries(self) -> Mapping[str, int | str]:
        """A cheap digest of each registry a cell may change (`magics`, `events`, …)."""

    def own_magics(self, names: Set[str]) -> list[object]:
        """What stands behind magics of these names that the notebook registered itself."""

    def own_hooks(self) -> list[FunctionType]:
        """Functions of the notebook that the shell calls with every cell it runs."""

    def put_result(self, age: int, value: Any) -> None:
        """Put a reused cell's result where results are kept; `age` 1 is `_`, 2 is `__`."""

    def run_quietly(self, source: str, *, keep_figures: bool = False) -> CellOutcome:
        """Run a cell's source with nothing shown, stored in history or counted.

        Args:
            source: the text of the cell.
            keep_figures: leave the figures as it leaves them, for pyplot to draw into.
        """


@dataclass(frozen=True)
class CellRequest:
    """A cell about to run."""

    source: str
    cell_id: str = ""
    policy: str = "auto"
    """`never`, `always` or `auto`: from `cell.metadata.nbrewind.cache`."""
    force: bool = False
    """Execute whatever the records say (reason `forced`)."""


@dataclass(frozen=True)
class CellOutcome:
    """How the user's code ended."""

    status: str
    """`ok`, `error` or `interrupted`."""
    result: Any = None
    has_result: bool = False
    """A last expression was shown; `result` may then legitimately be None."""
    error: str = ""
    outputs: tuple[OutputMessage, ...] = ()
    flags: frozenset[str] = frozenset()
    """Flags only the kernel can know (`stdin`, `widgets`)."""


@dataclass(frozen=True)
class Reuse:
    """The decision not to run a cell: what to show instead."""

    record: ExecutionRecord
    outputs: tuple[OutputMessage, ...]
    report: CellReport
    result: Any = None
    has_result: bool = False
    """`result` may be put into `Out`; False where it was None or is not stored."""
    code: str | None = None
    """The cell after the input transformation, which asks what names there are; None: not known."""


@dataclass(frozen=True)
class Execute:
    """The decision to run a cell; inputs are in place."""

    report: CellReport
    """What is known so far: reasons, reads."""
    notes: list[str] = field(default_factory=list)


Decision = Reuse | Execute


class CellEngine(Protocol):
    """The engine as kernels see it. Never raises: what fails becomes a warning (law L6)."""

    warnings: list[str]
    """Problems met so far, each once, for people."""

    def plan(self, cells: list[CellRequest]) -> None:
        """Tell in advance all cells that will be requested, in order (batch runs)."""

    def begin(self, request: CellRequest) -> Decision:
        """Decide about a cell. After `Execute`, run it and call `finish`."""

    def finish(self, outcome: CellOutcome) -> CellReport:
        """Capture what the cell did; after the reply, before `idle`."""

    def materialise(self, names: frozenset[str] | None) -> None:
        """Load what is not loaded among `names` (None: everything), for code outside cells."""

    def absorb(self) -> None:
        """Look at the whole namespace again after code that ran outside a cell."""

    def lazy_names(self) -> frozenset[str]:
        """Names that exist but are not loaded."""

    def secure(self) -> None:
        """Wait until every record so far survives the kernel; called with or without a cell."""

    def captured(self) -> frozenset[str]:
        """Ids of records that survive the kernel, but may not survive the machine yet."""

    def close(self) -> None:
        """Bring files up to date and end the session."""
