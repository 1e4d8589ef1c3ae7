"""Results of cells, as `_`, `__`, `___` and `Out` show them.

They are engine state, kept apart from the notebook's names: small immutable
results are recorded by value, a result that is the value of a name by that name,
any other can only be had by running its cell again.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from nbrewind.model.records import ExecutionRecord, Result
from nbrewind.model.versions import content_version, lineage_version
from nbrewind.state.capture import ATOMS
from nbrewind_analysis.book import Entry
from nbrewind_kernels.ports import CellOutcome
from nbrewind_kernels.recording import Changes

if TYPE_CHECKING:
    from nbrewind_kernels.engine import Engine

_LARGEST = 64 * 1024


class RecordedResults:
    """The results of reused cells that IPython does not know of."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._recent: list[Entry | None] = []
        """For each result so far the record it was reused from; None if its cell ran."""

    def result_of(
        self, outcome: CellOutcome, draft: ExecutionRecord, changes: Changes
    ) -> Result | None:
        """What to record of a run's result; None if it had none."""
        value = outcome.result
        if not outcome.has_result or value is None:
            return None
        self._recent.append(None)
        if type(value) in ATOMS:
            raw = pickle.dumps(value, 5)
            if len(raw) <= _LARGEST:
                return Result(content_version("result", raw), value=raw)
        version = lineage_version(draft.recipe(), "_")
        for name in changes.dumps:
            if self._namespace.get(name) is value:
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

    def materialise(self, names: Iterable[str], engine: Engine) -> None:
        """Put results that code is about to read where IPython keeps them."""
        for name in sorted(names, key=len, reverse=True):
            if set(name) != {"_"} or len(name) > len(self._recent):
                continue
            entry = self._recent[-len(name)]
            if entry is None or entry.record.result is None:
                continue
            result = entry.record.result
            if result.value is not None:
                self._namespace[name] = pickle.loads(result.value)
            elif result.alias and result.alias in engine.now.table:
                engine.materialise(frozenset({result.alias}))
                self._namespace[name] = self._namespace.get(result.alias)
            else:
                found, value = engine.remaker.result_of(entry.record)
                if found:
                    self._namespace[name] = value
                else:
                    engine.warn(f"the result {name} of a reused cell cannot be made again")
