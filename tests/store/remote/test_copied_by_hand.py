"""The files of a store make a store wherever they are copied to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nbrewind.model.refs import StoredRef
from nbrewind.store import open_store as open_directory
from nbrewind.store import trust
from nbrewind.store.opening import open_store
from nbrewind.store.remote.bucket import BucketFiles
from nbrewind.testing.store_conformance import commit

GOLDEN = Path(__file__).resolve().parents[2] / "data" / "golden"
FORMATS = sorted(path.name for path in GOLDEN.glob("store-format-*"))


def places(refs: list[StoredRef]) -> list[tuple[str, int]]:
    return [(ref.body.lineage, ref.body.seq) for ref in refs]


@pytest.mark.parametrize("name", FORMATS)
def test_stores_of_every_format_can_be_copied_to_a_bucket_and_back(
    bucket: str, tmp_path: Path, name: str
) -> None:
    trust.trust_key((GOLDEN / name / "writer.key").read_text().strip(), "golden")
    expected = json.loads((GOLDEN / name / "contents.json").read_text())
    original = GOLDEN / name / "store"
    files = BucketFiles(bucket)
    for path in original.rglob("*"):
        if path.is_file():
            files.write(str(path.relative_to(original)), path.read_bytes())
    with open_store(bucket) as store, open_directory(original, read_only=True) as directory:
        assert places(list(store.refs())) == places(list(directory.refs()))
        assert all(ref.trusted for ref in store.refs())
        for ref in store.refs():
            assert store.get(ref.body.record) == directory.get(ref.body.record)
        info = store.info()
        assert (info.objects, info.damaged) == (expected["objects"], ())
        added = commit(store, b"added to the bucket", lineage="f" * 32)
    for file, _ in files.names(""):
        copy = tmp_path / "copy" / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(files.read(file))
    with open_store(tmp_path / "copy") as store:
        assert store.get(added.body.record) == b"added to the bucket"
        assert store.info().objects["record"] == expected["objects"]["record"] + 1
        assert store.info().damaged == ()
