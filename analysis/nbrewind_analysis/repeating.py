"""Which recorded cells may run once more, unseen, only to get a value back.

Others have to run in their places, while their values can still be had.
"""

from __future__ import annotations

import ast

from nbrewind.model.blobs import ObjectId
from nbrewind.model.records import ExecutionRecord
from nbrewind_analysis.book import RecordBook

NEVER_REPEATED = frozenset({"network", "subprocess", "external-write", "stdin", "threads"})
"""Flags of runs that are not repeated behind the user's back."""

_OWN_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def refusal(record: ExecutionRecord) -> str:
    """Why a cell is not run again unseen; empty if it may be."""
    refused = NEVER_REPEATED.intersection(record.flags)
    if refused:
        return ", ".join(sorted(refused))
    return "it awaits something" if awaits(record.source) else ""


def is_repeatable(record_id: ObjectId | None, book: RecordBook) -> bool:
    """Whether a recorded cell, and those whose values it needs, may run again unseen."""
    waiting, seen = [record_id], set[ObjectId]()
    while waiting:
        found = waiting.pop()
        record = book.get(found) if found else None
        if found is None or record is None or found in seen:
            continue
        seen.add(found)
        if refusal(record):
            return False
        reads = record.reads
        waiting += [p for name, p in reads.producers.items() if name not in reads.manifests]
    return True


def awaits(source: str) -> bool:
    """Whether a cell awaits something at its top level: it needs the kernel's event loop."""
    if "await" not in source and "async" not in source:
        return False
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return "await" in source  # a magic: what it does is not known
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
            return True
        if isinstance(node, ast.comprehension) and node.is_async:
            return True
        if not isinstance(node, _OWN_SCOPES):
            waiting += ast.iter_child_nodes(node)
    return False
