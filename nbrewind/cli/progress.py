"""One line per cell while a notebook runs.

Finished cells are printed for good, so that a run of a thousand cells scrolls
like any other; on a terminal the cell that runs has a line of its own below
them.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from nbrewind.cli.output import cut, seconds

if TYPE_CHECKING:
    from rich.live import Live

    from nbrewind.model.reports import CellReport, NotebookReport

_STYLES = {"executed": "yellow", "reused": "green", "failed": "bold red", "not-run": "dim"}
_SOURCE_WIDTH = 40


def row(
    report: CellReport,
    line: str,
    width: int = _SOURCE_WIDTH,
    hidden: Collection[str] = (),
) -> tuple[str, str]:
    """A cell's row: what became of it and which cell it is; and why.

    Args:
        report: the cell's report.
        line: its first line of code.
        width: characters for that line.
        hidden: kinds of reasons that are the same for every cell of this run.
    """
    took = seconds(report.seconds) if report.action != "not-run" else ""
    head = f"[{report.index:>3}]  {report.action:<8}  {took:>9}  {cut(line, width):<{width}}"
    reasons = [str(reason) for reason in report.reasons if reason.kind not in hidden]
    return head, "; ".join([*reasons, *report.notes])


def summary(report: NotebookReport, verb: str) -> str:
    """The line at the end of a run."""
    failed = sum(cell.action == "failed" for cell in report.cells)
    parts = [
        f"executed {report.executed}",
        f"reused {report.reused}",
        *([f"failed {failed}"] if failed else []),
        f"saved {seconds(report.saved_seconds)}",
    ]
    return f"{verb} in {seconds(report.seconds)}: {', '.join(parts)}"


class PlainProgress:
    """Lines of text, for files, pipes and batch systems."""

    def __init__(self, stream: IO[str], rows: bool = True, hidden: Collection[str] = ()) -> None:
        self._hidden = hidden
        self._stream = stream
        self._rows = rows
        self._lines: Sequence[str] = ()

    def started(self, lines: Sequence[str]) -> None:
        """Remember which cells there are."""
        self._lines = lines

    def cell_started(self, index: int) -> None:
        """Nothing: a line is written when the cell has ended."""

    def cell_finished(self, report: CellReport) -> None:
        """Write the cell's row."""
        if self._rows:
            head, why = row(report, self._lines[report.index], hidden=self._hidden)
            self._write(f"{head}  {why}".rstrip())

    def warning(self, text: str) -> None:
        """Write a warning."""
        sys.stderr.write(f"warning: {text}\n")
        sys.stderr.flush()

    def _write(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()


class LiveProgress:
    """Rows in colour, and below them the cell that runs."""

    def __init__(self, stream: IO[str], hidden: Collection[str] = ()) -> None:
        from rich.console import Console
        from rich.live import Live

        self._hidden = hidden
        self._lines: Sequence[str] = ()
        self._running: tuple[int, float] | None = None
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self._live: Live = Live(self, console=self._console, transient=True, refresh_per_second=4)

    def __enter__(self) -> LiveProgress:
        self._live.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._running = None
        self._live.stop()

    def started(self, lines: Sequence[str]) -> None:
        """Remember which cells there are."""
        self._lines = lines

    def cell_started(self, index: int) -> None:
        """Show that the cell runs."""
        self._running = (index, time.monotonic())

    def cell_finished(self, report: CellReport) -> None:
        """Print the cell's row."""
        from rich.text import Text

        self._running = None
        columns = shutil.get_terminal_size().columns
        source_width = max(10, min(_SOURCE_WIDTH, (columns - 28) // 2))
        head, why = row(report, self._lines[report.index], source_width, self._hidden)
        text = Text(cut(head, columns - 1), style=_STYLES[report.action])
        text.append("  " + cut(why, max(0, columns - len(head) - 3)), style="dim")
        self._console.print(text)

    def warning(self, text: str) -> None:
        """Print a warning."""
        from rich.text import Text

        self._console.print(Text(f"warning: {text}", style="magenta"))

    def __rich__(self) -> Any:
        """The line of the cell that runs, as it is now."""
        from rich.text import Text

        if self._running is None:
            return Text("")
        index, since = self._running
        took = seconds(time.monotonic() - since)
        line = f"[{index:>3}]  running   {took:>9}  {self._lines[index]}"
        return Text(cut(line, shutil.get_terminal_size().columns - 1), style="cyan")


@contextmanager
def progress_on(
    stream: IO[str], quiet: bool, hidden: Collection[str] = ()
) -> Iterator[PlainProgress | LiveProgress]:
    """The progress that suits a stream, while a run lasts."""
    if quiet or not stream.isatty():
        yield PlainProgress(stream, not quiet, hidden)
    else:
        with LiveProgress(stream, hidden) as live:
            yield live
