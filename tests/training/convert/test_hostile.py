"""What others wrote executes nothing, leads nowhere else, and says what is wrong with it."""

from __future__ import annotations

import json
import os
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
import torch

from nbrewind.errors import CheckpointError
from nbrewind.training.convert import Source, open_source, write_dcp, write_safetensors
from nbrewind.training.convert.sources import logical


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


TREE = {"w": torch.arange(6.0).reshape(2, 3), "n": 3, "o": {"k": torch.ones(2)}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_dcp(Source(logical(TREE)), tmp_path / "dcp")
    return tmp_path / "dcp"


def read(folder: Path) -> None:
    for tensor in open_source(folder).tensors.values():
        tensor.read()


def edited(folder: Path, change: Any) -> None:
    path = folder / ".metadata"
    metadata = pickle.loads(path.read_bytes())
    change(metadata)
    path.write_bytes(pickle.dumps(metadata))


def test_a_crafted_file_of_torch_executes_nothing(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2), "x": Payload(tmp_path / "owned")}, tmp_path / "x.pt")
    with pytest.raises(CheckpointError, match=r"x.pt .*(mkdir|execut)"):
        open_source(tmp_path / "x.pt")
    assert not (tmp_path / "owned").exists()
    open_source(tmp_path / "x.pt", trusted=True)
    assert (tmp_path / "owned").exists()


def test_a_crafted_index_executes_nothing(folder: Path, tmp_path: Path) -> None:
    edited(folder, lambda metadata: setattr(metadata, "planner_data", Payload(tmp_path / "owned")))
    with pytest.raises(CheckpointError, match=r"\.metadata .*mkdir"):
        open_source(folder)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "call",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"cos\nsystem\n(S'true'\ntR.",
        b"ctorch.distributed.checkpoint.metadata\ndataclass\n.",
        b"ctorch.distributed.checkpoint.filesystem\nos\n.",
        b"\x80\x04\x8c\x05torch\x8c\x04load\x93.",
        b"\x80\x04\x8c\x05torch\x8c\x08hub.load\x93.",
    ],
)
def test_nothing_else_is_taken_from_a_module_that_is_needed(folder: Path, call: bytes) -> None:
    (folder / ".metadata").write_bytes(call)
    with pytest.raises(CheckpointError, match="it has an object of"):
        open_source(folder)


def test_a_crafted_value_of_a_folder_executes_nothing(folder: Path, tmp_path: Path) -> None:
    def replace(metadata: Any) -> None:
        torch.save(Payload(tmp_path / "owned"), folder / "evil")
        for index, place in metadata.storage_data.items():
            if index.fqn == "n":
                place.relative_path, place.offset = "evil", 0
                place.length = (folder / "evil").stat().st_size

    edited(folder, replace)
    with pytest.raises(CheckpointError, match=r"n in .* has objects whose loading could execute"):
        open_source(folder)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../secret", "", "..\\x"])
def test_an_index_that_leads_elsewhere_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_bytes(b"secret")

    def replace(metadata: Any) -> None:
        for place in metadata.storage_data.values():
            place.relative_path = name

    edited(folder, replace)
    with pytest.raises(CheckpointError, match="which is not in that folder"):
        read(folder)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"w": name}}))
    with pytest.raises(CheckpointError, match="which is not in that folder"):
        open_source(index)


@pytest.mark.parametrize("name", ["..", "../x", "/tmp", "", "a/b", "a\\b"])
def test_a_file_that_names_the_newest_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    for tracker, format in (("latest", "deepspeed"), ("latest_universal", "universal")):
        (tmp_path / tracker).write_text(name)
        with pytest.raises(CheckpointError, match="which is not in that folder"):
            open_source(tmp_path, format)
    (tmp_path / "latest_checkpointed_iteration.txt").write_text(name)
    with pytest.raises(CheckpointError, match="names no iteration"):
        open_source(tmp_path, "megatron")


def test_every_cut_of_a_file_of_safetensors_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_safetensors(Source(logical(TREE)), path)
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match=r"x\.safetensors"):
            open_source(path)
    path.write_bytes(content + b"x")
    with pytest.raises(CheckpointError, match="longer than its header says"):
        open_source(path)


def header(path: Path, entries: Any, size: int) -> None:
    encoded = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + bytes(size))


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ({"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, "has 8 bytes"),
        ({"w": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}, "w has no shape"),
        ({"w": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}, "w has no place"),
        ({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8.5]}}, "w has no place"),
        ({"w": {"dtype": "F9", "shape": [2], "data_offsets": [0, 8]}}, "of the type F9"),
        ({"w": {"dtype": [], "shape": [2], "data_offsets": [0, 8]}}, "of the type"),
        ({"w": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, "does not begin where"),
        ({"w": 3}, "w has no place"),
        ([], "it is no object"),
        (b"{", "is damaged"),
        (b"[" * 100_000, "is damaged"),
        (b'{"w": 1, "w": 2}', "appears twice"),
    ],
)
def test_a_damaged_header_is_told(tmp_path: Path, entries: Any, problem: str) -> None:
    header(tmp_path / "x.safetensors", entries, 8)
    with pytest.raises(CheckpointError, match=problem):
        open_source(tmp_path / "x.safetensors")


def test_a_cut_file_of_torch_is_told(tmp_path: Path) -> None:
    torch.save(TREE, tmp_path / "x.pt")
    content = (tmp_path / "x.pt").read_bytes()
    for length in (0, 3, 100, len(content) // 2, len(content) - 1):
        (tmp_path / "x.pt").write_bytes(content[:length])
        with pytest.raises(CheckpointError, match=r"x\.pt"):
            open_source(tmp_path / "x.pt")


def test_a_cut_or_missing_file_of_a_folder_is_told(folder: Path) -> None:
    (file,) = folder.glob("*.distcp")
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"is cut off|is damaged"):
        read(folder)
    file.unlink()
    with pytest.raises(CheckpointError, match="is missing"):
        read(folder)


def test_an_index_of_parts_that_leave_something_out_is_told(folder: Path) -> None:
    def drop(metadata: Any) -> None:
        metadata.state_dict_metadata["w"].chunks.clear()

    edited(folder, drop)
    with pytest.raises(CheckpointError, match="lacks a part of w"):
        open_source(folder)


def test_an_index_that_names_another_tensor_is_told(tmp_path: Path) -> None:
    write_safetensors(Source(logical(TREE)), tmp_path / "a.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"other": "a.safetensors"}}))
    with pytest.raises(CheckpointError, match="has no tensor other"):
        open_source(tmp_path)
