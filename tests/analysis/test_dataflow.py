"""The dataflow graph follows what records read and wrote, not what cells look like."""

from __future__ import annotations

from nbrewind.model.records import ExecutionRecord, FileAccess, Reads, Writes
from nbrewind.model.versions import ABSENT
from nbrewind_analysis.dataflow import dataflow, dot, mermaid
from nbrewind_analysis.notebook_cell import NotebookCell


def record(
    source: str,
    reads: tuple[str, ...] = (),
    writes: tuple[str, ...] = (),
    deleted: tuple[str, ...] = (),
    absent: tuple[str, ...] = (),
    files: tuple[FileAccess, ...] = (),
) -> ExecutionRecord:
    versions = {**dict.fromkeys(reads, "v1"), **dict.fromkeys(absent, ABSENT)}
    return ExecutionRecord(
        source=source,
        source_digest="",
        reads=Reads(versions=versions),
        writes=Writes(written=writes, deleted=deleted),
        files=files,
    )


def graph(*records: ExecutionRecord | None) -> list[tuple[int, int, str]]:
    cells = [NotebookCell(at, "", r.source if r else "?") for at, r in enumerate(records)]
    known = {at: r for at, r in enumerate(records) if r is not None}
    return [(e.source, e.target, e.label) for e in dataflow(cells, known).edges]


def test_an_edge_goes_from_the_last_writer_to_a_later_reader() -> None:
    assert graph(
        record("x = 1", writes=("x",)),
        record("x = 2", writes=("x",)),
        record("y = x", reads=("x",), writes=("y",)),
        record("x, y", reads=("x", "y")),
    ) == [(1, 2, "x"), (1, 3, "x"), (2, 3, "y")]


def test_a_cell_that_mutates_is_between_writer_and_reader() -> None:
    assert graph(
        record("a = []", writes=("a",)),
        record("a.append(1)", reads=("a",), writes=("a",)),
        record("a", reads=("a",)),
    ) == [(0, 1, "a"), (1, 2, "a")]


def test_names_that_were_absent_or_deleted_make_no_edge() -> None:
    assert (
        graph(
            record("x = 1", writes=("x",)),
            record("del x", deleted=("x",)),
            record("max(1, 2)", reads=("x",), absent=("max",)),
        )
        == []
    )


def test_entities_are_parts_of_variables() -> None:
    assert graph(
        record("def f(): ...", writes=("f", "@f:1:0")), record("f()", reads=("f", "@f:1:0"))
    ) == [(0, 1, "f")]


def test_files_tie_cells_too() -> None:
    out = FileAccess(path="out.csv", write="v1")
    back = FileAccess(path="out.csv", read="v1")
    gone = FileAccess(path="none.csv", read=ABSENT)
    assert graph(record("save()", files=(out,)), record("load()", files=(back, gone))) == [
        (0, 1, "out.csv")
    ]


def test_cells_never_recorded_are_drawn_apart() -> None:
    cells = [NotebookCell(0, "", "x = 1"), NotebookCell(1, "", "x")]
    flow = dataflow(cells, {0: record("x = 1", writes=("x",))})
    assert "class c1 unrecorded" in mermaid(flow)
    assert 'c1 [label="1: x", style=dashed];' in dot(flow)


def test_many_names_are_counted() -> None:
    names = tuple("abcdefgh")
    assert graph(record("…", writes=names), record("…", reads=names)) == [
        (0, 1, "a, b, c, d, e, f, +2")
    ]


def test_markup_in_source_cannot_break_the_texts() -> None:
    source = 'print("<b>#\\n`x`") & 1'
    flow = dataflow([NotebookCell(0, "", source)], {})
    assert mermaid(flow).splitlines()[1] == (
        '    c0["0: print(#quot;#lt;b#gt;#35;\\n#96;x#96;#quot;) #amp; 1"]'
    )
    assert dot(flow).splitlines()[2] == (
        '    c0 [label="0: print(\\"<b>#\\\\n`x`\\") & 1", style=dashed];'
    )
