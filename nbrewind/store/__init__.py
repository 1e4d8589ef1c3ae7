"""The store: content-addressed, append-only, lock-free for its writers."""

from __future__ import annotations

from nbrewind.store.abc import Store, StoreWriter
from nbrewind.store.info import StoreInfo
from nbrewind.store.leaves import LeafHasher, blob_digest, object_id
from nbrewind.store.local import open_store

__all__ = [
    "LeafHasher",
    "Store",
    "StoreInfo",
    "StoreWriter",
    "blob_digest",
    "object_id",
    "open_store",
]
