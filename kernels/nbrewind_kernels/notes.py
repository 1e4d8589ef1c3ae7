"""What a person should know of a record that is reused."""

from __future__ import annotations

from nbrewind.model.records import FLAGS, ExecutionRecord
from nbrewind_analysis.validity import EnvironmentPolicy, Situation, environment_changes

_TOLD = ("network", "clock", "process")
"""Flags under which a cell is reused, but not without saying so."""


def notes_on(record: ExecutionRecord, now: Situation, policy: EnvironmentPolicy) -> list[str]:
    """Notes for the report of a reused cell.

    Args:
        record: what is reused.
        now: the versions before it is.
        policy: under `accept`, packages may have changed since the cell ran.
    """
    notes = [
        f"{flag}: the recorded run {FLAGS[flag]}, and was not repeated"
        for flag in record.flags
        if flag in _TOLD
    ]
    if policy == "accept":
        notes += [
            f"environment: {change.subject} has changed, {change.detail}"
            for change in environment_changes(record, now)
        ]
    return notes
