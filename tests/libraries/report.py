"""The page about supported libraries, from the tables that the tests prove.

python -m tests.libraries.report > docs/reference/supported-libraries.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tests.libraries.case import Case, Library, load_all

_HEAD = """# Supported libraries

Written by `python -m tests.libraries.report` from the tables in `tests/libraries/cases`; do not
edit. A test makes an object of each class, uses it, changes it, and takes it out of the store in
another process with another hash seed.

- **After a restart**: *restored* from the store, equal, usable, and still one object where several
  names, containers or views share it; or *made again*: the cell that makes it runs when something
  needs the object itself. Outputs are right either way.
- **A change**: *noticed*, so that cells that depend on the object run again; *none* for what cannot
  be changed. Using a restored object without changing it is not taken for a change. Of what is made
  again, every cell that uses it counts as changing it.
- **Equal again**: when the cell that makes the object runs again and makes an equal one, cells that
  depend on it are *reused*, or *run*.

Classes that are not listed are pickled; if they cannot be, their cells run again. To add one, see
`tests/libraries/case.py`.
"""


def markdown() -> str:
    """The whole page."""
    libraries = load_all()
    classes = sum(len(library.cases) for library in libraries.values())
    parts = [_HEAD, f"\n{classes} classes of {len(libraries)} libraries.\n"]
    for library in libraries.values():
        parts += _section(library)
    return "".join(parts)


def _section(library: Library) -> Iterator[str]:
    yield f"\n## {library.title}\n\n"
    yield "| class | after a restart | a change | equal again |\n|---|---|---|---|\n"
    for case in library.cases:
        yield f"| {case.name} | {' | '.join(_row(case))} |\n"


def _row(case: Case) -> tuple[str, str, str]:
    kept = f"made again: {case.recomputed}" if case.recomputed else "restored"
    change = "noticed" if case.modify else "none"
    if case.fills:
        change += f"; reading it first counts as one: {case.fills}"
    if case.unseen:
        change = f"**not noticed**: {case.unseen}"
    equal = f"run: {case.varies}" if case.varies else "reused"
    return kept, change, "–" if case.recomputed else equal


if __name__ == "__main__":
    sys.stdout.write(markdown())
