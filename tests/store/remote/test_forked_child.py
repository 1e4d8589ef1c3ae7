"""A forked child has no part in a store in a bucket, and does not wait for it."""

from __future__ import annotations

import os
import signal

import pytest

from nbrewind.errors import ObjectUnreachable, StoreNotWritable, StoreUnreachable
from nbrewind.store.remote.store import open_bucket
from nbrewind.testing.store_conformance import commit


def test_a_forked_child_is_told_at_once(bucket: str) -> None:
    with open_bucket(bucket) as store:
        ref = commit(store, b"content")
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            try:
                with pytest.raises(ObjectUnreachable):
                    store.get(ref.body.record)
                with pytest.raises(StoreNotWritable):
                    store.begin()
                with pytest.raises(StoreUnreachable):
                    store.info()
                with pytest.raises(StoreUnreachable):
                    open_bucket(bucket)
                assert not store.has([ref.body.record])
                assert len(store.refs()) == 1
                store.settle()
                store.refresh()
                store.close()
            except BaseException:
                os._exit(1)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert store.get(ref.body.record) == b"content"
