"""Programs that tests run as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

COMMIT_MANY = """
import os, sys
from nbrewind.store import open_store
from nbrewind.testing.store_conformance import ref_body

path, name, count, megabytes = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
store = open_store(path)
print("ready", flush=True)
for i in range(count):
    writer = store.begin()
    blob = writer.put_blob(os.urandom(int(megabytes * 1e6)))
    shared = writer.put_blob(b"the same for all" * 1000 + str(i).encode())
    content = b"".join([blob.digest, *blob.chunks])
    ref = writer.commit(ref_body(writer.put("record", content), source_digest=name))
    print(ref.body.seq, flush=True)
"""
"""Commits records that list the chunks of a blob; prints the number of each acknowledged one."""

MAKE_KEY = """
from nbrewind.store import trust
print(trust.own_key().hex())
"""

OPEN = """
import sys
from nbrewind.store import open_store
open_store(sys.argv[1])
"""


def start(program: str, *arguments: object, stdin: int | None = None) -> subprocess.Popen[str]:
    """Start a program; its output is a pipe."""
    paths = [str(ROOT / part) for part in ("", "kernels", "analysis", "packaging")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=stdin,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def finish(process: subprocess.Popen[str]) -> list[str]:
    """What a program printed, after it ended well."""
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return output.split()
