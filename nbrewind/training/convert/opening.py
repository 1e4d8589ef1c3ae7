"""Which format a path is of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nbrewind.errors import CheckpointError
from nbrewind.training.convert.dcp_reading import read_dcp
from nbrewind.training.convert.dcp_writing import write_dcp
from nbrewind.training.convert.deepspeed import read_deepspeed, step_folder
from nbrewind.training.convert.megatron import iteration_folder, read_megatron
from nbrewind.training.convert.safetensors import read_safetensors, write_safetensors
from nbrewind.training.convert.sources import Source
from nbrewind.training.convert.torch_files import read_torch, write_torch
from nbrewind.training.convert.universal import read_universal
from nbrewind.training.rules import Rules
from nbrewind.training.rules.suggestions import suggestion

FORMATS = ("safetensors", "torch", "dcp", "deepspeed", "universal", "megatron")
"""What can be read."""
TARGETS: dict[str, Callable[[Source, Path], list[str]]] = {
    "safetensors": write_safetensors,
    "torch": write_torch,
    "dcp": write_dcp,
}
"""What can be written; each returns the names of what its format has no place for."""


def open_source(
    path: Path, format: str | None = None, *, rules: Rules | None = None, trusted: bool = False
) -> Source:
    """A checkpoint of another format.

    Args:
        path: A file or folder.
        format: One of `FORMATS`; told by what is there if None.
        rules: How tensor parallelism divided tensors, where the format does not say it.
        trusted: Load objects of any class, which can execute anything.

    Raises:
        CheckpointError: no format is known, or a file is missing or damaged.
        RuleError: rules do not fit.
    """
    path = Path(path)
    format = format or detected(path)
    if format == "safetensors":
        return read_safetensors(path)
    if format == "torch":
        return read_torch(path, trusted=trusted)
    if format == "dcp":
        return read_dcp(iteration_folder(path), trusted=trusted)
    if format == "deepspeed":
        return read_deepspeed(path, rules=rules, trusted=trusted)
    if format == "universal":
        return read_universal(path, trusted=trusted)
    if format == "megatron":
        return read_megatron(path, rules=rules, trusted=trusted)
    raise CheckpointError(
        f"there is no format {format}{suggestion(format, FORMATS)}: there are {', '.join(FORMATS)}"
    )


def detected(path: Path) -> str:
    """The format of what is at a path.

    Raises:
        CheckpointError: it is of none that is known.
    """
    if path.is_file():
        name = path.name
        return "safetensors" if name.endswith((".safetensors", ".json")) else "torch"
    if not path.is_dir():
        raise CheckpointError(f"there is nothing at {path}")
    tests: list[tuple[str, Any]] = [
        ("dcp", lambda: (iteration_folder(path) / ".metadata").is_file()),
        ("safetensors", lambda: any(path.glob("*.safetensors"))),
        ("universal", lambda: (path / "latest_universal").is_file()),
        ("universal", lambda: (step_folder(path) / "zero").is_dir()),
        ("megatron", lambda: any(iteration_folder(path).glob("mp_rank_*/*.pt"))),
        ("deepspeed", lambda: any(step_folder(path).glob("*_model_states.pt"))),
    ]
    for format, test in tests:
        if test():
            return format
    raise CheckpointError(f"{path} is of no format that is known: there are {', '.join(FORMATS)}")
