"""The promoter outlives its session, and what is killed is done by the next."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nbrewind.cli.app import app
from nbrewind.store.opening import open_store
from nbrewind.store.remote.listing import FOLDER
from nbrewind.store.tiers.chain import open_files
from nbrewind.store.tiers.promoter import Step
from nbrewind.testing.store_conformance import commit
from tests.store.programs import start

SLOW_COPY = """
import sys, time
from nbrewind.store.remote.folder import FolderFiles
from nbrewind.store.tiers.promoter import Step
write = FolderFiles.write
def slow_write(self, name, content):
    print("writing", flush=True)
    write(self, name, content)
    time.sleep(0.2)
FolderFiles.write = slow_write
Step(sys.argv[1], sys.argv[2]).run()
"""


PROMOTER = """
import sys
from nbrewind.store.tiers.promoter import main
main(sys.argv[1:])
"""


def wait_for_refs(place: str, count: int) -> None:
    """Until so many refs are in a tier; the test's own time limit ends it otherwise."""
    files = open_files(place)
    while True:
        with contextlib.suppress(OSError):
            if len(list(files.names(FOLDER))) >= count:
                return
        time.sleep(0.05)


def test_a_session_is_copied_while_it_runs_and_after_it_ended(tmp_path: Path, bucket: str) -> None:
    chain = [f"{tmp_path}/fast", f"{tmp_path}/shared", bucket]
    with open_store(",".join(chain), flusher=contextlib.nullcontext) as store:
        commit(store, b"1")
        wait_for_refs(chain[1], 1)
        wait_for_refs(chain[2], 1)
        refs = [commit(store, b"%d" % i) for i in range(2, 5)]
    wait_for_refs(chain[2], 4)
    with open_store(bucket, read_only=True) as remote:
        assert {ref.body.seq for ref in remote.refs()} == {0, 1, 2, 3}
        assert all(remote.get(ref.body.record) for ref in refs)


def test_a_killed_copy_is_completed_by_the_next(tmp_path: Path) -> None:
    chain = f"{tmp_path}/fast", f"{tmp_path}/shared"
    with open_store(chain[0]) as store:
        refs = [commit(store, os.urandom(1000)) for _ in range(8)]
    process = start(SLOW_COPY, *chain)
    assert process.stdout is not None
    for _ in range(3):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not list(Path(chain[1]).glob("refs/*/*"))
    assert list(Path(chain[1]).glob("packs/*/*"))
    step = Step(*chain)
    done = step.run()
    step.close()
    assert done.refs == 8
    assert done.packs < 8
    with open_store(chain[1]) as shared:
        assert all(shared.get(ref.body.record) for ref in refs)
    assert not list(Path(chain[1], "tmp").iterdir())


def promote(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["store", "promote", *arguments])
    return result.exit_code, result.output


def test_promote_tells_what_it_copied(tmp_path: Path) -> None:
    chain = f"{tmp_path}/fast,{tmp_path}/shared"
    with open_store(f"{tmp_path}/fast") as store:
        commit(store, b"1")
    code, output = promote("--store", chain)
    assert code == 0
    assert "1 records" in output
    code, output = promote("--store", chain, "--json", "-")
    assert json.loads(output)["tiers"][0]["refs"] == 0
    info = CliRunner().invoke(app, ["store", "info", "--store", chain, "--json", "-"])
    found = json.loads(info.output)
    assert found["levels"] == {"shared": 1}
    assert [tier["refs"] for tier in found["tiers"]] == [1, 1]
    shown = CliRunner().invoke(app, ["store", "info", "--store", chain]).output
    assert f"{tmp_path}/shared (shared): 1 records" in shown


def test_promote_fails_when_a_tier_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with open_store(f"{tmp_path}/fast") as store:
        commit(store, b"1")
    code, output = promote("--store", f"{tmp_path}/fast,s3://bucket/x")
    assert code == 1
    assert "no answer" in output


def test_promote_needs_a_chain(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nbrewind", "store", "promote", "--store", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "single store" in done.stderr


def test_a_promoter_ends_when_there_is_nothing_left_to_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "none")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    process = subprocess.Popen(
        [sys.executable, "-c", PROMOTER, f"{tmp_path}/gone", "s3://bucket/x"],
        stdin=subprocess.DEVNULL,
    )
    assert process.wait() == 0
