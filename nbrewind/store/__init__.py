"""The store: content-addressed, append-only, lock-free for its writers."""
