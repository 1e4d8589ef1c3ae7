"""Sources and targets: what is written in one format is read from it, and by its own readers."""

from __future__ import annotations

import json
import resource
import signal
import struct
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp

from nbrewind.errors import CheckpointError, RuleError, StoreNotWritable
from nbrewind.training.boxes import Box
from nbrewind.training.convert import (
    LogicalPart,
    LogicalTensor,
    Source,
    open_source,
    read_ranks,
    write_dcp,
    write_ranks,
    write_safetensors,
    write_torch,
)
from nbrewind.training.convert.sources import leaves
from nbrewind.training.rules import Mesh, Rules
from nbrewind.training.trees import join


def state() -> dict[str, Any]:
    torch.manual_seed(0)
    return {
        "model": {
            "a.w": torch.randn(5, 7).bfloat16(),
            "b": torch.arange(4),
            "empty": torch.empty(0, 3),
            "scale": torch.tensor(1.5),
            "flags": torch.tensor([True, False]),
            "half": torch.randn(3).half(),
            "f8": torch.randn(4).to(torch.float8_e4m3fn),
            "view": torch.arange(12.0).reshape(3, 4).t()[1:],
        },
        "optimizer": {
            "state": {"a.w": {"step": torch.tensor(3.0), "exp_avg": torch.randn(5, 7)}},
            "groups": [{"lr": 0.1, "betas": (0.9, 0.99), "params": ["a.w"]}],
        },
        "step": 3,
        "empty": [],
    }


def bits(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())


def assert_equal(source: Source, tree: Any) -> None:
    tensors = {join(k): v for k, v in leaves(tree) if isinstance(v, torch.Tensor)}
    assert {*source.tensors} == {*tensors}
    for name, tensor in source.tensors.items():
        found = tensor.read()
        assert (found.dtype, found.shape) == (tensors[name].dtype, tensors[name].shape)
        assert bits(found) == bits(tensors[name]), name


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "state.pt"
    torch.save(state(), path)
    return path


def test_from_one_format_to_the_next_and_back(saved: Path, tmp_path: Path) -> None:
    """torch.save -> DCP -> torch.save: types, shapes, values and containers are the same."""
    source = open_source(saved)
    assert_equal(source, state())
    assert write_dcp(source, tmp_path / "dcp") == []
    again = open_source(tmp_path / "dcp")
    assert again.format == "dcp"
    assert_equal(again, state())
    write_torch(again, tmp_path / "again.pt")
    back = torch.load(tmp_path / "again.pt")
    assert back["optimizer"]["groups"] == state()["optimizer"]["groups"]
    assert (back["step"], back["empty"]) == (3, [])
    assert bits(back["model"]["view"]) == bits(state()["model"]["view"])


def test_torch_loads_what_was_written_for_it(saved: Path, tmp_path: Path) -> None:
    write_dcp(open_source(saved), tmp_path / "dcp")
    found = {"model": {"a.w": torch.zeros(5, 7).bfloat16()}, "step": 0}
    with pytest.warns(UserWarning, match="single process"):
        dcp.load(found, checkpoint_id=str(tmp_path / "dcp"), no_dist=True)
    assert bits(found["model"]["a.w"]) == bits(state()["model"]["a.w"])  # type: ignore[index]
    assert found["step"] == 3


def test_what_torch_wrote_is_read(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="single process"):
        dcp.save(state(), checkpoint_id=str(tmp_path / "dcp"), no_dist=True)
    source = open_source(tmp_path / "dcp")
    assert_equal(source, state())
    assert source.part("optimizer").tree["groups"][0]["betas"] == (0.9, 0.99)


def test_safetensors_in_one_file_and_in_several(saved: Path, tmp_path: Path) -> None:
    model = open_source(saved).part("model")
    assert write_safetensors(model, tmp_path / "one.safetensors") == []
    assert_equal(open_source(tmp_path / "one.safetensors"), state()["model"])
    assert write_safetensors(open_source(saved), tmp_path / "all", most_bytes=64) == [
        "optimizer.groups.0.lr",
        "optimizer.groups.0.betas.0",
        "optimizer.groups.0.betas.1",
        "optimizer.groups.0.params.0",
        "step",
    ]
    files = sorted(path.name for path in (tmp_path / "all").glob("*.safetensors"))
    assert files[0] == f"model-00001-of-{len(files):05}.safetensors"
    assert len(files) > 2
    assert_equal(open_source(tmp_path / "all"), state())


