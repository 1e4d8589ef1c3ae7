"""What users name as their training state, as one tree of tensors and plain values, and back.

Modules and optimizers are taken by the names of parameters, so that neither a wrapper (DDP,
`torch.compile`) nor the order of parameters is part of what is saved. Optimizer state is put
back without a step being made: what an optimizer keeps is discovered, not listed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch

from nbrewind.errors import CheckpointError
from nbrewind.training import fsdp1
from nbrewind.training.fsdp1 import is_fsdp1
from nbrewind.training.layouts import Owner, Roles
from nbrewind.training.rules.mappings import Mapping as RankMapping
from nbrewind.training.tensors import is_tensor, local, logical_shape

_COMPILED = "_orig_mod."


Rename = Callable[[str], str]
"""What a parameter of this rank is called among all ranks'."""


def _same(name: str) -> str:
    return name


def collect(state: Mapping[str, Any], rename: Rename = _same) -> dict[str, Any]:
    """The tree of a state.

    Args:
        state: Modules, optimizers, objects with `state_dict` and `load_state_dict`, tensors,
            and nested containers of tensors and plain values, by name.
        rename: See `Layouts.name`.

    Returns:
        Nested containers; tensors are the live ones, not copies.
    """
    names = _Names(state, rename)
    return {key: _taken(value, names) for key, value in state.items()}


def _taken(value: Any, names: _Names) -> Any:
    if isinstance(value, torch.nn.Module):
        return _of_module(value, names.rename)
    if isinstance(value, torch.optim.Optimizer):
        return _of_optimizer(value, names)
    if is_tensor(value):
        return _inner(value)
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        return _opened(value.state_dict())
    return _opened(value)


def _opened(value: Any) -> Any:
    """Tensors that are made of others, as these."""
    if is_tensor(value):
        return _inner(value)
    if isinstance(value, torch.Size):
        return tuple(value)
    if type(value) is tuple:
        return tuple(map(_opened, value))
    if type(value) is list:
        return [*map(_opened, value)]
    if type(value) in (dict, OrderedDict):  # others are plain values, or refused by name
        return type(value)((k, _opened(v)) for k, v in value.items())
    return value


def _inner(tensor: torch.Tensor) -> Any:
    """The tensors that a quantized one or the like is made of; others as they are."""
    kind = type(tensor)
    if kind in (torch.Tensor, torch.nn.Parameter) or not hasattr(tensor, "__tensor_flatten__"):
        return tensor
    from torch.distributed.tensor import DTensor

    if isinstance(tensor, DTensor):
        return tensor
    parts, _ = tensor.__tensor_flatten__()
    return {name: _inner(getattr(tensor, name)) for name in parts}


def unwrapped(module: torch.nn.Module) -> torch.nn.Module:
    """The module in a wrapper that changes nothing but names."""
    while True:
        inner = getattr(module, "_orig_mod", None)
        if inner is None and isinstance(module, torch.nn.parallel.DistributedDataParallel):
            inner = module.module
        if not isinstance(inner, torch.nn.Module):
            return module
        module = inner


def _of_module(module: torch.nn.Module, rename: Rename) -> dict[str, Any]:
    if is_fsdp1(module):
        return fsdp1.module_tree(module)
    return {
        rename(name.replace(_COMPILED, "")): _opened(value)
        for name, value in unwrapped(module).state_dict(keep_vars=False).items()
    }


class _Names:
    """Names of parameters, across the modules of a state."""

    def __init__(self, state: Mapping[str, Any], rename: Rename = _same) -> None:
        self.rename = rename
        modules = {k: v for k, v in state.items() if isinstance(v, torch.nn.Module)}
        self._names: dict[int, str] = {}
        self.in_tree: dict[int, str] = {}
        self._flat = [module for module in modules.values() if is_fsdp1(module)]
        for key, module in modules.items():
            prefix = f"{key}." if len(modules) > 1 else ""
            for name, parameter in unwrapped(module).named_parameters():
                shown = rename(name.replace(_COMPILED, ""))
                self._names.setdefault(id(parameter), prefix + shown)
                self.in_tree.setdefault(id(parameter), f"{key}.{shown}")

    def flat_module(self, optimizer: torch.optim.Optimizer) -> torch.nn.Module | None:
        """The module of FSDP1 whose parameters an optimizer has."""
        mine = {id(p) for group in optimizer.param_groups for p in group["params"]}
        for module in self._flat:
            if any(id(p) in mine for p in module.parameters()):
                return module
        return None

    def of(self, optimizer: torch.optim.Optimizer) -> dict[int, str]:
        """A name for each parameter of an optimizer; those of no module are numbered."""
        every = [p for group in optimizer.param_groups for p in group["params"]]
        return {id(p): self._names.get(id(p), f"parameter {n}") for n, p in enumerate(every)}


