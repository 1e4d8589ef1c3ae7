"""Rules for all tensors of a state: which is for which, and what they are compiled to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass, replace
from functools import cached_property

from nbrewind.errors import RuleError
from nbrewind.training.rules import compiling, experts
from nbrewind.training.rules.checking import Report
from nbrewind.training.rules.lines import line_starts
from nbrewind.training.rules.mappings import Mapping, Shape
from nbrewind.training.rules.meshes import Mesh
from nbrewind.training.rules.operations import Alias, Flat
from nbrewind.training.rules.patterns import OTHERWISE, filled
from nbrewind.training.rules.rule import Match, Rule


@dataclass(frozen=True)
class Rules:
    """Rules in order; a tensor has exactly one."""

    rules: tuple[Rule, ...]

    def __post_init__(self) -> None:
        """Raises `RuleError` if there are several rules for everything else."""
        if sum(rule.pattern.is_otherwise for rule in self.rules) > 1:
            raise RuleError(f"there are two rules for what no other rule is for: {OTHERWISE}")

    @classmethod
    def parse(cls, text: str) -> Rules:
        """Read the text form; see `docs/reference/mapping-rules.md`.

        Raises:
            RuleError: with line and column.
        """
        from nbrewind.training.rules.reading import parse

        return parse(text)

    def __str__(self) -> str:
        """The text form."""
        from nbrewind.training.rules.printing import printed

        return printed(self)

    def check(self, names: Iterable[str]) -> Report:
        """Which names have no rule or several, and which rules are for none."""
        found = {name: self._matching(name) for name in names}
        matched = {id(rule) for every in found.values() for rule in every}
        return Report(
            unmatched=tuple(name for name, every in found.items() if not every),
            ambiguous=tuple(
                (name, tuple(rule.pattern.text for rule in every))
                for name, every in found.items()
                if len(every) > 1
            ),
            unused=tuple(rule.pattern.text for rule in self.rules if id(rule) not in matched),
            names=tuple(found),
        )

    def limited_to(self, names: Iterable[str]) -> Rules:
        """Only the rules that are for something."""
        unused = {*self.check(names).unused}
        return Rules(tuple(rule for rule in self.rules if rule.pattern.text not in unused))

    def match(self, name: str) -> Match:
        """The rule of a tensor.

        Raises:
            RuleError: it has none or several.
        """
        every = self._matching(name)
        if len(every) != 1:
            self.check([name]).raise_for_names()
        places = every[0].pattern.match(name)
        assert places is not None
        return Match(every[0], places)

    def compile(
        self,
        mesh: Mesh,
        coordinates: Dictionary[str, int],
        shapes: Dictionary[str, Shape],
        local_shapes: Dictionary[str, Shape] | None = None,
    ) -> dict[str, Mapping]:
        """What one rank has of all its tensors.

        Args:
            mesh: All ranks.
            coordinates: Where the rank is: an index for each axis.
            shapes: Of the logical tensors, by the names the rank has for its tensors. With
                `flat(order=…)` these are all tensors of the line, not only those on the rank.
            local_shapes: Of the rank's tensors, as far as they are known: they are compared.

        Returns:
            Mappings by the names of `shapes`.

        Raises:
            RuleError: a tensor has no rule or several, or its rule does not fit; it is named.
        """
        self.check(shapes).raise_for_names()
        matches = {name: self.match(name) for name in shapes}
        lines = self._lines(matches, shapes)
        known = local_shapes or {}
        return {
            name: self._compiled(name, mesh, coordinates, shapes, known.get(name), lines)
            for name in shapes
        }

    def logical_shape(self, name: str, mesh: Mesh, shapes: Sequence[Shape]) -> Shape:
        """The shape of the logical tensor that ranks have parts of.

        Args:
            name: Of the tensor.
            mesh: All ranks.
            shapes: What each rank has, in the order of ranks; `[shape] * mesh.size` if all have
                the same.

        Raises:
            RuleError: it cannot be told, or no tensor gives these parts.
        """
        _, match = self._resolved(name)
        try:
            shape = compiling.logical_shape(match.rule.steps, mesh, shapes)
            for local, coordinates in zip(shapes, mesh.coordinates(), strict=True):
                compiling.compile_steps(
                    match.rule.steps, name, shape, mesh, coordinates, local=local
                )
        except (RuleError, ValueError) as exc:
            raise RuleError(_about(name, match.rule, exc)) from exc
        return shape

    def logical_name(self, name: str, mesh: Mesh, coordinates: Dictionary[str, int]) -> str:
        """What a tensor of one rank is saved as.

        Aliases are saved under the other name; experts that a rank numbers from 0 get their
        number among all.

        Raises:
            RuleError: there is no such expert.
        """
        name, match = self._resolved(name)
        return experts.logical_name(name, match, mesh, coordinates)

    def _matching(self, name: str) -> list[Rule]:
        found = [r for r in self._proper if r.pattern.match(name) is not None]
        return found or [r for r in self.rules if r.pattern.is_otherwise]

    @cached_property
    def _proper(self) -> list[Rule]:
        return [rule for rule in self.rules if not rule.pattern.is_otherwise]

    def _resolved(self, name: str) -> tuple[str, Match]:
        """The tensor that a name is an alias of, or itself, and its rule."""
        match = self.match(name)
        seen = [name]
        while isinstance(alias := match.rule.operations[0], Alias):
            seen.append(filled(alias.of, match.places))
            if seen[-1] in seen[:-1]:
                raise RuleError(f"aliases go round in a circle: {' -> '.join(seen)}")
            match = self.match(seen[-1])
        return seen[-1], match

    def _lines(
        self, matches: Dictionary[str, Match], shapes: Dictionary[str, Shape]
    ) -> dict[str, compiling.Line]:
        """Where tensors lie in the lines that several of them make."""
        members: dict[Rule, list[str]] = {}
        for name, match in matches.items():
            flat = match.rule.operations[-1]
            if isinstance(flat, Flat) and flat.order != "each":
                if len(match.rule.steps) > 1:
                    raise RuleError(
                        f"{match.rule.pattern.text}: flat with an order cannot follow other "
                        "operations: a line of parts of tensors has another length on each rank"
                    )
                members.setdefault(match.rule, []).append(name)
        found: dict[str, compiling.Line] = {}
        for rule, names in members.items():
            flat = rule.operations[-1]
            assert isinstance(flat, Flat)
            try:
                starts, total = line_starts(flat, names, shapes)
            except ValueError as exc:
                raise RuleError(f"{rule.pattern.text}: {exc}") from exc
            found |= {name: compiling.Line(start, total) for name, start in starts.items()}
        return found

    def _compiled(
        self,
        name: str,
        mesh: Mesh,
        coordinates: Dictionary[str, int],
        shapes: Dictionary[str, Shape],
        local: Shape | None,
        lines: Dictionary[str, compiling.Line],
    ) -> Mapping:
        origin, match = self._resolved(name)
        try:
            mapping = compiling.compile_steps(
                match.rule.steps,
                experts.logical_name(origin, match, mesh, coordinates),
                tuple(shapes[name]),
                mesh,
                coordinates,
                local=local,
                line=lines.get(origin),
            )
        except (RuleError, ValueError) as exc:
            raise RuleError(_about(name, match.rule, exc)) from exc
        expert = experts.expert(origin, match, mesh, coordinates)
        return replace(mapping, alias=origin != name, expert=expert)


def _about(name: str, rule: Rule, problem: Exception) -> str:
    return f"{name} (rule {rule.pattern.text}): {problem}"
