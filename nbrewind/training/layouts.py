"""How the tensors of a state lie on ranks: as their placements say, or else as rules say.

A tensor without placements and without a rule is whole, on every rank that has it.
"""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from nbrewind.errors import CheckpointError, RuleError, UsageError
from nbrewind.training.boxes import Box, Piece
from nbrewind.training.fsdp1 import flat_box
from nbrewind.training.ranks import Ranks
from nbrewind.training.rules.compiling import compile_steps
from nbrewind.training.rules.inheriting import inherited
from nbrewind.training.rules.mappings import Mapping, Shape, Window
from nbrewind.training.rules.meshes import Mesh
from nbrewind.training.rules.placements import axes_of, mesh_of, steps_of
from nbrewind.training.rules.ruleset import Rules
from nbrewind.training.tensors import is_distributed, is_flat_shard, local, logical_shape

if TYPE_CHECKING:
    import torch


class Owner(NamedTuple):
    """The parameter or buffer that a tensor of a tree is, or is kept for by an optimizer.

    The tensor's name is the three joined.
    """

    prefix: str
    parameter: str
    suffix: str
    """Empty for the parameter itself."""


class Roles(NamedTuple):
    """What the tensors of a tree are, by name."""

    owners: Dictionary[str, Owner] = {}
    """Of those that belong to modules."""
    steady: frozenset[str] = frozenset()
    """Those that change in steps of optimizers only."""


class Layouts:
    """The layouts of one rank.

    Args:
        ranks: All ranks.
        rules: For tensors of modules that have no placements.
        mesh: Sizes of the mesh's axes by name, the last one varying fastest from rank to rank;
            needed with rules on several ranks.

    Raises:
        UsageError: the mesh has another number of ranks, or is missing.
        RuleError: the rules cannot be read.
    """

    def __init__(
        self,
        ranks: Ranks,
        rules: Rules | str | None = None,
        mesh: Dictionary[str, int] | None = None,
    ) -> None:
        self._ranks = ranks
        self.rules = Rules.parse(rules) if isinstance(rules, str) else rules
        if rules is not None and mesh is None and ranks.world > 1:
            raise UsageError(
                "rules need to know where ranks are: give a mesh, such as "
                f'mesh={{"dp": 1, "tp": {ranks.world}}}'
            )
        self.mesh = Mesh(mesh or {})
        if mesh is not None and self.mesh.size != ranks.world:
            raise UsageError(f"{self.mesh} has {self.mesh.size} ranks, but there are {ranks.world}")
        self._here = self.mesh.at(ranks.rank) if mesh is not None else {}

    def name(self, parameter: str) -> str:
        """What a parameter of this rank is called among all ranks' (experts are numbered anew)."""
        if self.rules is None:
            return parameter
        name = self.rules.logical_name(parameter, self.mesh, self._here)
        return parameter if self._is_alias(parameter) else name

    def _is_alias(self, parameter: str) -> bool:
        from nbrewind.training.rules.operations import Alias

        assert self.rules is not None
        return isinstance(self.rules.match(parameter).rule.operations[0], Alias)

    def saved(
        self, tensors: Dictionary[str, torch.Tensor], owners: Dictionary[str, Owner]
    ) -> dict[str, Mapping]:
        """What this rank has of every tensor; a collective call if there are rules.

        Args:
            tensors: By name.
            owners: Of those that belong to modules.

        Raises:
            CheckpointError: a tensor is a sum that was not computed yet.
            RuleError: a tensor has no rule or several, or its rule does not fit.
        """
        by_rule = self._by_rule(tensors, owners)
        here = {o.parameter: logical_shape(tensors[n]) for n, o in by_rule.items() if not o.suffix}
        shapes: dict[str, Shape] = {}
        if self.rules is not None:
            everyone = self._ranks.gather(here)
            # Of ranks without the parameter (other stages of a pipeline) nothing is asked.
            shapes = {
                parameter: self.rules.logical_shape(
                    parameter, self.mesh, [other.get(parameter, shape) for other in everyone]
                )
                for parameter, shape in here.items()
            }
        return self._mappings(tensors, by_rule, here, shapes)

    def loaded(
        self,
        tensors: Dictionary[str, torch.Tensor],
        owners: Dictionary[str, Owner],
        shapes: Dictionary[str, Shape],
    ) -> dict[str, Mapping]:
        """Which part of every tensor this rank wants; errors as of `saved`.

        Args:
            tensors: By name.
            owners: Of those that belong to modules.
            shapes: Of logical tensors, by name.
        """
        by_rule = self._by_rule(tensors, owners)
        here = {o.parameter: logical_shape(tensors[n]) for n, o in by_rule.items() if not o.suffix}
        logical = {
            owner.parameter: shapes[owner.prefix + self._target(owner.parameter)]
            for name, owner in by_rule.items()
            if not owner.suffix and owner.prefix + self._target(owner.parameter) in shapes
        }
        return self._mappings(tensors, by_rule, here, logical)

    def _target(self, parameter: str) -> str:
        assert self.rules is not None
        return self.rules.logical_name(parameter, self.mesh, self._here)

    def _by_rule(
        self, tensors: Dictionary[str, torch.Tensor], owners: Dictionary[str, Owner]
    ) -> dict[str, Owner]:
        if self.rules is None:
            return {}
        return {
            name: owners[name]
            for name, tensor in tensors.items()
            if name in owners and not is_distributed(tensor)
        }

    def _mappings(
        self,
        tensors: Dictionary[str, torch.Tensor],
        by_rule: Dictionary[str, Owner],
        here: Dictionary[str, Shape],
        shapes: Dictionary[str, Shape],
    ) -> dict[str, Mapping]:
        compiled = (
            self.rules.compile(self.mesh, self._here, shapes, here)
            if self.rules is not None and shapes
            else {}
        )
        found: dict[str, Mapping] = {}
        for name, tensor in tensors.items():
            owner = by_rule.get(name)
            mapping = compiled.get(owner.parameter) if owner else None
            if owner is None or mapping is None:
                found[name] = by_placement(tensor, name)
                continue
            logical = owner.prefix + mapping.name + owner.suffix
            found[name] = inherited(mapping, logical, logical_shape(tensor), self.mesh)
        return found


