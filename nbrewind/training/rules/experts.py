"""Experts of mixtures: which they are among all, and what they are saved as."""

from __future__ import annotations

from collections.abc import Mapping

from nbrewind.errors import RuleError
from nbrewind.training.rules.arranging import chunk
from nbrewind.training.rules.mappings import ExpertOf
from nbrewind.training.rules.meshes import Mesh
from nbrewind.training.rules.operations import Expert, Step
from nbrewind.training.rules.rule import Match


def expert(name: str, match: Match, mesh: Mesh, coordinates: Mapping[str, int]) -> ExpertOf | None:
    """Which experts a tensor of one rank is about; None if its rule tells of none."""
    for step in match.rule.steps:
        operation = step.operation
        if isinstance(operation, Expert):
            layer = match.places[operation.layer] if operation.layer else None
            if operation.dim is not None:
                return ExpertOf(layer, operation.dim, None)
            return ExpertOf(layer, None, _number(match, step, mesh, coordinates))
    return None


def logical_name(name: str, match: Match, mesh: Mesh, coordinates: Mapping[str, int]) -> str:
    """What a tensor of one rank is saved as: an expert gets its number among all.

    Raises:
        RuleError: the rank has no such expert.
    """
    for step in match.rule.steps:
        operation = step.operation
        if isinstance(operation, Expert) and operation.index is not None:
            number = _number(match, step, mesh, coordinates)
            start, end = match.rule.pattern.span(name, operation.index)
            return f"{name[:start]}{number}{name[end:]}"
    return name


def _number(match: Match, step: Step, mesh: Mesh, coordinates: Mapping[str, int]) -> int:
    operation = step.operation
    assert isinstance(operation, Expert)
    assert operation.index is not None
    assert operation.count is not None
    text = match.places[operation.index]
    if not (text.isascii() and text.isdigit()):
        raise RuleError(f"{text!r} is no number of an expert")
    index = mesh.index(step.axes, coordinates)
    first, own = chunk(operation.count, mesh.degree(step.axes), index)
    if int(text) >= own:
        raise RuleError(
            f"there is no expert {text} on this rank, which has {own} of {operation.count}"
        )
    return first + int(text)
