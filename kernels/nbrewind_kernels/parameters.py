"""Parameters of a notebook, with papermill's conventions.

The cell tagged `parameters` holds defaults; the values given on the command
line go into a cell tagged `injected-parameters` right after it, or at the top
of a notebook that has none. A later run replaces that cell.
"""

from __future__ import annotations

import ast
import keyword
import math
from collections.abc import Iterable, Mapping
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from nbrewind.errors import UsageError
from nbrewind_kernels.notebooks import tags_of

DEFAULTS_TAG = "parameters"
INJECTED_TAG = "injected-parameters"


def parse_parameters(given: Iterable[str], raw: Iterable[str] = ()) -> dict[str, Any]:
    """Parse `NAME=VALUE` items; those in `raw` keep their value as a string.

    Raises:
        UsageError: an item is not of this form, or NAME cannot be assigned to.
    """
    values: dict[str, Any] = {}
    for option, items, parse in (("-p", given, parse_value), ("-r", raw, str)):
        for item in items:
            name, equals, text = item.partition("=")
            name = name.strip()
            if not equals:
                raise UsageError(f"{option} {item}: write it as NAME=VALUE")
            if not name.isidentifier() or keyword.iskeyword(name):
                raise UsageError(f"{option} {item}: {name!r} is not a name Python can assign to")
            values[name] = parse(text)
    return values


def parse_value(text: str) -> Any:
    """The value a person means: None, bool, int, float, a Python literal, else the text."""
    words = {"None": None, "null": None, "True": True, "true": True, "False": False, "false": False}
    if text in words:
        return words[text]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    if text[:1] in ("[", "{", "(", "'", '"'):
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return text
    return text


def inject(nb: NotebookNode, values: Mapping[str, Any]) -> None:
    """Put `values` into the notebook's injected cell; no values, no change."""
    if not values:
        return
    lines = ["# Parameters", *(f"{name} = {_literal(value)}" for name, value in values.items())]
    source = "\n".join(lines) + "\n"
    for cell in nb.cells:
        if cell.cell_type == "code" and INJECTED_TAG in tags_of(cell):
            cell.source = source
            return
    defaults = [at for at, cell in enumerate(nb.cells) if DEFAULTS_TAG in tags_of(cell)]
    cell = new_code_cell(source, metadata={"tags": [INJECTED_TAG]})
    if (nb.nbformat, nb.nbformat_minor) < (4, 5):
        del cell["id"]
    else:
        cell.id = _free_id(nb)
    nb.cells.insert(defaults[0] + 1 if defaults else 0, cell)


def _literal(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    return repr(value)


def _free_id(nb: NotebookNode) -> str:
    """An id that is the same in every run, so that results can be compared."""
    taken = {cell.get("id") for cell in nb.cells}
    name, number = INJECTED_TAG, 1
    while name in taken:
        number += 1
        name = f"{INJECTED_TAG}-{number}"
    return name
