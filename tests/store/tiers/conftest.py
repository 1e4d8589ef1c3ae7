"""Chains of directories and of a bucket."""

from __future__ import annotations

from tests.store.remote.conftest import bucket, server

__all__ = ["bucket", "server"]
