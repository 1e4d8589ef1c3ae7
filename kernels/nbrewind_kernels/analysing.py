"""Analysing requested cells as the shell would read them at the moment."""

from __future__ import annotations

import re
from collections.abc import Set
from functools import partial

from nbrewind_analysis.cells import Cell, analyse_cell
from nbrewind_analysis.choice import CellHint
from nbrewind_kernels.ports import CellRequest, Shell

_FIRST_WORD = re.compile(r"\s*([^\W\d]\w*)\b(?!\s*[=,])")
"""The word that IPython may take for a magic; never one that is assigned to."""


class CellReader:
    """Reads the cells of one session.

    Args:
        shell: whose input transformation and compile flags are in force.
        notebook: name of the notebook.
    """

    def __init__(self, shell: Shell, notebook: str) -> None:
        self._shell = shell
        self._notebook = notebook
        # Two callables, because results are cached by callable.
        self._transforms = {True: partial(shell.transform), False: partial(shell.transform)}
        self._requested: set[str] = set()

    def analyse(self, source: str, lazy: Set[str]) -> Cell:
        """What can be told from a cell's text.

        IPython takes a line such as `ls x` for a magic unless `ls` is a variable, so names
        that are not loaded are given a stand-in meanwhile.

        Args:
            source: the text of the cell.
            lazy: names that exist and are not loaded.
        """
        flags = self._shell.compile_flags()
        first = _FIRST_WORD.match(source)
        if first is None or "\n" in source.strip():
            return analyse_cell(source, self._shell.transform, flags)
        name = first[1]
        if name not in lazy:
            known = name in self._shell.user_ns
            return analyse_cell(source, self._transforms[known], flags)
        self._shell.user_ns[name] = None
        try:
            return analyse_cell(source, self._transforms[True], flags)
        finally:
            del self._shell.user_ns[name]

    def hint(self, request: CellRequest, cell: Cell, ordinal: int) -> CellHint:
        """What helps to choose among records: where the cell stands, and its policy."""
        rerun = bool(request.cell_id) and request.cell_id in self._requested
        policy = cell.directive or request.policy
        return CellHint(self._notebook, request.cell_id, ordinal, policy, rerun)

    def note_requested(self, request: CellRequest) -> None:
        """A cell is asked for: when it is asked for again, it is run again."""
        self._requested.add(request.cell_id)
