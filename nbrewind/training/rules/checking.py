"""Whether rules and names of tensors fit each other."""

from __future__ import annotations

from dataclasses import dataclass

from nbrewind.errors import RuleError
from nbrewind.training.rules.suggestions import suggestion

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Report:
    """What does not fit."""

    unmatched: tuple[str, ...]
    """Names that no rule is for."""
    ambiguous: tuple[tuple[str, tuple[str, ...]], ...]
    """Names that several rules are for, with their patterns."""
    unused: tuple[str, ...]
    """Patterns that are for no name."""
    names: tuple[str, ...] = ()
    """All names."""

    def __bool__(self) -> bool:
        """Whether everything fits."""
        return not (self.unmatched or self.ambiguous or self.unused)

    def problems(self) -> list[str]:
        """One line for each thing that does not fit."""
        return [
            *self._of_names(),
            *(f"no tensor for the rule {p}{suggestion(p, self.names)}" for p in self.unused),
        ]

    def raise_if_wrong(self) -> None:
        """Raise `RuleError` unless everything fits."""
        _raise(self.problems())

    def raise_for_names(self) -> None:
        """Raise `RuleError` unless each name has exactly one rule; rules may be for none.

        One rank of a pipeline does not have all tensors.
        """
        _raise(self._of_names())

    def _of_names(self) -> list[str]:
        return [
            *(f"no rule for {name}" for name in self.unmatched),
            *(
                f"{len(patterns)} rules for {name}: {', '.join(patterns)}"
                for name, patterns in self.ambiguous
            ),
        ]


def _raise(problems: list[str]) -> None:
    if problems:
        more = len(problems) - _SHOWN
        tail = [f"and {more} more"] if more > 0 else []
        raise RuleError("\n".join([*problems[:_SHOWN], *tail]))
