"""What `%rewind report` says of executions that are not on the disk yet."""

from __future__ import annotations

from nbrewind.model.reports import CellReport
from nbrewind_kernels.cells import Entry
from nbrewind_kernels.session_report import SessionReport


def entry(record: str, action: str = "executed") -> Entry:
    return Entry("x = 1", CellReport(index=0, id="", action=action, record=record))  # type: ignore[arg-type]


def test_executions_that_only_survive_the_kernel_are_marked() -> None:
    report = SessionReport("audit", [entry("aa"), entry("bb")], captured=frozenset({"bb"}))
    notes = [row[-1] for row in report.rows()]
    assert notes == ["", "captured, not on the disk yet"]
    assert "not on the disk yet" in repr(report)


def test_what_was_reused_is_on_the_disk() -> None:
    report = SessionReport("replay", [entry("aa", "reused")], captured=frozenset({"aa"}))
    assert report.rows()[0][-1] == ""
