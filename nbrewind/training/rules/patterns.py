"""Patterns over names of tensors: `layers.{layer}.attn.*.weight`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_PLACE = re.compile(r"[A-Za-z_]\w*")

_TO_FILL = re.compile(r"\{([A-Za-z_]\w*)\}")

OTHERWISE = "otherwise"
"""The pattern for names that no other rule is for."""


@dataclass(frozen=True)
class Pattern:
    r"""A name with places that stand for anything.

    `*` stands for any characters but dots, `**` for any characters, `{layer}` for one or more
    characters but dots, which other parts of a rule can refer to. A backslash takes the special
    meaning from the character after it. The whole name has to match.
    """

    text: str

    def __post_init__(self) -> None:
        if not self.text:
            raise ValueError("a pattern is empty")
        _ = self._compiled

    @property
    def is_otherwise(self) -> bool:
        """Whether it stands for names that no other rule is for."""
        return self.text == OTHERWISE

    @property
    def places(self) -> tuple[str, ...]:
        """Names of its `{…}`."""
        return tuple(self._compiled.groupindex)

    def match(self, name: str) -> dict[str, str] | None:
        """What `{…}` stand for in a name; None if it does not match."""
        if self.is_otherwise:
            return {}
        found = self._compiled.fullmatch(name)
        return found.groupdict() if found else None

    def span(self, name: str, place: str) -> tuple[int, int]:
        """Where in a name that matches a `{…}` is: start and end."""
        found = self._compiled.fullmatch(name)
        if found is None:
            raise ValueError(f"{name} does not match {self.text}")
        return found.span(place)

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        parts: list[str] = []
        seen: set[str] = set()
        at = 0
        while at < len(self.text):
            if self.text.startswith("**", at):
                parts.append(".*")
                at += 2
                continue
            character = self.text[at]
            at += 1
            if character == "\\":
                if at == len(self.text):
                    raise ValueError("a pattern ends in a backslash, which has nothing to quote")
                parts.append(re.escape(self.text[at]))
                at += 1
            elif character == "*":
                parts.append("[^.]*")
            elif character == "{":
                place, closed, _ = self.text[at:].partition("}")
                if not closed or not _PLACE.fullmatch(place):
                    raise ValueError(
                        f"{{ as character {at} begins no place like {{layer}} in {self.text!r}; "
                        "a brace of the name itself is written \\{"
                    )
                parts.append(f"(?P={place})" if place in seen else f"(?P<{place}>[^.]+)")
                seen.add(place)
                at += len(place) + 1
            else:
                parts.append(re.escape(character))
        return re.compile("".join(parts), re.DOTALL)


def quoted(name: str) -> str:
    """The pattern that matches one name only."""
    return re.sub(r"([\\*{])", r"\\\1", name)


def filled(template: str, places: dict[str, str]) -> str:
    """A name with `{…}` replaced; raises `KeyError` for a place that is not known."""
    return _TO_FILL.sub(lambda found: places[found[1]], template)


def to_fill(template: str) -> list[str]:
    """The names of a template's `{…}`."""
    return _TO_FILL.findall(template)
