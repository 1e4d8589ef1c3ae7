"""Folders of DeepSpeed's universal checkpoint: `zero/PARAMETER/{fp32,exp_avg,…}.pt`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from nbrewind.errors import CheckpointError
from nbrewind.training.boxes import Box
from nbrewind.training.convert.deepspeed import KNOWN, step_folder
from nbrewind.training.convert.sources import LogicalPart, LogicalTensor, Source, logical
from nbrewind.training.convert.weights_only import load

_WEIGHTS = "fp32"


def read_universal(folder: Path, *, trusted: bool = False) -> Source:
    """What DeepSpeed's `ds_to_universal` wrote.

    Args:
        folder: The one with `zero` in it, or with a `latest_universal` or `latest` that names it.
        trusted: Load objects of any class, which can execute anything.

    Returns:
        `model`: weights by name; `optimizer`: what it keeps by parameter, and its groups.

    Raises:
        CheckpointError: a file is missing or damaged.
    """
    folder = Path(folder)
    named = folder / "latest_universal"
    folder = folder / _plain(named) if named.is_file() else step_folder(folder)
    zero = folder / "zero"
    if not zero.is_dir():
        raise CheckpointError(f"{folder} has no folder zero: it is no universal checkpoint")
    weights: dict[str, LogicalTensor] = {}
    state: dict[str, dict[str, Any]] = {}
    for path in sorted(zero.iterdir()):
        if not path.is_dir():
            continue
        if not (path / f"{_WEIGHTS}.pt").is_file():
            raise CheckpointError(f"{path} lacks {_WEIGHTS}.pt")
        for file in sorted(path.glob("*.pt")):
            value = _value(file, trusted)
            if file.stem == _WEIGHTS:
                weights[path.name] = value
            else:
                state.setdefault(path.name, {})[file.stem] = value
    tree = {"model": weights, "optimizer": {"state": state, "groups": {}}}
    return Source(tree, "universal", {"left out": _left_out(folder)})


def _plain(named: Path) -> str:
    name = named.read_text(encoding="utf-8", errors="replace").strip()
    if not name or name in (".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise CheckpointError(f"{named} names {name!r}, which is not in that folder")
    return name


def _value(path: Path, trusted: bool) -> Any:
    found = load(path, KNOWN, trusted=trusted)
    if isinstance(found, dict):
        found = found.get("param")
        if not isinstance(found, torch.Tensor):
            raise CheckpointError(f"{path} has no param")
    if not isinstance(found, torch.Tensor):
        return logical(found)
    shape, dtype = tuple(found.shape), found.dtype

    def read() -> torch.Tensor:
        # Opened anew, so that a folder of many files needs few descriptors.
        again = load(path, KNOWN, trusted=trusted)
        tensor = again["param"] if isinstance(again, dict) else again
        return tensor.detach()  # type: ignore[no-any-return]

    return LogicalTensor(shape, dtype, (LogicalPart(Box.whole(shape), read),))


def _left_out(folder: Path) -> list[str]:
    """Files that hold the rest: buffers, schedulers, options."""
    return [path.name for path in sorted(folder.glob("*_states.pt"))]
