"""Files of safetensors, single or sharded with an index, as Hugging Face has them.

Format: eight bytes with the length of a header, little-endian; the header in JSON, which has
type, shape and the first and last byte of each tensor; the tensors' bytes, without gaps. See
https://github.com/huggingface/safetensors#format.
"""

from __future__ import annotations

import json
import math
import struct
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from nbrewind.errors import CheckpointError
from nbrewind.training.boxes import Box
from nbrewind.training.convert.folders import inside, new_file, new_folder
from nbrewind.training.convert.sources import LogicalPart, LogicalTensor, Source

INDEX = "model.safetensors.index.json"
_MOST_HEADER = 100_000_000
_DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E8M0": getattr(torch, "float8_e8m0fnu", None),
    "I16": torch.int16,
    "U16": torch.uint16,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I32": torch.int32,
    "U32": torch.uint32,
    "F32": torch.float32,
    "C64": torch.complex64,
    "F64": torch.float64,
    "I64": torch.int64,
    "U64": torch.uint64,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items() if dtype is not None}


def read_safetensors(path: Path) -> Source:
    """A file, an index, or a folder with one of them.

    Raises:
        CheckpointError: a file is missing, damaged, or not where it has to be.
    """
    path = Path(path)
    if path.is_dir():
        path = _in_folder(path)
    if path.suffix == ".json":
        return _read_index(path)
    tensors, notes = _read_file(path)
    return Source(tensors, "safetensors", notes)


def _in_folder(folder: Path) -> Path:
    indexes = sorted(folder.glob("*.safetensors.index.json"))
    files = sorted(folder.glob("*.safetensors"))
    found = indexes or files
    if len(found) == 1:
        return found[0]
    if not found:
        raise CheckpointError(f"{folder} has no file of safetensors")
    names = ", ".join(path.name for path in found[:4])
    raise CheckpointError(f"{folder} has several files without an index, say which: {names}")


def _read_index(path: Path) -> Source:
    try:
        content = json.loads(path.read_bytes())
        places = content["weight_map"]
        if not all(isinstance(each, str) for pair in places.items() for each in pair):
            raise TypeError("weight_map")
    except OSError as exc:
        raise CheckpointError(f"cannot read {path}: {exc.strerror}") from exc
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise CheckpointError(f"{path} is no index of safetensors: {exc}") from exc
    files = {
        name: _read_file(inside(path.parent, name))[0] for name in dict.fromkeys(places.values())
    }
    tensors = {}
    for tensor, name in places.items():
        if tensor not in files[name]:
            raise CheckpointError(f"{path.parent / name} has no tensor {tensor}; {path} says so")
        tensors[tensor] = files[name][tensor]
    notes = content.get("metadata")
    return Source(tensors, "safetensors", notes if isinstance(notes, dict) else {})


def _read_file(path: Path) -> tuple[dict[str, LogicalTensor], dict[str, Any]]:
    try:
        size = path.stat().st_size
        with open(path, "rb") as file:
            header, start = _header(path, file, size)
    except OSError as exc:
        raise CheckpointError(f"cannot read {path}: {exc.strerror}") from exc
    notes = header.pop("__metadata__", {})
    tensors = {}
    expected = 0
    order = sorted(header, key=lambda name: _offsets(path, name, header[name]))
    for name in order:
        tensor, first, last = _tensor(path, name, header[name], start)
        if first != expected:
            raise CheckpointError(f"{path} is damaged: {name} does not begin where it has to")
        expected = last
        tensors[name] = tensor
    if start + expected != size:
        what = "cut off" if start + expected > size else "longer than its header says"
        raise CheckpointError(
            f"{path} is {what}: it has {size} bytes, its tensors end at {start + expected}"
        )
    return {name: tensors[name] for name in header}, notes if isinstance(notes, dict) else {}


