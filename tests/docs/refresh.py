"""Write into the pages of the documentation what their commands print now.

    python tests/docs/refresh.py [PAGE...]

Outputs that still match are left as they are.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pages import PAGES, ROOT, Page, refreshed


def main(wanted: list[str]) -> int:
    """Refresh some pages, or all."""
    for path in [Path(name).resolve() for name in wanted] or PAGES:
        with tempfile.TemporaryDirectory(prefix="nbrewind-docs-") as scratch:
            differences = Page(path, Path(scratch)).run()
        if differences:
            text = path.read_text(encoding="utf-8")
            path.write_text(refreshed(text, differences), encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}: {len(differences)} outputs written\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
