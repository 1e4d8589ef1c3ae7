"""Loading: a checkpoint into the objects of a training state, in whatever layout they are.

Tensors that exist are filled in place. Those an optimizer has not made yet are made in the
layout of their parameter. Nothing is changed before it is known that everything fits.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from nbrewind.errors import CheckpointError, TrustError
from nbrewind.model.checkpoints import Checkpoint, Fragment, SavedTensor
from nbrewind.store.abc import Store
from nbrewind.training import states, trees
from nbrewind.training.boxes import Piece
from nbrewind.training.reading import CheckpointReader, Wanted
from nbrewind.training.tensors import (
    array,
    dtype_name,
    dtype_named,
    empty_array,
    fill,
    is_tensor,
    local,
    logical_shape,
    pieces,
)


@dataclass(frozen=True)
class Loaded:
    """What was loaded."""

    run: str
    step: int
    save: str
    final: bool
    notes: dict[str, Any]
    values: dict[str, Any]
    """The entries of the state that are neither modules nor optimizers nor `Stateful`."""
    unused: tuple[str, ...]
    """Tensors of the checkpoint that the state has no place for."""


@dataclass
class _Fill:
    """Tensors that are going to be filled, and from what."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def load_into(
    store: Store,
    checkpoint: Checkpoint,
    state: Mapping[str, Any],
    *,
    rank: int = 0,
    world: int = 1,
    cast: bool = False,
    pickles: bool = False,
    trusted: bool = False,
) -> Loaded:
    """Restore a state.

    Args:
        store: Where the checkpoint is.
        checkpoint: Which one.
        state: As for `states.collect`, with objects as they are after construction.
        rank: This rank.
        world: Number of ranks now.
        cast: Convert tensors whose type differs from the saved one.
        pickles: Load pickled values, which can execute anything.
        trusted: The checkpoint was signed with a key that is trusted here.

    Raises:
        CheckpointError: something does not fit; the state is as it was.
        TrustError: pickles of an origin that is not trusted.
    """
    own_rank = rank % checkpoint.world
    reader = CheckpointReader(store, checkpoint, own_rank)
    if pickles and not trusted:
        raise TrustError(
            f"checkpoint {checkpoint.save[:8]} was signed with a key that is not trusted here: its "
            "pickled values were not loaded; see `nbrewind trust`"
        )
    tree = _tree(store, reader.fragments, own_rank, pickles)
    missing = [key for key in state if key not in tree]
    if missing:
        raise CheckpointError(
            f"checkpoint {checkpoint.save[:8]} of run {checkpoint.run} has no "
            f"{', '.join(missing)}; it has {', '.join(map(str, tree))}"
        )
    likes = dict(states.templates(state, tree))
    wanted = _Fill()
    live, _, _ = trees.encode(states.collect(state), is_tensor, pickles=True)
    _check_present(live, reader, state, wanted)
    filled = trees.with_leaves(
        {key: tree[key] for key in state},
        lambda leaf: _target(leaf, live, likes, reader, wanted, cast),
        _Saved,
    )
    if wanted.problems:
        raise CheckpointError(_listed(wanted.problems, checkpoint))
    _fill(reader, wanted.tensors)
    values = states.restore(state, filled)
    return Loaded(
        run=checkpoint.run,
        step=checkpoint.step,
        save=checkpoint.save,
        final=checkpoint.final,
        notes=checkpoint.notes,
        values=values,
        unused=tuple(sorted(set(reader.tensors) - set(wanted.tensors))),
    )


@dataclass(frozen=True)
class _Saved:
    """The place of a tensor in a tree."""

    name: str


def _tree(store: Store, fragments: Sequence[Fragment], own: int, pickles: bool) -> dict[str, Any]:
    """The plain values of all ranks; where they differ, those of this rank."""
    order = [fragments[own], *(each for each in fragments if each.rank != own)]
    tree: dict[str, Any] = {}
    seen: set[bytes] = set()
    for fragment in order:
        if fragment.values.digest in seen:
            continue
        seen.add(fragment.values.digest)
        content = bytes(store.get_blob(fragment.values))
        found = trees.decode(content, _Saved, pickles=pickles)
        if not isinstance(found, dict):
            raise CheckpointError("the values of a checkpoint are not a tree of names")
        trees.merge(tree, found)
    return tree


