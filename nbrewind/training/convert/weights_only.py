"""Loading files of `torch.save` without executing anything in them.

PyTorch's weights-only loader builds tensors and plain containers, and refuses everything else.
Frameworks put a few objects of their own beside the tensors; stand-ins without any code take
their places, so those frameworks need not be installed.
"""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from nbrewind.errors import CheckpointError


class StandIn:
    """What is left of an object whose class is not loaded: its attributes."""

    def __init__(self, *values: Any) -> None:
        self.values = values


def stand_in(path: str) -> tuple[type[StandIn], str]:
    """A class to be loaded in place of the one at `path`; it does nothing."""
    return type("StandIn", (StandIn,), {}), path


NAMESPACE = (argparse.Namespace, "argparse.Namespace")


def load(
    path: Path, known: Sequence[Any] = (), *, trusted: bool = False, mapped: bool = True
) -> Any:
    """What `torch.save` wrote; tensors are on the CPU.

    Args:
        path: The file.
        known: Further classes that may be made, as of `torch.serialization.safe_globals`.
        trusted: Load any object, which can execute anything.
        mapped: Leave elements in the file until they are used.

    Raises:
        CheckpointError: it cannot be read, is damaged, or has other objects.
    """
    try:
        with torch.serialization.safe_globals([*known]):
            return torch.load(
                path,
                map_location="cpu",
                mmap=mapped and _is_archive(path),
                weights_only=not trusted,
            )
    except pickle.UnpicklingError as exc:
        raise CheckpointError(_refused(path, exc)) from exc
    except OSError as exc:
        raise CheckpointError(f"cannot read {path}: {exc.strerror or exc}") from exc
    except Exception as exc:
        raise CheckpointError(
            f"{path} is damaged, or no file of torch.save: {_first_line(exc)}"
        ) from exc


def _is_archive(path: Path) -> bool:
    """Whether the file is of the format that can be mapped."""
    with open(path, "rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _refused(path: Path, exc: Exception) -> str:
    text = str(exc)
    for marker in ("Unsupported global: GLOBAL ", "Unsupported class "):
        if marker in text:
            name = text.split(marker, 1)[1].split()[0]
            return (
                f"{path} has an object of {name}, whose loading could execute code: it is loaded "
                "only if you say that you trust who wrote it"
            )
    return (
        f"{path} cannot be loaded without executing code in it, or is damaged: {_first_line(exc)}"
    )


def _first_line(exc: Exception) -> str:
    return str(exc).strip().split("\n")[0][:200] or type(exc).__name__
