"""What a cell can reach: its own names, and through them everything its code may call."""

from __future__ import annotations

from dataclasses import dataclass

from nbrewind.model.records import Uses
from nbrewind_analysis.cells import Cell
from nbrewind_analysis.table import Closure, VersionTable

NOTHING = Uses()


@dataclass(frozen=True, slots=True)
class Reach:
    """A cell set against the version table of the moment before it runs."""

    closure: Closure
    may_store: frozenset[str]
    must_store: frozenset[str]
    must_delete: frozenset[str]
    everything: bool
    """It may read and write names that nothing tells in advance."""

    @property
    def names(self) -> set[str]:
        """Names and entities that exist and may be read."""
        return self.closure.names


def reach(cell: Cell, table: VersionTable, unnamed: Uses = NOTHING) -> Reach:
    """Work out what a cell can reach.

    A function that the cell defines and does not call itself may still be called by an
    older one that looks it up; then what it loads counts as well.

    Args:
        cell: the cell.
        table: the versions before it runs.
        unnamed: what code may touch that the cell calls by no name of the notebook.
    """
    names = cell.names
    seeds = (
        {*unnamed.loads, *unnamed.entities}
        | set(names.reads)
        | {name for name in names.results if name in table}
    )
    stores = {*unnamed.stores} | set(names.stores) | set(names.deletes)
    dynamic = names.dynamic or unnamed.dynamic
    ended = table.ended_by(stores)
    if ended is not None:
        seeds |= ended.names
        dynamic = dynamic or ended.dynamic
    imports = set(names.imports)
    waiting = dict(names.latent)
    while True:
        closure = table.closure(seeds, modules=imports, dynamic=dynamic)
        called = [n for n in waiting if n in closure.names or n in closure.absent]
        if not called:
            break
        for name in called:
            latent = waiting.pop(name)
            seeds |= latent.loads
            stores |= latent.stores
            imports |= latent.imports
            dynamic = dynamic or latent.dynamic
    everything = closure.dynamic or names.star_import
    return Reach(
        closure,
        frozenset(stores | closure.stores),
        names.definite_stores,
        names.definite_deletes,
        everything,
    )
