"""One rule: a pattern, and what was done to the tensors it is for."""

from __future__ import annotations

from dataclasses import dataclass

from nbrewind.training.rules.operations import Alias, Expert, Operation, Step, check_chain
from nbrewind.training.rules.patterns import Pattern, to_fill
from nbrewind.training.rules.suggestions import suggestion


@dataclass(frozen=True)
class Rule:
    """What was done to the tensors that a pattern is for, in order."""

    pattern: Pattern
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        """Raises `ValueError` for operations that do not fit each other or the pattern."""
        check_chain(self.steps)
        for step in self.steps:
            for place in _places_used(step.operation):
                if place not in self.pattern.places:
                    raise ValueError(
                        f"{step.operation.name} refers to {{{place}}}, which is not in the pattern"
                        + suggestion(place, self.pattern.places)
                    )

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Without the axes they are bound to."""
        return tuple(step.operation for step in self.steps)


@dataclass(frozen=True)
class Match:
    """The rule that a tensor has, and what the `{…}` of its pattern stand for."""

    rule: Rule
    places: dict[str, str]


def _places_used(operation: Operation) -> list[str]:
    if isinstance(operation, Alias):
        return to_fill(operation.of)
    if isinstance(operation, Expert):
        return [place for place in (operation.index, operation.layer) if place is not None]
    return []