def _of_optimizer(optimizer: torch.optim.Optimizer, names: _Names) -> dict[str, Any]:
    if (flat := names.flat_module(optimizer)) is not None:
        return fsdp1.optimizer_tree(flat, optimizer)
    name = names.of(optimizer)
    return {
        "state": {
            name[id(p)]: _opened(dict(optimizer.state[p]))
            for group in optimizer.param_groups
            for p in group["params"]
            if p in optimizer.state
        },
        "groups": {
            number: {
                # Keys, not a list: the groups of pipeline stages are put together by name.
                "params": dict.fromkeys((name[id(p)] for p in group["params"]), True),
                "options": {k: _opened(v) for k, v in group.items() if k != "params"},
            }
            for number, group in enumerate(optimizer.param_groups)
        },
    }


def owners(
    state: Mapping[str, Any], tensors: Iterable[str], rename: Rename = _same
) -> dict[str, Owner]:
    """Which parameters the tensors of a tree belong to, by the names this rank has for them.

    Args:
        state: As for `collect`.
        tensors: Names of tensors in its tree.
        rename: As for `collect`.
    """
    here: dict[str, dict[str, str]] = {}
    for key, module in state.items():
        if isinstance(module, torch.nn.Module) and not is_fsdp1(module):
            own = (name.replace(_COMPILED, "") for name in unwrapped(module).state_dict())
            here[f"{key}."] = {rename(name): name for name in own}
    optimizers = [
        f"{key}.state." for key, value in state.items() if isinstance(value, torch.optim.Optimizer)
    ]
    parameters: dict[str, str] = {}
    for prefix, known in here.items():
        shown = prefix if len(here) > 1 else ""
        parameters |= {shown + logical: name for logical, name in known.items()}
    found: dict[str, Owner] = {}
    for name in tensors:
        for prefix, known in here.items():
            rest = name.removeprefix(prefix)
            if rest != name and rest in known:
                found[name] = Owner(prefix, known[rest], "")
        for prefix in optimizers:
            rest = name.removeprefix(prefix)
            if rest == name:
                continue
            parameter = rest
            while parameter and parameter not in parameters:
                parameter = parameter.rpartition(".")[0]
            if parameter:
                suffix = rest.removeprefix(parameter)
                found[name] = Owner(prefix, parameters[parameter], suffix)
    return found


def roles(state: Mapping[str, Any], tensors: Iterable[str], rename: Rename = _same) -> Roles:
    """What the tensors of a tree are; arguments as of `owners`."""
    names = _Names(state, rename)
    steady: set[str] = set()
    kept: list[str] = []
    for key, optimizer in state.items():
        if isinstance(optimizer, torch.optim.Optimizer) and names.flat_module(optimizer) is None:
            kept.append(f"{key}.state.")
            every = (p for group in optimizer.param_groups for p in group["params"])
            steady.update(names.in_tree[id(p)] for p in every if id(p) in names.in_tree)
    tensors = [*tensors]
    steady.update(name for name in tensors if name.startswith(tuple(kept)))
    return Roles(owners(state, tensors, rename), frozenset(steady))


