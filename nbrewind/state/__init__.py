"""From live objects to bytes and back, and what else a cell may change."""
