"""Folders of torch's distributed checkpoint (DCP), and Megatron's `torch_dist`, which are such."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorStorageMetadata,
)

from nbrewind.errors import CheckpointError
from nbrewind.training.boxes import Box
from nbrewind.training.convert.dcp_metadata import read_metadata
from nbrewind.training.convert.folders import inside
from nbrewind.training.convert.sources import (
    LogicalPart,
    LogicalTensor,
    Source,
    logical,
    rejoined,
)
from nbrewind.training.convert.weights_only import NAMESPACE, load

_COMMON = "common.pt"
"""What Megatron writes beside the tensors."""


def read_dcp(folder: Path, *, trusted: bool = False) -> Source:
    """A folder that `torch.distributed.checkpoint.save` wrote.

    Args:
        folder: Where `.metadata` is.
        trusted: Load values of any class, which can execute anything.

    Returns:
        Its nested state, as far as the folder says how it was nested. Values of Megatron's
        `common.pt` are in `notes`.

    Raises:
        CheckpointError: a file is missing, damaged, or not where it has to be.
    """
    folder = Path(folder)
    reader = _Reader(folder, read_metadata(folder), trusted)
    notes = {}
    if (folder / _COMMON).is_file():
        common = load(folder / _COMMON, [NAMESPACE], trusted=trusted)
        notes = {"common": common}
    return Source(reader.tree(), "dcp", notes)


class _Reader:
    def __init__(self, folder: Path, metadata: Metadata, trusted: bool) -> None:
        self._folder = folder
        self._metadata = metadata
        self._trusted = trusted
        if not isinstance(metadata.storage_data, dict):
            raise CheckpointError(f"{folder}/.metadata does not say where anything is")
        self._places: dict[str, dict[tuple[int, ...] | None, Any]] = {}
        for index, place in metadata.storage_data.items():
            if not isinstance(index, MetadataIndex):
                raise CheckpointError(f"{folder}/.metadata is damaged")
            offset = None if index.offset is None else tuple(index.offset)
            self._places.setdefault(index.fqn, {})[offset] = place

    def tree(self) -> Any:
        nested = self._metadata.planner_data
        paths = nested if isinstance(nested, dict) else {}
        root: dict[Any, Any] = {}
        for name, entry in self._metadata.state_dict_metadata.items():
            path = paths.get(name)
            keys = tuple(path) if isinstance(path, tuple) and path else (name,)
            _put(root, keys, self._value(name, entry), name)
        _make_lists(root)
        return root

    def _value(self, name: str, entry: Any) -> Any:
        if isinstance(entry, TensorStorageMetadata):
            return self._tensor(name, entry)
        if isinstance(entry, BytesStorageMetadata):
            content = self._read(name, self._place(name, None))
            return logical(self._loaded(name, content))
        raise CheckpointError(f"{self._folder}/.metadata is damaged: {name} is nothing known")

    def _tensor(self, name: str, entry: TensorStorageMetadata) -> LogicalTensor:
        shape = tuple(entry.size)
        dtype = entry.properties.dtype
        parts = []
        for chunk in entry.chunks:
            box = Box(tuple(chunk.offsets), tuple(chunk.sizes))
            if len(box.lengths) != len(box.offsets) or box not in Box.whole(shape):
                raise CheckpointError(f"{self._folder}/.metadata is damaged: a part of {name}")
            parts.append(self._part(name, box, dtype))
        try:
            return rejoined(shape, dtype, parts)
        except CheckpointError as exc:
            raise CheckpointError(f"{self._folder} lacks a part of {name}: {exc}") from exc

    def _part(self, name: str, box: Box, dtype: torch.dtype) -> LogicalPart:
        if box.size == 0:
            return LogicalPart(box, lambda: torch.empty(box.lengths, dtype=dtype))
        place = self._place(name, box.offsets)

        def read() -> torch.Tensor:
            found = self._loaded(name, self._read(name, place))
            if not isinstance(found, torch.Tensor):
                raise CheckpointError(f"{name} in {self._folder} is no tensor")
            return found.detach()

        return LogicalPart(box, read)

    def _place(self, name: str, offset: tuple[int, ...] | None) -> Any:
        found = self._places.get(name, {})
        place = found.get(offset)
        if place is None and len(found) == 1 and not any(offset or ()):
            (place,) = found.values()  # of the whole, named without an offset
        if place is None:
            raise CheckpointError(f"{self._folder}/.metadata does not say where {name} is")
        if transforms := getattr(place, "transform_descriptors", None):
            raise CheckpointError(
                f"{name} in {self._folder} was written through {transforms}: load it with torch "
                "and save it without extensions"
            )
        return place

    def _read(self, name: str, place: Any) -> bytes:
        path = inside(self._folder, str(place.relative_path))
        try:
            with open(path, "rb") as file:
                file.seek(place.offset)
                content = file.read(place.length)
        except (OSError, ValueError, TypeError) as exc:
            raise CheckpointError(f"cannot read {name} in {path}: {exc}") from exc
        if len(content) != place.length:
            raise CheckpointError(f"{path} is cut off: {name} is not all there")
        return content

    def _loaded(self, name: str, content: bytes) -> Any:
        try:
            with torch.serialization.safe_globals([NAMESPACE]):
                return torch.load(
                    io.BytesIO(content), map_location="cpu", weights_only=not self._trusted
                )
        except pickle.UnpicklingError as exc:
            raise CheckpointError(
                f"{name} in {self._folder} has objects whose loading could execute code: they are "
                f"loaded only if you say that you trust who wrote it ({str(exc).strip()[:120]})"
            ) from exc
        except Exception as exc:
            raise CheckpointError(f"{name} in {self._folder} is damaged: {exc}") from exc


class _Numbered(dict[Any, Any]):
    """A list whose members are not all there yet."""


def _put(root: dict[Any, Any], keys: Sequence[Any], value: Any, name: str) -> None:
    at: Any = root
    for key, following in zip(keys, [*keys[1:], None], strict=True):
        if following is None:
            if key in at:
                raise CheckpointError(f"two values of the index are called {name}")
            at[key] = value
        else:
            made = _Numbered() if isinstance(following, int) else {}
            at = at.setdefault(key, made)
            if not isinstance(at, dict):
                raise CheckpointError(f"the index puts {name} into a value")


def _make_lists(tree: dict[Any, Any]) -> None:
    """Dictionaries that stand for lists become lists."""
    for key, value in tree.items():
        if isinstance(value, dict):
            _make_lists(value)
        if isinstance(value, _Numbered):
            numbers = sorted(k for k in value if isinstance(k, int))
            if numbers == [*range(len(value))]:
                tree[key] = [value[number] for number in numbers]
            else:
                tree[key] = dict(value)
