"""Writers and a collector as processes of their own, at work on one store at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from nbrewind.model.records import ExecutionRecord
from nbrewind.store import open_store
from nbrewind.store.check import check_store
from nbrewind.store.gc import collect

from .collecting import AT_ONCE
from .programs import ROOT, finish, start

LONG = float(os.environ.get("NBREWIND_LONG_SAMPLE", "1"))

WRITE = """
import random, sys
import msgspec
from nbrewind.model.records import ExecutionRecord
from nbrewind.store import open_store
from nbrewind.store.trash import move_ref_to_trash
from nbrewind.testing.store_conformance import ref_body

path, lineage, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
rng = random.Random(lineage)
store = open_store(path)
refs = []
for i in range(count):
    writer = store.begin()
    # Of few values, so that writers find each other's, live and condemned.
    value = random.Random(rng.randrange(6)).randbytes(300_000)
    blob = writer.put_blob(value)
    record = ExecutionRecord(source=f"{lineage} {i}", source_digest="s", outputs=blob)
    oid = writer.put("record", msgspec.msgpack.encode(record))
    ref = writer.commit(ref_body(oid, lineage=lineage, seq=i))
    refs.append(ref)
    if rng.random() < 0.6:  # pruned again: what only it needed is garbage
        gone = refs.pop(rng.randrange(len(refs)))
        move_ref_to_trash(path, lineage, gone.body.seq, 0)
    store.refresh()
print(*(ref.body.seq for ref in refs))
"""
"""Commits values, prunes most of them, and prints the numbers of the records that stay."""

COLLECT = """
import os, sys
from nbrewind.errors import StoreNotWritable
from nbrewind.store import open_store
from nbrewind.store.gc import Patience, collect

store = open_store(sys.argv[1])
rounds = purged = 0
while not os.path.exists(sys.argv[2]):
    found = collect(store, apply=True, patience=Patience(grace=0, trash=0))
    rounds, purged = rounds + 1, purged + found.purged
print(rounds, purged)
"""

STORE_SAME = """
import sys
import numpy as np
import msgspec
from nbrewind.model.records import ExecutionRecord
from nbrewind.store import open_store
from nbrewind.testing.store_conformance import ref_body

path, lineage, megabytes = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = open_store(path)
print("ready", flush=True)
sys.stdin.read()
writer = store.begin()
writer.put_blob(lineage.encode() * 1000)
value = np.random.default_rng(0).bytes(megabytes * 1_000_000)
blob = writer.put_blob(value)
record = ExecutionRecord(source=lineage, source_digest="s", outputs=blob)
writer.commit(ref_body(writer.put("record", msgspec.msgpack.encode(record)), lineage=lineage))
"""


@pytest.mark.parametrize("commits", [25, pytest.param(400, marks=pytest.mark.long)])
@pytest.mark.timeout(900)
def test_no_acknowledged_commit_is_lost_while_a_collector_runs(
    tmp_path: Path, commits: int
) -> None:
    commits = commits if commits < 100 else max(25, int(commits * LONG))
    path, stop = tmp_path / "store", tmp_path / "stop"
    open_store(path).close()
    collector = start(COLLECT, path, stop)
    lineages = [f"{number:032x}" for number in range(3)]
    writers = [start(WRITE, path, lineage, commits) for lineage in lineages]
    kept = {
        lineage: list(map(int, finish(w))) for lineage, w in zip(lineages, writers, strict=True)
    }
    stop.touch()
    rounds, _ = map(int, finish(collector))
    assert rounds > 1
    store = open_store(path)
    collect(store, apply=True, patience=AT_ONCE)
    found = {(ref.body.lineage, ref.body.seq): ref for ref in store.refs()}
    assert found.keys() == {(lineage, seq) for lineage in lineages for seq in kept[lineage]}
    for ref in found.values():
        record = msgspec.msgpack.decode(store.get(ref.body.record), type=ExecutionRecord)
        assert record.outputs is not None
        assert len(store.get_blob(record.outputs)) == 300_000
    assert check_store(store).sound


@pytest.mark.parametrize(
    ("processes", "megabytes"), [(3, 10), pytest.param(8, 200, marks=pytest.mark.long)]
)
@pytest.mark.timeout(900)
def test_what_processes_store_at_once_is_there_once_after_a_collection(
    tmp_path: Path, processes: int, megabytes: int
) -> None:
    path = tmp_path / "store"
    open_store(path).close()
    paths = [str(ROOT / part) for part in ("", "kernels", "analysis", "packaging")]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", STORE_SAME, str(path), f"{number:032x}", str(megabytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        for number in range(processes)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.close()
    for process in started:
        assert process.wait() == 0
        assert process.stdout is not None
        process.stdout.close()
    store = open_store(path)
    collect(store, apply=True, patience=AT_ONCE)
    assert store.info().bytes <= 1.15 * megabytes * 1e6
    assert len(store.refs()) == processes
    assert check_store(store).sound
