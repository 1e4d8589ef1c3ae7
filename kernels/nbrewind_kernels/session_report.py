"""`%rewind report`: what this session executed and reused, and why, as a table."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nbrewind.model.reports import CellReport
from nbrewind_kernels.cells import Entry

_HEADINGS = ("", "cell", "", "why", "seconds", "notes")


@dataclass(frozen=True)
class SessionReport:
    """Shown as HTML by notebooks, as text elsewhere."""

    mode: str
    entries: Sequence[Entry]
    warnings: Sequence[str] = ()
    captured: frozenset[str] = frozenset()
    """Ids of records that survive the kernel, but may not survive the machine yet."""

    def summary(self) -> str:
        """One line: how many cells were executed and reused, and the time saved."""
        reports = [entry.report for entry in self.entries]
        reused = [r for r in reports if r.action == "reused"]
        saved = sum(max(0.0, (r.recorded_seconds or 0.0) - r.seconds) for r in reused)
        parts = [
            f"{sum(r.action != 'reused' for r in reports)} executed",
            f"{len(reused)} reused",
        ]
        if reused:
            parts.append(f"{saved:.1f} s saved")
        return f"NBRewind {self.mode}: " + ", ".join(parts)

    def rows(self) -> list[tuple[str, ...]]:
        """Number, first line, action, reasons, seconds and notes of each cell."""
        return [
            (
                str(number),
                first_line(entry.source),
                entry.report.action,
                "; ".join(why(entry.report)),
                f"{entry.report.seconds:.2f}",
                "; ".join(self._notes(entry.report)),
            )
            for number, entry in enumerate(self.entries, 1)
        ]

    def _notes(self, report: CellReport) -> list[str]:
        waits = report.action != "reused" and report.record in self.captured
        return [*report.notes, *(["captured, not on the disk yet"] if waits else [])]

    def __repr__(self) -> str:
        table = [_HEADINGS, *self.rows()]
        widths = [max(len(row[i]) for row in table) for i in range(len(_HEADINGS))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in table]
        shown = [self.summary(), *lines] if self.entries else [self.summary()]
        shown += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(line.rstrip() for line in shown)

    def _repr_html_(self) -> str:
        head = _cells("th", _HEADINGS)
        body = "".join(
            f'<tr class="nbrewind-{html.escape(row[2])}">{_cells("td", row)}</tr>'
            for row in self.rows()
        )
        warnings = "".join(f"<p>⚠ {html.escape(warning)}</p>" for warning in self.warnings)
        return (
            '<div class="nbrewind-report">'
            f"<p><b>{html.escape(self.summary())}</b></p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"{warnings}</div>"
        )


def first_line(source: str, width: int = 60) -> str:
    """The first line of a cell that says something, cut to `width` characters."""
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    shown = next((line for line in lines if not line.startswith("#")), lines[0] if lines else "")
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def why(report: CellReport) -> list[str]:
    """The reasons of one report, in words."""
    return [
        " ".join(part for part in (reason.kind, reason.subject) if part)
        + (f" ({reason.detail})" if reason.detail else "")
        for reason in report.reasons
    ]


def _cells(tag: str, texts: Iterable[str]) -> str:
    style = ' style="text-align:left"'
    return "".join(f"<{tag}{style}>{html.escape(text)}</{tag}>" for text in texts)
