"""Results of cells, as `_`, `__`, `___` and `Out` show them.

They are engine state, kept apart from the notebook's names: small immutable
results are recorded by value, a result that is the value of a name by that name,
any other can only be had by running its cell again.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import pickle
import sys
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from nbrewind.model.records import ExecutionRecord, Result
from nbrewind.model.versions import content_version, lineage_version
from nbrewind.state.mutability import ATOMS
from nbrewind_analysis.book import Entry
from nbrewind_kernels.ports import CellOutcome, Shell
from nbrewind_kernels.recording import Changes

if TYPE_CHECKING:
    from nbrewind_kernels.engine import Engine

_LARGEST = 64 * 1024
_DEEPEST = 8
_PLAIN = frozenset(
    map(
        id,
        (
            *ATOMS,
            *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta),
            *(decimal.Decimal, fractions.Fraction, uuid.UUID),
        ),
    )
)
"""Types of values that nobody can change, by identity: metaclasses compare as they like."""


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a value can be neither changed nor told from an equal one."""
    kind = type(value)
    if kind is tuple:
        return depth < _DEEPEST and all(_is_plain(item, depth + 1) for item in value)
    return id(kind) in _PLAIN or (kind.__module__ == "numpy" and _is_number(kind))


def _is_number(kind: type) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and issubclass(kind, (numpy.number, numpy.bool_))


class RecordedResults:
    """The results of reused cells that IPython does not know of."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._recent: list[Entry | None] = []
        """For each result so far the record it was reused from; None if it is in place."""
        self._stale: set[int] = set()
        """Places of results whose alias was bound anew since."""

    def result_of(
        self, outcome: CellOutcome, draft: ExecutionRecord, changes: Changes
    ) -> Result | None:
        """What to record of a run's result; None if it had none."""
        value = outcome.result
        if not outcome.has_result or value is None:
            return None
        self._recent.append(None)
        if _is_plain(value):
            raw = pickle.dumps(value, 5)
            if len(raw) <= _LARGEST:
                return Result(content_version("result", raw), value=raw)
        version = lineage_version(draft.recipe(), "_")
        for name in changes.dumps:
            if self._shell.user_ns.get(name) is value:
                return Result(version, alias=name)
        return Result(version)

    def reuse(self, entry: Entry) -> tuple[Any, bool]:
        """The result of a reused cell, and whether it can be had without loading anything."""
        result = entry.record.result
        if result is None:
            return None, False
        self._recent.append(entry)
        if result.value is None:
            return None, False
        return pickle.loads(result.value), True

    def note_rebound(self, names: Iterable[str]) -> None:
        """Names are bound to other objects now: results are not what they are any more."""
        gone = frozenset(names)
        for place, entry in enumerate(self._recent):
            result = None if entry is None else entry.record.result
            if result is not None and result.alias in gone:
                self._stale.add(place)

    def materialise(self, names: Iterable[str], engine: Engine) -> None:
        """Put results that code is about to read where IPython keeps them.

        Args:
            names: which of `_`, `__`, `___`, `Out`, … the code reads; the latter need all.
            engine: loads values, and runs cells again.
        """
        wanted = list(names)
        if not wanted:
            return
        ages = [len(name) for name in wanted if set(name) == {"_"}]
        if len(ages) < len(wanted):
            ages = list(range(1, len(self._recent) + 1))
        for age in sorted(ages, reverse=True):
            place = len(self._recent) - age
            entry = self._recent[place] if place >= 0 else None
            if entry is None:
                continue
            found, value = self._value(entry, place, engine)
            if found:
                self._shell.put_result(age, value)
                self._recent[place] = None
            else:
                engine.warn("the result of a reused cell cannot be made again; run that cell")

    def _value(self, entry: Entry, place: int, engine: Engine) -> tuple[bool, Any]:
        result = entry.record.result
        if result is None:
            return False, None
        if result.value is not None:
            return True, pickle.loads(result.value)
        if result.alias in engine.now.table and place not in self._stale:
            engine.materialise(frozenset({result.alias}))
            return True, self._shell.user_ns.get(result.alias)
        return engine.remaker.result_of(entry.record)
