"""Loading: a checkpoint into the objects of a training state, in whatever layout they are.

Tensors that exist are filled in place. Those an optimizer has not made yet are made in the
layout of their parameter. Nothing is changed before it is known that everything fits.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch

from nbrewind.errors import CheckpointError, TrustError
from nbrewind.model.checkpoints import Checkpoint, Fragment, SavedTensor
from nbrewind.store.abc import Store
from nbrewind.training import states, trees
from nbrewind.training.layouts import Layouts, by_placement
from nbrewind.training.ranks import OneRank
from nbrewind.training.reading import CheckpointReader, Wanted
from nbrewind.training.rules.mappings import Mapping as RankMapping
from nbrewind.training.tensors import (
    array,
    dtype_name,
    dtype_named,
    empty_array,
    fill,
    is_tensor,
    local,
)

_SMALL = 1024 * 1024
"""Bytes up to which a tensor that is each rank's own may go to other ranks."""


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
    stale: dict[str, int]
    """Tensors some of whose values are of an earlier step, with the earliest."""
    unused: tuple[str, ...]
    """Tensors of the checkpoint that the state has no place for."""


def load_into(
    store: Store,
    checkpoint: Checkpoint,
    state: Mapping[str, Any],
    *,
    layouts: Layouts | None = None,
    rank: int = 0,
    world: int = 1,
    cast: bool = False,
    strict: bool = False,
    pickles: bool = False,
    trusted: bool = False,
) -> Loaded:
    """Restore a state.

    Args:
        store: Where the checkpoint is.
        checkpoint: Which one.
        state: As for `states.collect`, with objects as they are after construction.
        layouts: How tensors lie on the ranks; as their placements say by default.
        rank: This rank.
        world: Number of ranks now.
        cast: Convert tensors whose type differs from the saved one.
        strict: Refuse a checkpoint in which some experts are older than the rest.
        pickles: Load pickled values, which can execute anything.
        trusted: The checkpoint was signed with a key that is trusted here.

    Raises:
        CheckpointError: something does not fit; the state is as it was.
        RuleError: a rule does not fit; the state is as it was.
        ObjectMissing, ObjectDamaged: a tile cannot be read; some tensors may be filled.
        TrustError: pickles of an origin that is not trusted.
    """
    if pickles and not trusted:
        raise TrustError(
            f"checkpoint {checkpoint.save[:8]} was signed with a key that is not trusted here: its "
            "pickled values were not loaded; see `nbrewind trust`"
        )
    own_rank = rank % checkpoint.world
    reader = CheckpointReader(store, checkpoint, own_rank)
    if strict and reader.stale:
        name, step = min(reader.stale.items(), key=lambda item: item[1])
        raise CheckpointError(
            f"checkpoint {checkpoint.save[:8]} of step {checkpoint.step} is a mixture: {name} and "
            f"{len(reader.stale) - 1} more are older, down to step {step}"
        )
    tree = _tree(store, reader.fragments, own_rank, pickles)
    missing = [key for key in state if key not in tree]
    if missing:
        raise CheckpointError(
            f"checkpoint {checkpoint.save[:8]} of run {checkpoint.run} has no "
            f"{', '.join(missing)}; it has {', '.join(map(str, tree))}"
        )
    layouts = layouts or Layouts(OneRank())
    filling = _Filling(reader, state, layouts, cast=cast)
    filled = {key: filling.entry(key, value, tree[key]) for key, value in state.items()}
    filling.check()
    if checkpoint.world != world:
        filling.check_no_rank_is_meant()
    filling.fill()
    return Loaded(
        run=checkpoint.run,
        step=checkpoint.step,
        save=checkpoint.save,
        final=checkpoint.final,
        notes=checkpoint.notes,
        values=states.restore(state, filled, layouts.name),
        stale=reader.stale,
        unused=filling.unused(),
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


class _Filling:
    """Finds, for every tensor that is wanted, what it is filled from."""

    def __init__(
        self,
        reader: CheckpointReader,
        state: Mapping[str, Any],
        layouts: Layouts,
        *,
        cast: bool,
    ) -> None:
        self._reader = reader
        self._cast = cast
        self._known = reader.tensors
        shapes = {name: tensor.shape for name, tensor in self._known.items()}
        tree = states.collect(state, layouts.name)
        self._live, _, _ = trees.encode(tree, is_tensor, pickles=True)
        self._templates = states.templates(state, layouts.name)
        owners = states.owners(state, self._live, layouts.name)
        self._mappings = layouts.loaded(self._live, owners, shapes)
        self._layouts = layouts
        self._wanted: dict[str, tuple[torch.Tensor, RankMapping]] = {}
        self._problems: list[str] = []

    def entry(self, key: str, value: Any, tree: Any) -> Any:
        """One entry of the tree, with tensors in the places of tensors; they are filled later."""
        if isinstance(value, torch.nn.Module):
            # What the module has counts: it may have less than all ranks together, or more.
            prefix = f"{key}."
            mine = {name for name in self._live if name.startswith(prefix)}
            saved = {trees.join((key, name)): leaf for name, leaf in tree.items()}
            for name in mine - saved.keys():
                self._want(name, self._live[name], self._mappings[name])
            tree = {
                name: leaf
                for name, leaf in tree.items()
                if not isinstance(leaf, _Saved) or trees.join((key, name)) in mine
            }
        return trees.with_leaves(tree, self._target, _Saved, (key,))

    def _target(self, leaf: _Saved, name: str) -> torch.Tensor:
        """The tensor that is to be filled from a leaf; `name` is that of its place here."""
        saved = self._known.get(leaf.name)
        if saved is None:
            raise CheckpointError(
                f"the checkpoint names {leaf.name} and has nothing of it: it is damaged"
            )
        if leaf.name.rstrip("'") == name:
            name = leaf.name  # there are several of that name
        tensor, mapping = self._live.get(name), self._mappings.get(name)
        prefix = next((p for p in self._prefixes(name) if p in self._templates), None)
        if prefix is not None:
            # What an optimizer keeps is made anew: a failed load must leave it as it was.
            tensor, mapping = self._made(self._templates[prefix], saved)
        elif tensor is None or mapping is None:
            tensor = torch.empty(saved.shape, dtype=dtype_named(saved.dtype))
            mapping = by_placement(tensor, leaf.name)
        if mapping.name == name != leaf.name:
            mapping = replace(mapping, name=leaf.name)
        self._want(name, tensor, mapping)
        return tensor

    @staticmethod
    def _prefixes(name: str) -> Iterator[str]:
        """What the name begins with, up to some dot; longest first."""
        while name:
            name = name.rpartition(".")[0]
            yield f"{name}."

    def _made(
        self, template: states.Template, saved: SavedTensor
    ) -> tuple[torch.Tensor, RankMapping]:
        of_parameter = self._mappings.get(template.name)
        dtype = dtype_named(saved.dtype)
        tensor = states.made_like(template, of_parameter, saved.shape, dtype)
        if of_parameter is not None and of_parameter.shape == saved.shape:
            return tensor, replace(of_parameter, name=saved.name, alias=False)
        return tensor, by_placement(tensor, saved.name)

    def _want(self, name: str, tensor: torch.Tensor, mapping: RankMapping) -> None:
        saved = self._known.get(mapping.name)
        if saved is None:
            close = difflib.get_close_matches(mapping.name, self._known, 1)
            hint = f" (it has {close[0]})" if close else ""
            self._problems.append(f"{mapping.name} is not in it{hint}")
            return
        if mapping.shape != saved.shape:
            self._problems.append(
                f"{name} is {saved.shape} in the checkpoint and {mapping.shape} here"
            )
        elif dtype_name(tensor.dtype) != saved.dtype and not self._cast:
            self._problems.append(
                f"{name} is {saved.dtype} in the checkpoint and {dtype_name(tensor.dtype)} here: "
                "ask for a cast if that is meant"
            )
        self._wanted[name] = tensor, mapping

    def check(self) -> None:
        """Raise what does not fit. Raises `CheckpointError`."""
        if self._problems:
            raise CheckpointError(_listed(self._problems, self._reader.checkpoint))

    def check_no_rank_is_meant(self) -> None:
        """Refuse tensors that each rank has for itself, which no other rank can take over.

        Small ones are let through, as statistics of normalisation are: ranks that are more or fewer
        take the value of the rank whose number is theirs, modulo the number of ranks then.
        """
        for name, (_, mapping) in self._wanted.items():
            saved = self._known[mapping.name]
            if (
                mapping.name in self._reader.differing
                and prod(saved.shape) * saved.itemsize > _SMALL
            ):
                self._problems.append(
                    f"{name} was different on each of {self._reader.checkpoint.world} ranks, which "
                    "are not the ranks of now: a rule has to say what parts of it they had"
                )
        self.check()

    def fill(self) -> None:
        """Read everything that is wanted at once, into the tensors where that is possible."""
        wanted: list[Wanted] = []
        later: list[tuple[torch.Tensor, str, Any]] = []
        for tensor, mapping in self._wanted.values():
            mine = local(tensor).detach()
            saved = self._known[mapping.name]
            for window in mapping.windows:
                seen = window.view.of(mine)
                for piece in window.pieces:
                    target = seen[piece.local.index]
                    if target.device.type == "cpu" and dtype_name(target.dtype) == saved.dtype:
                        memory = array(target)
                    else:
                        memory = empty_array(piece.whole.lengths, saved.itemsize)
                        later.append((target, saved.dtype, memory))
                    wanted.append(Wanted(mapping.name, piece.whole, memory))
        self._reader.read(wanted)
        for target, dtype, memory in later:
            fill(target, memory, dtype_named(dtype))
        with torch.no_grad():
            for tensor, mapping in self._wanted.values():
                mapping.fill(local(tensor).detach())

    def unused(self) -> tuple[str, ...]:
        """Tensors of the checkpoint that nothing wanted."""
        used = {mapping.name for _, mapping in self._wanted.values()}
        return tuple(sorted({*self._known} - used))


def _listed(problems: Sequence[str], checkpoint: Checkpoint) -> str:
    shown = "\n  ".join(problems[:10])
    more = f"\n  and {len(problems) - 10} more" if len(problems) > 10 else ""
    return (
        f"checkpoint {checkpoint.save[:8]} (step {checkpoint.step}) does not fit; nothing was "
        f"loaded:\n  {shown}{more}"
    )
