"""Writes the golden store of the current format: `python make_store.py DIRECTORY`.

Run once per format; the result is committed and never written again. Its signing
key is thrown away, only the public half stays, in `writer.key`. `contents.json` says
what a reader must find.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from array import array
from pathlib import Path

import msgspec

from nbrewind.model.blobs import LEAF_BYTES
from nbrewind.model.manifests import Manifest
from nbrewind.model.records import ExecutionRecord, Group, Variable, Writes
from nbrewind.model.refs import RefBody
from nbrewind.store import open_store, trust

LINEAGES = ("0" * 31 + "1", "0" * 31 + "2")


def blobs() -> dict[str, bytes]:
    """Contents that between them use every codec, and several leaves."""
    rng = random.Random(2024)
    return {
        "empty": b"",
        "small": b"x = 1\n",
        "noise": rng.randbytes(20_000),
        "text": b"the quick brown fox jumps over the lazy dog\n" * 2_000,
        "leaves": bytes(LEAF_BYTES) + b"\x01" * LEAF_BYTES + b"the end",
        "doubles": array("d", (1000 + i * 0.0625 + rng.random() for i in range(1500))).tobytes(),
        "regular": array("d", (i / 16 for i in range(30_000))).tobytes(),
        # Cut where the content says, from format 2 on.
        "stream": rng.randbytes(150_000) + bytes(300_000),
        "floats": array("f", (i * 0.37 for i in range(30_000))).tobytes(),
    }


def main(directory: Path) -> None:
    """Write store, public key and list of contents."""
    keys = tempfile.TemporaryDirectory()
    os.environ["NBREWIND_CONFIG_DIR"] = keys.name
    expected: dict[str, object] = {"blobs": {}, "objects": {}, "refs": []}
    with open_store(directory / "store") as store:
        for number, (name, content) in enumerate(blobs().items()):
            writer = store.begin()
            blob = (writer.put_stream if name == "stream" else writer.put_blob)(content)
            manifest = Manifest(
                names=(name,), stream=blob, buffers=(), readonly=(), codes={}, python="3.11"
            )
            stored = writer.put("manifest", msgspec.msgpack.encode(manifest))
            record = ExecutionRecord(
                source=f"{name} = make()",
                source_digest=f"source-{name}",
                ordinal=number,
                started=1.0e9 + number,
                writes=Writes(
                    groups=(Group({name: Variable("v" + blob.digest.hex()[:48])}, {}, stored),),
                    written=(name,),
                ),
            )
            oid = writer.put("record", msgspec.msgpack.encode(record))
            ref = writer.commit(
                RefBody(
                    lineage=LINEAGES[number % 2],
                    seq=0,
                    source_digest=record.source_digest,
                    record=oid,
                    notebook="golden.ipynb",
                    cell_id=f"cell-{number}",
                    ordinal=number,
                    created=1.0e9 + number,
                    writer="host:boot:1:uuid",
                )
            )
            expected["blobs"][name] = msgspec.to_builtins(  # type: ignore[index]
                {"size": blob.size, "digest": blob.digest.hex()}
            )
            expected["refs"].append(  # type: ignore[attr-defined]
                {
                    "lineage": ref.body.lineage,
                    "seq": ref.body.seq,
                    "source_digest": ref.body.source_digest,
                    "record": oid.hex(),
                    "manifest": stored.hex(),
                    "name": name,
                }
            )
        info = store.info()
        expected["objects"] = info.objects
        # An index segment is part of the format too.
        from nbrewind.store import catalog

        catalog.SEGMENT_PACKS = 1
        with open_store(directory / "store") as again:
            again.info()
    (directory / "writer.key").write_text(trust.own_key().hex() + "\n")
    (directory / "contents.json").write_text(json.dumps(expected, indent=1) + "\n")
    for name in ("tmp", "quarantine"):
        (directory / "store" / name).rmdir()
    # Git must keep what a store in use keeps from it.
    (directory / "store" / ".gitignore").unlink()
    keys.cleanup()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
