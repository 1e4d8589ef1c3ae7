"""The choice of a record to reuse for a cell, or the reasons why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field

from nbrewind.model.blobs import ObjectId
from nbrewind.model.reasons import Reason
from nbrewind_analysis.book import Entry, RecordBook
from nbrewind_analysis.validity import (
    EnvironmentPolicy,
    Situation,
    definitions_in_use,
    mismatches,
    unsafe,
)


@dataclass(slots=True)
class CellHint:
    """What is known of a cell besides its source; a hint, never its identity."""

    notebook: str = ""
    cell_id: str = ""
    ordinal: int = -1
    policy: str = "auto"
    """`never`, `always` or `auto`."""
    rerun: bool = False
    """The same cell was run, or reused, before in this session."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A record to reuse, or why the cell must run."""

    entry: Entry | None
    reasons: list[Reason] = field(default_factory=list)
    previous: Entry | None = None
    """The record that came closest; tells how long the cell takes."""


def choose(
    book: RecordBook,
    source: str,
    source_digest: str,
    now: Situation,
    hint: CellHint,
    *,
    used: frozenset[ObjectId] | set[ObjectId] = frozenset(),
    environment: EnvironmentPolicy = "rerun",
) -> Choice:
    """Find a record of the same source that read exactly what is current.

    Among several the one not used yet in this session with the same cell id comes
    first, then the same position, then the newest.
    """
    found = book.find(source_digest)
    ranked = sorted(found.entries, key=lambda entry: _rank(entry, hint, used))
    if hint.policy == "never":
        return Choice(None, [Reason("forced", "", "the cell says: never reuse")], _first(ranked))
    best: tuple[int, list[Reason], Entry] | None = None
    for entry in ranked:
        if entry.record.raw_source and entry.record.source != source:
            reasons = [Reason("source-changed", "", "the cell can see its own text")]
        else:
            reasons = mismatches(entry.record, now, environment)
            if not reasons:
                reasons = unsafe(entry.record, hint.policy)
            if not reasons:
                reasons = definitions_in_use(entry.record, now, rerun=hint.rerun)
        if not reasons:
            return Choice(entry, [], entry)
        if best is None or len(reasons) < best[0]:
            best = (len(reasons), reasons, entry)
    if best is not None:
        return Choice(None, best[1], best[2])
    return Choice(None, [_why_unknown(book, hint, found.untrusted)], None)


def _rank(
    entry: Entry, hint: CellHint, used: frozenset[ObjectId] | set[ObjectId]
) -> tuple[int, ...]:
    ref = entry.ref
    return (
        entry.id in used,
        not (hint.cell_id and ref.cell_id == hint.cell_id),
        ref.ordinal != hint.ordinal,
    )


def _first(entries: list[Entry]) -> Entry | None:
    return entries[0] if entries else None


def _why_unknown(book: RecordBook, hint: CellHint, untrusted: int) -> Reason:
    if untrusted:
        return Reason(
            "untrusted",
            "",
            "it was recorded under a key that is not trusted here; see `nbrewind trust`",
        )
    if book.refs_of_cell(hint.notebook, hint.cell_id, hint.ordinal):
        return Reason("source-changed", "", "no record has this source")
    return Reason("never-run", "", "no record has this source")
