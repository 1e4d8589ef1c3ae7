"""The index of a folder of torch's distributed checkpoint (DCP), read without executing it.

`.metadata` is a pickle. Only the classes that DCP itself puts there are made, and nothing else
is called: what a crafted one could do is to describe tensors that are not there.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import Metadata

from nbrewind.errors import CheckpointError

_CHECKPOINT = "torch.distributed.checkpoint"
_CLASSES = {
    f"{_CHECKPOINT}.metadata": {
        "BytesStorageMetadata",
        "ChunkStorageMetadata",
        "Metadata",
        "MetadataIndex",
        "StorageMeta",
        "TensorProperties",
        "TensorStorageMetadata",
        "_MEM_FORMAT_ENCODING",
    },
    f"{_CHECKPOINT}.filesystem": {"_StorageInfo"},
    "torch": {"Size"},
    "torch.serialization": {"_get_layout"},
    "torch._utils": set(),
    "collections": {"OrderedDict"},
    "builtins": {"set", "frozenset"},
}
_PATHS = {"PosixPath", "PurePosixPath", "Path", "WindowsPath"}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name in _CLASSES.get(module, ()):
            return super().find_class(module, name)
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        if module.partition(".")[0] == "pathlib" and name in _PATHS:
            return _joined
        raise pickle.UnpicklingError(f"it has an object of {module}.{name}")


def _joined(*parts: str) -> str:
    """A path, as text: it only says where the checkpoint was."""
    return "/".join(map(str, parts))


def read_metadata(folder: Path) -> Metadata:
    """The index of a folder.

    Raises:
        CheckpointError: it is missing, damaged, or has objects that do not belong there.
    """
    path = folder / ".metadata"
    try:
        with open(path, "rb") as file:
            found = _Unpickler(file).load()
    except OSError as exc:
        raise CheckpointError(f"cannot read {path}: {exc.strerror}") from exc
    except Exception as exc:
        raise CheckpointError(
            f"{path} is damaged, or no index of a distributed checkpoint: {exc or type(exc)}"
        ) from exc
    if not isinstance(found, Metadata) or not isinstance(found.state_dict_metadata, dict):
        raise CheckpointError(f"{path} is no index of a distributed checkpoint")
    return found
