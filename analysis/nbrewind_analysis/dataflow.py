"""Which cell feeds which: the dataflow of a notebook, as its records saw it.

A node is a code cell, an edge a variable or file that one cell wrote last before
another read it. Cells that were never recorded are nodes without edges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nbrewind.model.records import ExecutionRecord, is_variable_name
from nbrewind.model.versions import ABSENT
from nbrewind_analysis.notebook_cell import NotebookCell

_LABEL_WIDTH = 40
_NAMES_SHOWN = 6


@dataclass(frozen=True)
class Edge:
    """What one cell hands to a later one."""

    source: int
    target: int
    names: tuple[str, ...] = ()
    """Variables, sorted."""
    files: tuple[str, ...] = ()
    """Paths, sorted."""

    @property
    def label(self) -> str:
        """The names, and how many more there are."""
        every = [*self.names, *self.files]
        more = len(every) - _NAMES_SHOWN
        return ", ".join(every[:_NAMES_SHOWN]) + (f", +{more}" if more > 0 else "")


@dataclass(frozen=True)
class Dataflow:
    """The graph of a notebook."""

    cells: Sequence[NotebookCell]
    edges: Sequence[Edge]
    recorded: frozenset[int] = field(default_factory=frozenset)
    """Indices of the cells that a record is known of."""


def dataflow(cells: Sequence[NotebookCell], records: Mapping[int, ExecutionRecord]) -> Dataflow:
    """Build the graph.

    Args:
        cells: code cells in order.
        records: the record of each cell, by its index; cells without one are left out.
    """
    names: dict[tuple[int, int], set[str]] = {}
    files: dict[tuple[int, int], set[str]] = {}
    wrote: dict[str, int] = {}
    filed: dict[str, int] = {}
    for cell in cells:
        record = records.get(cell.index)
        if record is None:
            continue
        # Entities (`@f:…`) are parts of variables: their names have edges of their own.
        for name, version in record.reads.versions.items():
            if name in wrote and version != ABSENT and is_variable_name(name):
                names.setdefault((wrote[name], cell.index), set()).add(name)
        for access in record.files:
            if access.read is not None and access.read != ABSENT and access.path in filed:
                files.setdefault((filed[access.path], cell.index), set()).add(access.path)
        for name in record.writes.deleted:
            wrote.pop(name, None)
        wrote.update(dict.fromkeys(record.writes.written, cell.index))
        filed.update({a.path: cell.index for a in record.files if a.write is not None})
    edges = [
        Edge(*ends, tuple(sorted(names.get(ends, ()))), tuple(sorted(files.get(ends, ()))))
        for ends in sorted(names.keys() | files.keys())
    ]
    return Dataflow(cells, edges, frozenset(records))


def mermaid(flow: Dataflow) -> str:
    """The graph as Mermaid text, which Markdown viewers draw."""
    lines = ["flowchart TD"]
    for cell in flow.cells:
        lines.append(f'    c{cell.index}["{_mermaid_text(_label(cell))}"]')
    for edge in flow.edges:
        lines.append(f'    c{edge.source} -- "{_mermaid_text(edge.label)}" --> c{edge.target}')
    unknown = [f"c{cell.index}" for cell in flow.cells if cell.index not in flow.recorded]
    if unknown:
        lines.append("    classDef unrecorded stroke-dasharray: 4 4")
        lines.append(f"    class {','.join(unknown)} unrecorded")
    return "\n".join(lines) + "\n"


def dot(flow: Dataflow) -> str:
    """The graph in Graphviz's language."""
    lines = ["digraph notebook {", "    node [shape=box, fontname=monospace];"]
    for cell in flow.cells:
        style = "" if cell.index in flow.recorded else ", style=dashed"
        lines.append(f'    c{cell.index} [label="{_dot_text(_label(cell))}"{style}];')
    for edge in flow.edges:
        lines.append(f'    c{edge.source} -> c{edge.target} [label="{_dot_text(edge.label)}"];')
    return "\n".join([*lines, "}"]) + "\n"


def _label(cell: NotebookCell) -> str:
    line = cell.line
    shown = line if len(line) <= _LABEL_WIDTH else line[: _LABEL_WIDTH - 1] + "…"
    return f"{cell.index}: {shown}"


def _mermaid_text(text: str) -> str:
    """Mermaid has entities instead of escapes; `#` starts one, markup is drawn as such."""
    codes = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;", "&": "#amp;"}
    return "".join(codes.get(char, char) for char in text)


def _dot_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
