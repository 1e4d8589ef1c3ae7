"""Files of `torch.save`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import torch

from nbrewind.training import trees
from nbrewind.training.convert.folders import new_file
from nbrewind.training.convert.sources import Source, loaded, logical
from nbrewind.training.convert.weights_only import load


def read_torch(path: Path, *, trusted: bool = False, known: Sequence[Any] = ()) -> Source:
    """What `torch.save` wrote; elements stay in the file until they are asked for.

    Args:
        path: The file.
        trusted: Load any object, which can execute anything.
        known: Further classes that may be made, as of `torch.serialization.safe_globals`.

    Raises:
        CheckpointError: it cannot be read, is damaged, or has objects of other classes.
    """
    return Source(logical(load(Path(path), known, trusted=trusted)), "torch")


def write_torch(source: Source, path: Path) -> list[str]:
    """Write all of a source, which has to fit into memory.

    Returns:
        Nothing is left out: an empty list.

    Raises:
        CheckpointError: parts of tensors are missing or damaged.
        StoreNotWritable: it cannot be written.
    """
    tree = trees.with_leaves(loaded(source.tree), _Alone(), torch.Tensor)
    with new_file(Path(path)) as part, open(part, "wb") as file:
        save(tree, file)
    return []


def save(value: Any, file: BinaryIO) -> None:
    """As `torch.save`, which says "unexpected pos" of a full disk.

    Raises:
        OSError: what the system said.
    """
    recording: Any = _Recording(file)
    try:
        torch.save(value, recording)
        file.flush()
    except Exception:
        if recording.failure is not None:
            raise recording.failure from None
        raise


class _Recording:
    """A file to write that remembers why it could not be."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.failure: OSError | None = None

    def write(self, content: Any) -> int:
        try:
            return self._file.write(content)
        except OSError as exc:
            self.failure = self.failure or exc
            raise

    def flush(self) -> None:
        self._file.flush()


class _Alone:
    """Views of larger memory, copied: torch would write all of that. What was tied stays tied."""

    def __init__(self) -> None:
        self._copies: dict[Any, tuple[torch.Tensor, torch.Tensor]] = {}

    def __call__(self, tensor: torch.Tensor, _: str) -> torch.Tensor:
        if tensor.untyped_storage().nbytes() <= tensor.numel() * tensor.itemsize:
            return tensor
        key = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        # The original is kept, or its address could be another's.
        return self._copies.setdefault(key, (tensor, tensor.clone()))[1]
