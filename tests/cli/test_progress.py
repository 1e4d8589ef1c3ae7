"""What a person sees of a run."""

from __future__ import annotations

import io

import pytest

from nbrewind.cli.output import cut, seconds, size
from nbrewind.cli.progress import LiveProgress, PlainProgress, progress_on, row, summary
from nbrewind.model.reasons import Reason
from nbrewind.model.reports import CellReport, NotebookReport


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


REPORT = CellReport(
    index=3,
    id="c",
    action="executed",
    reasons=[Reason("input-changed", "df"), Reason("source-changed")],
    seconds=1.25,
    notes=["used the network"],
)


def test_a_row_tells_what_how_long_which_cell_and_why() -> None:
    head, why = row(REPORT, "plot(df)")
    assert head.split() == ["[", "3]", "executed", "1.25", "s", "plot(df)"]
    assert why == "input-changed df; source-changed; used the network"


def test_plain_output_is_one_line_per_cell() -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.started(["a", "b", "c", "plot(df)"])
    progress.cell_started(3)
    assert stream.getvalue() == ""
    progress.cell_finished(REPORT)
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


def test_quiet_prints_warnings_only(capsys: pytest.CaptureFixture[str]) -> None:
    stream = Terminal()
    with progress_on(stream, quiet=True) as progress:
        progress.started(["a"] * 4)
        progress.cell_finished(REPORT)
        progress.warning("beware")
    assert stream.getvalue() == ""
    assert "beware" in capsys.readouterr().err


def test_a_terminal_shows_the_running_cell_and_keeps_finished_rows() -> None:
    stream = Terminal()
    with progress_on(stream, quiet=False) as progress:
        assert isinstance(progress, LiveProgress)
        progress.started(["a", "b", "c", "plot([df])"])
        progress.cell_started(3)
        progress._live.refresh()
        assert "running" in stream.getvalue()
        progress.cell_finished(REPORT)
        progress.warning("[beware]")
    assert "input-changed df" in stream.getvalue()
    assert "plot([df])" in stream.getvalue()
    assert "[beware]" in stream.getvalue()


def test_the_summary_counts() -> None:
    report = NotebookReport(
        notebook="/x/nb.ipynb",
        kernel="nbrewind-replay",
        seconds=3.0,
        executed=1,
        reused=4,
        saved_seconds=250.0,
        cells=[REPORT, CellReport(index=4, id="d", action="failed")],
    )
    assert summary(report, "replayed nb.ipynb") == (
        "replayed nb.ipynb in 3.00 s: executed 1, reused 4, failed 1, saved 4.2 min"
    )


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (0, "0.00 s"), (99.9, "99.90 s"), (7200, "2.0 h")]
)
def test_durations(value: float | None, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (10**13, "10.0 TB")]
)
def test_sizes(value: int, text: str) -> None:
    assert size(value) == text


def test_long_texts_are_cut() -> None:
    assert cut("abcdef", 4) == "abc…"
    assert cut("abc", 4) == "abc"
