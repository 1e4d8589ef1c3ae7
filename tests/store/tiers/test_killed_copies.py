"""A copy to the next tier may be killed at any moment: what is seen there is whole."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from nbrewind.model.blobs import LEAF_BYTES, BlobRef
from nbrewind.store.opening import open_store
from nbrewind.store.tiers.promoter import Step
from nbrewind.testing.store_conformance import ref_body
from tests.store.programs import start

COPY = """
import sys
from nbrewind.store.tiers.promoter import Step
print("ready", flush=True)
Step(sys.argv[1], sys.argv[2]).run()
"""
ROUNDS = max(3, int(60 * float(os.environ.get("NBREWIND_LONG_SAMPLE", "1"))))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["directory", "bucket"])
def test_every_visible_ref_is_whole_after_any_kill(tmp_path: Path, bucket: str, kind: str) -> None:
    chance = random.Random(1)
    source = f"{tmp_path}/fast"
    target = bucket if kind == "bucket" else f"{tmp_path}/shared"
    blobs: dict[bytes, tuple[BlobRef, bytes]] = {}
    killed = 0
    for _ in range(ROUNDS):
        with open_store(source) as store:
            for _ in range(chance.randrange(1, 8)):
                content = chance.randbytes(chance.choice([100, LEAF_BYTES, 6 * LEAF_BYTES]))
                writer = store.begin()
                blob = writer.put_blob(content)
                record = writer.put("record", blob.digest)
                writer.commit(ref_body(record))
                blobs[record] = blob, content
        process = start(COPY, source, target)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0, 0.25))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        check_whole(target, blobs)
    step = Step(source, target)
    step.run()
    step.close()
    assert check_whole(target, blobs) == len(blobs)
    assert killed


def check_whole(place: str, blobs: dict[bytes, tuple[BlobRef, bytes]]) -> int:
    """Read everything that the refs of a store lead to; returns their number."""
    try:
        store = open_store(place, create=False, read_only=True)
    except Exception:
        return 0  # it was killed before there was a store
    with store:
        refs = store.refs()
        for ref in refs:
            blob, content = blobs[ref.body.record]
            assert store.get(ref.body.record) == blob.digest
            assert store.get_blob(blob) == content
    return len(refs)
