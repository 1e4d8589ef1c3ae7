"""`FullyShardedDataParallel`, the predecessor of `fully_shard`: its shards are flat.

Only torch itself knows which part of a parameter is in a flat shard, so state is asked for and
handed back by its functions, in which every parameter is sharded by rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def is_fsdp1(module: torch.nn.Module) -> bool:
    """Whether parameters of a module are in flat shards."""
    from torch.distributed import is_available

    if not is_available():
        return False
    from torch.distributed.fsdp import FullyShardedDataParallel

    return any(isinstance(each, FullyShardedDataParallel) for each in module.modules())


def module_tree(module: torch.nn.Module) -> dict[str, Any]:
    """Tensors of a module by the names they have without wrappers: copies, or shards in place."""
    from torch.distributed.checkpoint.state_dict import get_model_state_dict

    return dict(get_model_state_dict(module))


def optimizer_tree(module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """State of an optimizer, as `states.collect` has it."""
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    found = get_optimizer_state_dict(module, optimizer)
    groups: Any = found["param_groups"]
    return {
        "state": found["state"],
        "groups": {
            number: {
                "params": dict.fromkeys(group["params"], True),
                "options": {key: value for key, value in group.items() if key != "params"},
            }
            for number, group in enumerate(groups)
        },
    }


def restore_module(module: torch.nn.Module, tree: Mapping[str, Any]) -> None:
    """Hand tensors back to a module."""
    from torch.distributed.checkpoint.state_dict import set_model_state_dict

    set_model_state_dict(module, dict(tree))


def restore_optimizer(
    module: torch.nn.Module, optimizer: torch.optim.Optimizer, tree: Mapping[str, Any]
) -> None:
    """Hand state back to an optimizer."""
    from torch.distributed.checkpoint.state_dict import set_optimizer_state_dict

    groups = [
        {"params": [*group["params"]], **group["options"]} for group in tree["groups"].values()
    ]
    state: Any = {"state": dict(tree["state"]), "param_groups": groups}
    set_optimizer_state_dict(module, optimizer, state)


def flat_shard(tensor: Any) -> torch.Tensor:
    """This rank's part of a tensor of FSDP1."""
    shards = tensor.local_shards()
    if not shards:
        return torch.empty(0, *tensor.size()[1:], dtype=tensor.dtype)
    found: torch.Tensor = shards[0].tensor
    return found


def flat_box(tensor: Any) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Offsets and lengths of this rank's part; None if it has none."""
    shards = tensor.local_shards()
    if not shards:
        return None
    metadata = shards[0].metadata
    return tuple(metadata.shard_offsets), tuple(metadata.shard_sizes)
