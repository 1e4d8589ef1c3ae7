"""A notebook's code cells as analysis sees them: no kernel, no file format."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NotebookCell:
    """One code cell."""

    index: int
    """Position among the code cells, from 0."""
    id: str
    """The notebook format's cell id; may be empty. A hint only."""
    source: str
    policy: str = "auto"
    """`never`, `always` or `auto`: when it may be reused."""

    @property
    def line(self) -> str:
        """The line that tells a reader which cell this is."""
        lines = [line.strip() for line in self.source.splitlines() if line.strip()]
        return next((ln for ln in lines if not ln.startswith("#")), lines[0] if lines else "")
