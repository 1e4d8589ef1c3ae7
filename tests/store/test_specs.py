"""The specifications in `docs/spec/` name every field of what they specify."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from nbrewind.model import manifests, records
from nbrewind.model.refs import RefBody
from nbrewind.store import packs
from nbrewind.store.config import DIRECTORIES, STORE_FORMAT

SPECS = Path(__file__).resolve().parents[2] / "docs" / "spec"

STRUCTS = [
    value
    for module in (records, manifests)
    for value in vars(module).values()
    if isinstance(value, type)
    and issubclass(value, msgspec.Struct)
    and value.__module__ == module.__name__
]


def terms(name: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", (SPECS / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_every_field_of_records_and_manifests_is_specified(struct: type[msgspec.Struct]) -> None:
    assert set(struct.__struct_fields__) <= terms("record-format.md")
    assert struct.__name__ in (SPECS / "record-format.md").read_text(encoding="utf-8")


def test_every_flag_is_specified() -> None:
    assert records.FLAGS.keys() <= terms("record-format.md")


def test_every_field_of_a_ref_is_specified() -> None:
    assert set(RefBody.__struct_fields__) <= terms("store-format.md")


def test_the_layout_and_its_sizes_are_specified() -> None:
    text = (SPECS / "store-format.md").read_text(encoding="utf-8")
    assert text.startswith(f"# Store format {STORE_FORMAT}\n")
    assert all(re.search(rf"^  {name}/", text, re.MULTILINE) for name in DIRECTORIES)
    assert f"**Record head**, {packs.HEAD.size} bytes" in text
    assert f"**Index entry**, {packs.ENTRY.size} bytes" in text
    assert f"header    {packs.HEADER.size}  " in text
    assert f"tail      {packs.TAIL.size}  " in text
