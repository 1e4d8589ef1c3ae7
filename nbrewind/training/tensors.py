"""Torch tensors as what checkpoints are made of: arrays of boxes of logical tensors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import torch

from nbrewind.errors import CheckpointError
from nbrewind.training.fsdp1 import flat_shard

if TYPE_CHECKING:
    import numpy.typing as npt

_CARRIERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Types of equal size that numpy knows, too."""
_KNOWN_TO_NUMPY = frozenset(
    {
        *(torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128),
        *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    }
)


def is_tensor(value: Any) -> TypeGuard[torch.Tensor]:
    """Whether a leaf of a state is a tensor."""
    return isinstance(value, torch.Tensor)


@cache
def dtype_name(dtype: torch.dtype) -> str:
    """`bfloat16` for `torch.bfloat16`."""
    return str(dtype).removeprefix("torch.")


def dtype_named(name: str) -> torch.dtype:
    """Raises `CheckpointError` if this torch has no such type."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise CheckpointError(f"torch {torch.__version__} has no tensors of type {name}")
    return found


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part of a distributed tensor; others as they are."""
    shard: Any = tensor
    if is_flat_shard(tensor):
        return flat_shard(shard)
    if is_distributed(tensor):
        part = shard.to_local()
        # A collective may still be under way.
        return part.wait() if hasattr(part, "wait") else part  # type: ignore[no-any-return]
    return tensor


def logical_shape(tensor: torch.Tensor) -> tuple[int, ...]:
    """The shape of the whole that a tensor is, or is a part of."""
    return tuple(tensor.size())


def columns(tensor: torch.Tensor) -> bool:
    """Whether ranks share it out along another dimension than the first."""
    placements: Any = getattr(tensor, "placements", ()) if is_distributed(tensor) else ()
    return any(placement.is_shard() and placement.dim > 0 for placement in placements)


def storable(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """The same elements, out of the graph and as they lie in memory.

    Raises:
        CheckpointError: it is sparse or quantized by torch's old types.
    """
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise CheckpointError(
            f"{name} is a tensor of layout {tensor.layout} and type {tensor.dtype}, which cannot "
            "be saved: save what it is made of"
        )
    tensor = tensor.detach()
    if tensor.is_conj():
        tensor = tensor.resolve_conj()
    return tensor.resolve_neg() if tensor.is_neg() else tensor


def array(tensor: torch.Tensor) -> npt.NDArray[Any]:
    """The elements of a local tensor in a type of the same size; shares memory on the CPU."""
    tensor = tensor.detach()
    if tensor.device.type != "cpu":
        tensor = tensor.cpu()
    if tensor.dtype not in _KNOWN_TO_NUMPY:  # `view` costs more than all the rest
        tensor = tensor.view(_CARRIERS[tensor.element_size()])
    return tensor.numpy()


def fill(target: torch.Tensor, values: npt.NDArray[Any], dtype: torch.dtype) -> None:
    """Copy values of a type into a tensor, on whatever device and of any type."""
    with torch.no_grad():
        source = torch.from_numpy(values).reshape(-1).view(dtype).reshape(target.shape)
        target.detach().copy_(source)


def empty_array(shape: Sequence[int], itemsize: int) -> npt.NDArray[Any]:
    """As `array` gives them, of any content."""
    kind: Any = np.complex128 if itemsize == 16 else f"i{itemsize}" if itemsize > 1 else np.uint8
    return np.empty(tuple(shape), kind)


def is_distributed(tensor: torch.Tensor) -> bool:
    """Whether a tensor is this rank's part of one that knows its layout."""
    if type(tensor) is torch.Tensor or type(tensor) is torch.nn.Parameter:
        return False
    from torch.distributed.tensor import DTensor

    return isinstance(tensor, DTensor) or is_flat_shard(tensor)


def is_flat_shard(tensor: torch.Tensor) -> bool:
    """Whether a tensor is one of `FullyShardedDataParallel`."""
    return type(tensor).__name__ == "ShardedTensor" and hasattr(tensor, "local_shards")