def restore(
    state: Mapping[str, Any], saved: Mapping[str, Any], rename: Rename = _same
) -> dict[str, Any]:
    """Put a tree back into the objects of a state.

    Tensors of modules were filled in place already; everything else is handed over here.

    Args:
        state: As for `collect`.
        saved: The tree; its tensors are filled.
        rename: As for `collect`.

    Returns:
        Those parts of `saved` that belong to plain entries of `state`.

    Raises:
        CheckpointError: an optimizer's groups do not fit.
    """
    names = _Names(state, rename)
    plain: dict[str, Any] = {}
    for key, value in state.items():
        tree = saved[key]
        if isinstance(value, torch.nn.Module) and is_fsdp1(value):
            fsdp1.restore_module(value, tree)
        elif isinstance(value, torch.nn.Module):
            _extra_into(value, tree)
        elif isinstance(value, torch.optim.Optimizer):
            _into_optimizer(value, tree, names, key)
        elif not is_tensor(value) and hasattr(value, "load_state_dict"):
            value.load_state_dict(tree)
        else:
            plain[key] = tree
    return plain


def _extra_into(module: torch.nn.Module, tree: Mapping[str, Any]) -> None:
    extra = {k: v for k, v in tree.items() if k.endswith("_extra_state")}
    if extra:
        unwrapped(module).load_state_dict(extra, strict=False)


def _into_optimizer(
    optimizer: torch.optim.Optimizer, tree: Mapping[str, Any], names: _Names, key: str
) -> None:
    if (flat := names.flat_module(optimizer)) is not None:
        fsdp1.restore_optimizer(flat, optimizer, tree)
        return
    name = names.of(optimizer)
    groups = tree["groups"]
    owner = {member: n for n, group in groups.items() for member in group["params"]}
    for number, group in enumerate(optimizer.param_groups):
        members = [name[id(p)] for p in group["params"]]
        found = {owner[member] for member in members if member in owner}
        if len(found) > 1 or (members and not found):
            missing = [member for member in members if member not in owner]
            raise CheckpointError(
                f"group {number} of {key} does not fit the checkpoint: "
                + (
                    f"{missing[0]} was not optimized"
                    if missing
                    else f"its parameters were in the groups {sorted(found)}"
                )
            )
        saved = groups.get(found.pop() if found else number)
        if saved is not None:
            group.update(saved["options"])
    for group in optimizer.param_groups:
        for p in group["params"]:
            state = tree["state"].get(name[id(p)])
            optimizer.state.pop(p, None)
            if state is not None:
                optimizer.state[p] = dict(state)


class Template(NamedTuple):
    """What the tensors that an optimizer keeps for a parameter are to be like."""

    parameter: torch.Tensor
    name: str
    """Of the parameter in the tree; empty if it is of no module of the state."""
    on_device: bool
    """Whether single numbers are kept on its device, too."""


def templates(state: Mapping[str, Any], rename: Rename = _same) -> dict[str, Template]:
    """By what the names of those tensors begin with; arguments as of `collect`."""
    names = _Names(state, rename)
    found: dict[str, Template] = {}
    for key, optimizer in state.items():
        if not isinstance(optimizer, torch.optim.Optimizer):
            continue
        if names.flat_module(optimizer) is not None:
            continue  # torch has made it, and it is a copy
        name = names.of(optimizer)
        for group in optimizer.param_groups:
            on_device = bool(group.get("capturable")) or bool(group.get("fused"))
            for p in group["params"]:
                shown = name[id(p)]
                template = Template(p, names.in_tree.get(id(p), ""), on_device)
                found[f"{key}.state.{shown}."] = template
    return found


def made_like(
    template: Template, mapping: RankMapping | None, shape: tuple[int, ...], dtype: torch.dtype
) -> torch.Tensor:
    """Memory for a tensor of an optimizer's state: in the layout of its parameter if it fits.

    Args:
        template: What it is to be like.
        mapping: Of the parameter.
        shape: Of the logical tensor.
        dtype: Of the result.
    """
    parameter = template.parameter
    whole = mapping.shape if mapping is not None else logical_shape(parameter)
    if shape == whole:
        return torch.empty_like(parameter, dtype=dtype, requires_grad=False).detach()
    moved = shape or template.on_device
    device = local(parameter).device if moved else torch.device("cpu")
    plain = torch.empty(shape, dtype=dtype, device=device)
    if shape and type(parameter) not in (torch.Tensor, torch.nn.Parameter):
        from torch.distributed.tensor import DTensor, Replicate

        if isinstance(parameter, DTensor):
            mesh = parameter.device_mesh
            return DTensor.from_local(plain, mesh, [Replicate()] * mesh.ndim, run_check=False)
    return plain
