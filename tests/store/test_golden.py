"""Stores of every released format stay readable: they are read as they were written then."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nbrewind.model.manifests import Manifest
from nbrewind.model.records import ExecutionRecord
from nbrewind.store import LeafHasher, open_store, trust
from nbrewind.testing.store_conformance import commit

GOLDEN = Path(__file__).resolve().parents[1] / "data" / "golden"
FORMATS = sorted(path.name for path in GOLDEN.glob("store-format-*"))


@pytest.fixture(params=FORMATS)
def golden(request: pytest.FixtureRequest) -> Path:
    return GOLDEN / str(request.param)


def contents(golden: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((golden / "contents.json").read_text())
    return found


def test_every_object_and_ref_is_read(golden: Path) -> None:
    trust.trust_key((golden / "writer.key").read_text().strip(), "golden")
    expected = contents(golden)
    store = open_store(golden / "store", read_only=True)
    for entry in expected["refs"]:
        (ref,) = store.refs(entry["source_digest"])
        assert ref.trusted
        assert (ref.body.lineage, ref.body.seq) == (entry["lineage"], entry["seq"])
        assert ref.body.record.hex() == entry["record"]
        record = msgspec.msgpack.decode(store.get(ref.body.record), type=ExecutionRecord)
        assert record.source_digest == entry["source_digest"]
        (group,) = record.writes.groups
        assert group.manifest == bytes.fromhex(entry["manifest"])
        manifest = msgspec.msgpack.decode(store.get(group.manifest), type=Manifest)
        assert manifest.names == record.writes.written == (entry["name"],)
        content = store.get_blob(manifest.stream)
        wanted = expected["blobs"][entry["name"]]
        assert len(content) == wanted["size"]
        assert LeafHasher().digest(content).hex() == wanted["digest"]
    info = store.info()
    assert info.objects == expected["objects"]
    assert info.trusted_refs == info.refs == len(expected["refs"])
    assert info.damaged == ()


def test_it_is_untrusted_without_its_writers_key(golden: Path) -> None:
    store = open_store(golden / "store", read_only=True)
    assert {ref.trusted for ref in store.refs()} == {False}


def test_it_can_be_written_on(golden: Path, tmp_path: Path) -> None:
    shutil.copytree(golden / "store", tmp_path / "store")
    assert commit(open_store(tmp_path / "store"), b"new", lineage="f" * 32).body.seq == 0
    reader = open_store(tmp_path / "store")
    assert len(reader.refs()) == len(contents(golden)["refs"]) + 1
    assert reader.info().damaged == ()


def test_the_current_format_has_a_golden_store() -> None:
    from nbrewind.store.config import STORE_FORMAT

    assert f"store-format-{STORE_FORMAT}" in FORMATS