def is_compared(mapping: Mapping) -> bool:
    """Whether copies of a tensor are compared when they are saved: whoever has it has all."""
    return mapping.check


def by_placement(tensor: torch.Tensor, name: str) -> Mapping:
    """What this rank has of a tensor that no rule is for.

    Raises:
        CheckpointError: it is a sum that was not computed yet.
    """
    shard: Any = tensor
    shape = logical_shape(tensor)
    if not is_distributed(tensor) or 0 in shape:
        piece = Piece(Box.whole(shape), Box.whole(shape))
        whole = not is_distributed(tensor)
        return Mapping(
            name=name, shape=shape, local_shape=shape, windows=(Window((piece,)),), check=whole
        )
    if is_flat_shard(tensor):
        box = flat_box(shard)
        pieces = () if box is None else (Piece(Box.whole(box[1]), Box(*box)),)
        mine = tuple(local(tensor).size())
        return Mapping(name=name, shape=shape, local_shape=mine, windows=(Window(pieces),))
    from dataclasses import replace

    try:
        found = _placed(shard.device_mesh, tuple(shard.placements), shape)
    except RuleError as exc:
        raise CheckpointError(f"{name}: {exc}") from exc
    return replace(found, name=name)


@lru_cache(maxsize=100_000)
def _placed(mesh: Any, placements: tuple[Any, ...], shape: Shape) -> Mapping:
    """Of a distributed tensor; models have many alike."""
    coordinate = mesh.get_coordinate()
    if coordinate is None:  # this rank is not in the mesh
        return Mapping(name="", shape=shape, local_shape=(0,), windows=())
    axes = axes_of(mesh)
    where = dict(zip(axes, coordinate, strict=True))
    return compile_steps(steps_of(placements, axes), "", shape, mesh_of(mesh), where)