def _check_present(
    live: Mapping[str, torch.Tensor],
    reader: CheckpointReader,
    state: Mapping[str, Any],
    wanted: _Fill,
) -> None:
    """Tensors of modules must all be in the checkpoint; optimizers may not have begun."""
    modules = tuple(f"{key}." for key, value in state.items() if isinstance(value, torch.nn.Module))
    known = reader.tensors
    for name in live:
        if name not in known and name.startswith(modules):
            close = difflib.get_close_matches(name, known, 1)
            hint = f" (it has {close[0]})" if close else ""
            wanted.problems.append(f"{name} is not in it{hint}")


def _target(
    leaf: _Saved,
    live: Mapping[str, torch.Tensor],
    likes: Mapping[str, Any],
    reader: CheckpointReader,
    wanted: _Fill,
    cast: bool,
) -> torch.Tensor:
    name = leaf.name
    found = wanted.tensors.get(name)
    if found is not None:
        return found
    saved = reader.tensors.get(name)
    if saved is None:
        raise CheckpointError(f"the checkpoint names {name} and has nothing of it: it is damaged")
    tensor = live.get(name)
    if tensor is not None and _is_replaced(name, likes):
        tensor = _like_live(tensor, saved)
    if tensor is None:
        tensor = _made(name, saved, likes)
    if logical_shape(tensor) != saved.shape:
        wanted.problems.append(
            f"{name} is {saved.shape} in the checkpoint and {logical_shape(tensor)} here"
        )
    elif dtype_name(tensor.dtype) != saved.dtype and not cast:
        wanted.problems.append(
            f"{name} is {saved.dtype} in the checkpoint and {dtype_name(tensor.dtype)} here: ask "
            "for a cast if that is meant"
        )
    wanted.tensors[name] = tensor
    return tensor


def _is_replaced(name: str, likes: Mapping[str, Any]) -> bool:
    return any(name.startswith(prefix) for prefix in likes)


def _like_live(tensor: torch.Tensor, saved: SavedTensor) -> torch.Tensor | None:
    """Optimizer state that exists is made anew: a failed load must leave it as it was."""
    if logical_shape(tensor) != saved.shape or dtype_name(tensor.dtype) != saved.dtype:
        return None
    return torch.empty_like(tensor).detach()


def _made(name: str, saved: SavedTensor, likes: Mapping[str, Any]) -> torch.Tensor:
    dtype = dtype_named(saved.dtype)
    for prefix, (parameter, on_device) in likes.items():
        if name.startswith(prefix):
            return states.made_like(parameter, saved.shape, dtype, on_device=on_device)
    return torch.empty(saved.shape, dtype=dtype)


def _fill(reader: CheckpointReader, tensors: Mapping[str, torch.Tensor]) -> None:
    """Read everything that is wanted at once, into the tensors where that is possible."""
    wanted: list[Wanted] = []
    later: list[tuple[torch.Tensor, Piece, str, Any]] = []
    for name, tensor in tensors.items():
        mine = local(tensor)
        saved = reader.tensors[name]
        for piece in pieces(tensor):
            if mine.device.type == "cpu" and dtype_name(mine.dtype) == saved.dtype:
                target = array(mine)[piece.local.index]
            else:
                target = empty_array(piece.whole.lengths, saved.itemsize)
                later.append((mine, piece, saved.dtype, target))
            wanted.append(Wanted(name, piece.whole, target))
    reader.read(wanted)
    for mine, piece, dtype, target in later:
        fill(mine, piece, target, dtype_named(dtype))


def _listed(problems: Sequence[str], checkpoint: Checkpoint) -> str:
    shown = "\n  ".join(problems[:10])
    more = f"\n  and {len(problems) - 10} more" if len(problems) > 10 else ""
    return (
        f"checkpoint {checkpoint.save[:8]} (step {checkpoint.step}) does not fit; nothing was "
        f"loaded:\n  {shown}{more}"
    )
