"""Rules and mappings of DTensors: their placements say how they lie on the mesh.

Placements are applied from the first dimension of the mesh to the last, as the operations of a
rule are. What they cannot say is what a dimension means: that it is of several tensors one
behind the other, or padded. That needs a rule, see `nbrewind.training.rules`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as Dictionary
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nbrewind.errors import RuleError
from nbrewind.training.rules.compiling import compile_steps
from nbrewind.training.rules.mappings import Mapping
from nbrewind.training.rules.meshes import Mesh
from nbrewind.training.rules.operations import Average, Interleave, Replicate, Shard, Step
from nbrewind.training.rules.patterns import Pattern, quoted
from nbrewind.training.rules.rule import Rule
from nbrewind.training.rules.ruleset import Rules

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Placement

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


def mesh_of(device_mesh: DeviceMesh) -> Mesh:
    """The mesh of ranks; dimensions without names are `dim_0`, `dim_1` and so on."""
    return Mesh(dict(zip(axes_of(device_mesh), device_mesh.shape, strict=True)))


def steps_of(placements: Sequence[Placement], axes: Sequence[str]) -> tuple[Step, ...]:
    """The operations that placements are.

    Args:
        placements: One for each axis.
        axes: Names of the mesh's dimensions.

    Raises:
        RuleError: ranks have summands, not parts; see `reduced`.
    """
    found = []
    averages = []
    for axis, placement in zip(axes, placements, strict=True):
        kind: Any = placement
        if placement.is_partial():
            if getattr(kind, "reduce_op", "") != "avg":
                raise RuleError(
                    f"along {axis} ranks have values that are still to be reduced, {placement}: "
                    "redistribute the tensor before it is saved"
                )
            averages.append(Step(Average(), (axis,)))
        elif hasattr(kind, "split_factor"):
            found.append(Step(Interleave(kind.dim, int(kind.split_factor)), (axis,)))
        elif hasattr(kind, "dim"):
            found.append(Step(Shard(kind.dim), (axis,)))
        elif not placement.is_replicate():
            raise RuleError(f"the placement {placement} along {axis} is not known")
    return (*found, *averages) or (Step(Replicate()),)


def mapping_of(tensor: DTensor, name: str) -> Mapping | None:
    """What this rank has of a DTensor; None if it is not in the tensor's mesh.

    Raises:
        RuleError: ranks have summands, not parts; or this rank's part has another shape than
            its placements say.
    """
    coordinate = tensor.device_mesh.get_coordinate()
    if coordinate is None:
        return None
    axes = axes_of(tensor.device_mesh)
    try:
        return compile_steps(
            steps_of(tensor.placements, axes),
            name,
            tuple(tensor.shape),
            mesh_of(tensor.device_mesh),
            dict(zip(axes, coordinate, strict=True)),
            local=tuple(tensor._local_tensor.shape),
        )
    except (RuleError, ValueError) as exc:
        raise RuleError(f"{name}: {exc}") from exc


def reduced(tensor: DTensor) -> DTensor:
    """The tensor with all sums over ranks computed: a collective, so all ranks call it."""
    from torch.distributed.tensor import Replicate as Copies

    placements = [Copies() if p.is_partial() else p for p in tensor.placements]
    return tensor.redistribute(placements=placements)


def inferred(tensors: Dictionary[str, Any]) -> Rules:
    """Rules for DTensors and others by their names, with one rule for like tensors of layers.

    Raises:
        RuleError: see `steps_of`.
    """
    steps = {}
    for name, tensor in tensors.items():
        try:
            steps[name] = _steps(tensor)
        except RuleError as exc:
            raise RuleError(f"{name}: {exc}") from exc
    alike: dict[str, list[str]] = {}
    for name in tensors:
        alike.setdefault(_NUMBER.sub("*", name), []).append(name)
    rules = []
    for general, names in alike.items():
        pattern = Pattern("*".join(map(quoted, general.split("*"))))
        one = len({steps[name] for name in names}) == 1
        literal = any(set("*{\\") & set(name) for name in names)
        if len(names) > 1 and one and not literal and _only(pattern, names, tensors):
            rules.append(Rule(pattern, steps[names[0]]))
        else:
            rules += [Rule(Pattern(quoted(name)), steps[name]) for name in names]
    return Rules(tuple(rules))


def _only(pattern: Pattern, names: Sequence[str], every: Dictionary[str, Any]) -> bool:
    return sum(pattern.match(name) is not None for name in every) == len(names)


def _steps(tensor: Any) -> tuple[Step, ...]:
    if hasattr(tensor, "placements"):
        return steps_of(tensor.placements, axes_of(tensor.device_mesh))
    return (Step(Replicate()),)


def axes_of(device_mesh: DeviceMesh) -> tuple[str, ...]:
    """Names of the mesh's dimensions; those without are `dim_0`, `dim_1` and so on."""
    names = device_mesh.mesh_dim_names
    return tuple(names) if names else tuple(f"dim_{n}" for n in range(device_mesh.ndim))