def _header(path: Path, file: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    prefix = file.read(8)
    if len(prefix) < 8:
        raise CheckpointError(f"{path} is cut off: it has {size} bytes")
    (length,) = struct.unpack("<Q", prefix)
    if length > _MOST_HEADER:
        raise CheckpointError(f"{path} is no file of safetensors: its header is too long")
    if 8 + length > size:
        raise CheckpointError(f"{path} is cut off within its header, or no file of safetensors")
    try:
        header = json.loads(file.read(length), object_pairs_hook=_once)
    except (ValueError, RecursionError) as exc:
        raise CheckpointError(f"the header of {path} is damaged: {exc}") from exc
    if not isinstance(header, dict):
        raise CheckpointError(f"the header of {path} is damaged: it is no object")
    return header, 8 + length


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name appears twice")
    return found


def _offsets(path: Path, name: str, entry: Any) -> tuple[int, int]:
    try:
        first, last = entry["data_offsets"]
        if type(first) is int and type(last) is int and 0 <= first <= last:
            return first, last
    except (TypeError, KeyError, ValueError):
        pass
    raise CheckpointError(f"the header of {path} is damaged: {name} has no place")


def _tensor(path: Path, name: str, entry: Any, start: int) -> tuple[LogicalTensor, int, int]:
    first, last = _offsets(path, name, entry)
    kind, shape = entry.get("dtype"), entry.get("shape")
    dtype = _DTYPES.get(kind) if isinstance(kind, str) else None
    if dtype is None:
        raise CheckpointError(f"{name} in {path} is of the type {kind}, which is not known here")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise CheckpointError(f"the header of {path} is damaged: {name} has no shape")
    if math.prod(shape) * dtype.itemsize != last - first:
        raise CheckpointError(
            f"{path} is damaged: {name} has {last - first} bytes for the shape {shape} of {kind}"
        )
    size = tuple(shape)
    part = LogicalPart(Box.whole(size), lambda: _read(path, start + first, size, dtype))
    return LogicalTensor(size, dtype, (part,)), first, last


def _read(path: Path, start: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    length = math.prod(shape) * dtype.itemsize
    if not length:
        return torch.empty(shape, dtype=dtype)
    try:
        mapped = np.memmap(path, np.uint8, "r", start, (length,))
    except (OSError, ValueError) as exc:
        raise CheckpointError(f"cannot read {path}: {exc}") from exc
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "not writable": it is only read
        flat = torch.from_numpy(mapped)
    if start % dtype.itemsize:
        flat = flat.clone()
    return flat.view(dtype).reshape(shape)


def write_safetensors(source: Source, path: Path, *, most_bytes: int | None = None) -> list[str]:
    """Write the tensors of a source.

    Args:
        source: What to write; one tensor at a time is in memory.
        path: A file, or a folder for several files with an index, as Hugging Face's loaders
            expect them, if it does not end in `.safetensors`.
        most_bytes: Bytes of tensors in one file of a folder; 5 GB if None.

    Returns:
        Names of values that are no tensors: the format has no place for them.

    Raises:
        CheckpointError: a type of tensor that the format does not have; the folder is there.
        StoreNotWritable: it cannot be written.
    """
    path = Path(path)
    tensors = source.tensors
    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES:
            raise CheckpointError(f"{name} is {tensor.dtype}, which safetensors does not have")
        if name == "__metadata__":
            raise CheckpointError("safetensors has no tensors called __metadata__")
    if path.suffix == ".safetensors":
        with new_file(path) as part:
            _write_file(part, tensors)
    else:
        with new_folder(path) as folder:
            _write_folder(folder, tensors, most_bytes or 5 * 10**9)
    return [*source.values]


def _write_folder(folder: Path, tensors: Mapping[str, LogicalTensor], most_bytes: int) -> None:
    shards = [*_shards(tensors, most_bytes)]
    if len(shards) <= 1:
        _write_file(folder / "model.safetensors", tensors)
        return
    places: dict[str, str] = {}
    for number, names in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        _write_file(folder / file, {name: tensors[name] for name in names})
        places |= dict.fromkeys(names, file)
    total = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def _shards(tensors: Mapping[str, LogicalTensor], most_bytes: int) -> Iterator[list[str]]:
    shard: list[str] = []
    filled = 0
    for name, tensor in tensors.items():
        if shard and filled + tensor.nbytes > most_bytes:
            yield shard
            shard, filled = [], 0
        shard.append(name)
        filled += tensor.nbytes
    if shard:
        yield shard


def _write_file(path: Path, tensors: Mapping[str, LogicalTensor]) -> None:
    order = sorted(tensors, key=lambda name: -tensors[name].dtype.itemsize)  # all aligned
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name in order:
        tensor = tensors[name]
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": tensor.shape,
            "data_offsets": [at, at + tensor.nbytes],
        }
        at += tensor.nbytes
    encoded = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(encoded)) + encoded)
        for name in order:
            for block in _blocks(tensors[name]):
                file.write(block)


def _blocks(tensor: LogicalTensor) -> Iterable[memoryview]:
    elements = tensor.read().contiguous().reshape(-1)
    if elements.numel():
        octets: Any = elements.view(torch.uint8).numpy()
        yield memoryview(octets)
