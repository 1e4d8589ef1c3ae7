"""What optimizers keep for a parameter lies as the parameter does."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from nbrewind.errors import RuleError
from nbrewind.training.boxes import Box, Piece
from nbrewind.training.rules.mappings import Mapping, Shape, Window
from nbrewind.training.rules.meshes import Mesh


def inherited(mapping: Mapping, name: str, shape: Shape, mesh: Mesh) -> Mapping:
    """The mapping of a tensor that an optimizer keeps for a parameter.

    Args:
        mapping: Of the parameter.
        name: Of the logical tensor that it is saved as.
        shape: Of what the rank has.
        mesh: All ranks.

    Returns:
        The parameter's own if the shape is the same; all of it if it is a single number or
        the rank has all of the parameter.

    Raises:
        RuleError: it has another shape; it needs a rule of its own.
    """
    shape = tuple(shape)
    if shape == mapping.local_shape and (shape or not mapping.shape):
        return replace(mapping, name=name)
    if prod(shape) == 1 or mapping.local_shape == mapping.shape:
        whole = Box.whole(shape)
        return Mapping(
            name=name,
            shape=shape,
            local_shape=shape,
            windows=(Window((Piece(whole, whole),)),) if whole.size else (),
            copies=tuple(axis for axis, degree in mesh.degrees.items() if degree > 1),
        )
    raise RuleError(
        f"{name} has the shape {shape}, which is neither that of its parameter on this rank, "
        f"{mapping.local_shape}, nor a single number: it needs a rule of its own"
    )