def test_a_header_is_as_the_format_says(tmp_path: Path) -> None:
    write_safetensors(Source({"é": LogicalTensor.of(torch.ones(3))}), tmp_path / "x.safetensors")
    content = (tmp_path / "x.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    assert length % 8 == 0
    assert json.loads(content[8 : 8 + length])["é"] == {
        "dtype": "F32",
        "shape": [3],
        "data_offsets": [0, 12],
    }
    assert content[8 + length :] == np.ones(3, "<f4").tobytes()


def test_only_one_tensor_is_in_memory_at_a_time(tmp_path: Path) -> None:
    alive, most = 0, 0

    def gone() -> None:
        nonlocal alive
        alive -= 1

    def read() -> torch.Tensor:
        nonlocal alive, most
        elements = np.ones(4, np.float32)
        weakref.finalize(elements, gone)
        alive += 1
        most = max(most, alive)
        return torch.from_numpy(elements)

    part = LogicalPart(Box.whole((4,)), read)
    source = Source({str(n): LogicalTensor((4,), torch.float32, (part,)) for n in range(20)})
    write_safetensors(source, tmp_path / "x.safetensors")
    write_dcp(source, tmp_path / "dcp")
    assert (alive, most) == (0, 2)


def test_parts_that_leave_something_out_are_told(tmp_path: Path) -> None:
    part = LogicalPart(Box((0,), (2,)), lambda: torch.ones(2))
    source = Source({"w": LogicalTensor((3,), torch.float32, (part,))})
    for write in (write_safetensors, write_dcp, write_torch):
        with pytest.raises(CheckpointError, match="no part holds"):
            write(source, tmp_path / "x.safetensors")
    assert [*tmp_path.iterdir()] == []


def test_a_folder_that_is_there_is_not_written_into(saved: Path, tmp_path: Path) -> None:
    source = open_source(saved)
    write_dcp(source, tmp_path / "dcp")
    for write in (write_dcp, write_safetensors):
        with pytest.raises(CheckpointError, match="is there already"):
            write(source, tmp_path / "dcp")


def test_a_part_of_a_state(saved: Path) -> None:
    source = open_source(saved)
    assert [*source.part("optimizer", "state").tensors] == ["a.w.step", "a.w.exp_avg"]
    with pytest.raises(CheckpointError, match="no optim in the checkpoint: it has model, opt"):
        source.part("optim")


def test_files_of_ranks_by_rules_and_back(tmp_path: Path) -> None:
    text = """
        qkv  = fused(0, heads=[4, 2, 2]) @tp | shard(0) @dp
        out  = transpose | shard(0) @tp
        emb  = pad(0, logical=5, to=8) | shard(0) @tp
        otherwise = replicate
    """
    mesh, rules = Mesh({"dp": 2, "tp": 2}), Rules.parse(text)
    tree = {
        "qkv": torch.randn(16, 3),
        "out": torch.randn(3, 5),
        "emb": torch.randn(5, 2),
        "norm": torch.randn(4),
    }
    source = Source({name: LogicalTensor.of(tensor) for name, tensor in tree.items()})
    write_ranks(source, tmp_path / "ranks", rules, mesh)
    files = sorted((tmp_path / "ranks").iterdir())
    assert len(files) == 4
    assert torch.load(files[1])["emb"].tolist()[1:] == [[0, 0]] * 3
    found = read_ranks(files, rules, mesh)
    assert_equal(found, tree)
    with pytest.raises(CheckpointError, match="there are 3 ranks, the mesh has 4"):
        read_ranks(files[:3], rules, mesh)
    with pytest.raises(RuleError, match="no rule for qkv"):
        read_ranks(files, Rules.parse("out = replicate"), mesh)


def test_the_mean_of_ranks(tmp_path: Path) -> None:
    for rank in range(2):
        torch.save({"w": torch.full((2,), float(rank))}, tmp_path / f"{rank}.pt")
    files = sorted(tmp_path.glob("*.pt"))
    found = read_ranks(files, Rules.parse("w = average @dp"), Mesh({"dp": 2}))
    assert found.tensors["w"].read().tolist() == [0.5, 0.5]


def test_a_format_is_told_by_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(CheckpointError, match="of no format that is known"):
        open_source(tmp_path / "x")
    with pytest.raises(CheckpointError, match="there is nothing at"):
        open_source(tmp_path / "y")
    with pytest.raises(CheckpointError, match="no format safetensor; did you mean safetensors"):
        open_source(tmp_path / "x", "safetensor")


def test_a_small_view_is_written_alone_and_ties_stay(tmp_path: Path) -> None:
    large = torch.randn(1000, 100)
    small = large[1:3]
    torch.save({"a": small, "b": small, "c": large[1:3]}, tmp_path / "x.pt")
    source = open_source(tmp_path / "x.pt")
    write_torch(source, tmp_path / "y.pt")
    write_dcp(source, tmp_path / "dcp")
    write_safetensors(source, tmp_path / "z.safetensors")
    assert (tmp_path / "y.pt").stat().st_size < 5_000
    assert sum(path.stat().st_size for path in (tmp_path / "dcp").iterdir()) < 12_000
    found = torch.load(tmp_path / "y.pt")
    assert found["a"].data_ptr() == found["b"].data_ptr() == found["c"].data_ptr()
    assert torch.equal(found["a"], small)


def test_a_conjugate_is_written_as_what_it_is(tmp_path: Path) -> None:
    tensor = torch.randn(3, dtype=torch.complex64).conj()
    write_safetensors(Source({"w": LogicalTensor.of(tensor)}), tmp_path / "x.safetensors")
    assert torch.equal(open_source(tmp_path / "x.safetensors").tensors["w"].read(), tensor)


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ({"a": {"w": torch.eye(3).to_sparse()}}, r"a\.w: a tensor of torch.sparse_coo"),
        ({"w": torch.ones(2, dtype=torch.complex128)}, r"w is torch.complex128, which"),
        (torch.ones(3), "a tensor without a name"),
        ({"a.b": torch.ones(3), "a": {"b": torch.ones(2)}}, r"two tensors are called a\.b"),
        ({"__metadata__": torch.ones(3)}, "no tensors called __metadata__"),
    ],
)
def test_what_a_format_has_no_place_for_is_told(tmp_path: Path, state: Any, problem: str) -> None:
    torch.save(state, tmp_path / "x.pt")

    def convert() -> None:
        write_safetensors(open_source(tmp_path / "x.pt"), tmp_path / "x.safetensors")

    with pytest.raises(CheckpointError, match=problem):
        convert()
    assert not (tmp_path / "x.safetensors").exists()


def test_folders_of_dcp_hold_dictionaries(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="and the checkpoint is none"):
        write_dcp(Source([LogicalTensor.of(torch.ones(2))]), tmp_path / "dcp")


FORMATS_OF_FILES = {
    "safetensors": lambda source, path: write_safetensors(source, path),
    "one file": lambda source, path: write_safetensors(source, path.with_suffix(".safetensors")),
    "torch": write_torch,
    "dcp": write_dcp,
    "ranks": lambda source, path: write_ranks(
        source, path, Rules.parse("* = replicate"), Mesh({"dp": 2})
    ),
}


@pytest.mark.skipif(sys.platform != "linux", reason="limits of files are as on Linux")
@pytest.mark.parametrize("format", FORMATS_OF_FILES)
def test_a_disk_that_is_full_is_told_and_nothing_stays(tmp_path: Path, format: str) -> None:
    source = Source({"w": LogicalTensor.of(torch.randn(300, 300))})
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
    try:
        with pytest.raises(StoreNotWritable, match="cannot write"):
            FORMATS_OF_FILES[format](source, tmp_path / "x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert [*tmp_path.iterdir()] == []
