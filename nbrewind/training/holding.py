"""What a rank has of a state: boxes of logical tensors, and the tree of everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass, field
from typing import Any

import torch

from nbrewind.errors import CheckpointError
from nbrewind.training import trees
from nbrewind.training.layouts import Layouts, Roles, is_compared
from nbrewind.training.planning import Held
from nbrewind.training.rules.mappings import Mapping
from nbrewind.training.tensors import columns, dtype_name, is_tensor, local, storable


@dataclass
class Live:
    """What this rank has, by position."""

    held: list[Held] = field(default_factory=list)
    tensors: list[torch.Tensor] = field(default_factory=list)
    """The boxes of `held`, in place or as copies; empty ones where no copy is needed."""
    values: bytes = b""
    pickled: bool = False


class State:
    """A tree that was taken apart.

    Args:
        tree: As of `states.collect`.
            roles: Tells what its tensors are; asked only if their layout is a new one.
        pickles: Pickle values that are not plain.

    Raises:
        CheckpointError: a value is not plain.
    """

    def __init__(
        self,
        tree: Dictionary[str, Any],
        roles: Callable[[Iterable[str]], Roles] | None = None,
        *,
        pickles: bool,
    ) -> None:
        self._tree, self._pickles = tree, pickles
        self.tensors, self.values, self.pickled = trees.encode(tree, is_tensor, pickles=pickles)
        self._roles = roles

    @property
    def roles(self) -> Roles:
        """What its tensors are."""
        return Roles() if self._roles is None else self._roles(self.tensors)

    def point(self, others: Dictionary[str, str]) -> None:
        """Have the tree say that tensors are saved under other names than their own."""
        if others:
            _, self.values, self.pickled = trees.encode(
                self._tree, is_tensor, pickles=self._pickles, others=others
            )

    @property
    def layout(self) -> list[tuple[Any, ...]]:
        """All that decides who saves what: where it is equal, nothing has to be agreed on."""
        return [
            (
                name,
                tensor.dtype,
                tensor.layout,
                tuple(tensor.size()),
                getattr(tensor, "placements", None),
                getattr(tensor, "device_mesh", None),
            )
            for name, tensor in self.tensors.items()
        ]


class Holding:
    """Where the boxes of a state of some layout are; worked out once. A collective call.

    Args:
        state: A state of that layout.
        layouts: How tensors lie.

    Raises:
        CheckpointError, RuleError: a tensor lies in a way that cannot be saved.
    """

    def __init__(self, state: State, layouts: Layouts) -> None:
        roles = state.roles
        mappings = layouts.saved(state.tensors, roles.owners)
        self._mappings: dict[str, Mapping] = {}
        self._others = {n: mapping.name for n, mapping in mappings.items() if mapping.name != n}
        self.held: list[Held] = []
        self.steady: set[int] = set()
        """Positions of boxes that change in steps of optimizers only."""
        for name, mapping in mappings.items():
            if mapping.alias:
                continue  # saved under its other name
            if mapping.averaged:
                raise CheckpointError(
                    f"{name} is the mean over {', '.join(mapping.averaged)}: average it before it "
                    "is saved"
                )
            self._mappings[name] = mapping
            tensor = state.tensors[name]
            storable(local(tensor), name)
            for window in mapping.windows:
                if name in roles.steady:
                    self.steady.update(range(len(self.held), len(self.held) + len(window.pieces)))
                self.held += (
                    Held(
                        name=mapping.name,
                        dtype=dtype_name(tensor.dtype),
                        itemsize=tensor.dtype.itemsize,
                        shape=mapping.shape,
                        box=piece.whole,
                        columns=columns(tensor) or _cuts_columns(mapping, piece.whole.lengths),
                        whole=is_compared(mapping),
                        own=mapping.own,
                    )
                    for piece in window.pieces
                )

    def look(self, state: State) -> Live:
        """The boxes of a state, in place."""
        state.point(self._others)
        live = Live(self.held, [], state.values, state.pickled)
        for name, mapping in self._mappings.items():
            mine = storable(local(state.tensors[name]), name)
            for window in mapping.windows:
                seen = window.view.of(mine)
                for piece in window.pieces:
                    all_of_it = piece.local.lengths == tuple(seen.shape)
                    live.tensors.append(seen if all_of_it else seen[piece.local.index])
        return live


def _cuts_columns(mapping: Mapping, lengths: tuple[int, ...]) -> bool:
    return lengths[1:] != mapping.shape[1:]
