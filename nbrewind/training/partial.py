"""Saving only some experts of a mixture each time, in turn.

Experts change slowly and are most of a mixture's weights. A checkpoint then has some of them as
they are and the others as they were a few saves ago; for each it says of which step it is. The
parameters of one expert, and what optimizers keep for them, are always of one step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import msgspec

from nbrewind.errors import UsageError
from nbrewind.model.checkpoints import SavedPart, SavedTensor
from nbrewind.store.abc import StoreWriter
from nbrewind.training.boxes import Box
from nbrewind.training.parts import Part

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Partial:
    """Which experts there are, and how many of them are saved at a time.

    Raises:
        UsageError: the numbers make no sense.
    """

    each: int
    """Experts that are saved at a time."""
    of: int
    """Experts in all."""
    experts: Mapping[str, int | None]
    """Patterns (`*`, `?`) of names of tensors, each with the dimension that numbers experts; None
    if tensors are of one expert each: then the last number that `*` stands for is its own."""

    def __post_init__(self) -> None:
        if not 0 < self.each <= self.of:
            raise UsageError(f"{self.each} of {self.of} experts cannot be saved at a time")

    @property
    def rounds(self) -> int:
        """Saves after which each expert was saved once."""
        return -(-self.of // self.each)

    def is_due(self, expert: int, save: int) -> bool:
        """Whether an expert is saved in the save of a number."""
        return expert % self.rounds == save % self.rounds

    def split(self, part: Part) -> Iterator[tuple[Part, int | None]]:
        """A part by experts, each with its number; None for what is of no expert."""
        for pattern, dim in self.experts.items():
            if not fnmatchcase(part.name, f"*{pattern}*"):
                continue
            if dim is None:
                yield part, _expert(part.name, pattern)
                return
            if dim < len(part.shape) and part.shape[dim] == self.of:
                yield from _along(part, dim)
                return
        yield part, None


def _expert(name: str, pattern: str) -> int | None:
    """The last number in what the wildcards of a pattern stand for."""
    expression = ".*".join(map(re.escape, pattern.split("*"))).replace(r"\?", ".")
    found = re.search(expression.replace(".*", "(.*)"), name)
    if found is None:
        return None
    numbers = [n for group in found.groups() for n in _NUMBER.findall(group)]
    return int(numbers[-1]) if numbers else None


def _along(part: Part, dim: int) -> Iterator[tuple[Part, int]]:
    offsets, lengths = part.box.offsets, part.box.lengths
    for number in range(lengths[dim]):
        box = Box(
            (*offsets[:dim], offsets[dim] + number, *offsets[dim + 1 :]),
            (*lengths[:dim], 1, *lengths[dim + 1 :]),
        )
        data = part.data[box.seen_from(part.box).slices]
        yield replace(part, box=box, data=data), offsets[dim] + number


_Key = tuple[str, bool, Box]


@dataclass
class Rotation:
    """The state of partial saves of one rank."""

    partial: Partial
    _saves: int = 0
    _last: dict[_Key, SavedPart] = field(default_factory=dict)
    _reused: list[tuple[Part, SavedPart]] = field(default_factory=list)

    def choose(self, writer: StoreWriter, parts: Iterable[Part]) -> list[Part]:
        """The parts that are saved now; the others are in the store as they were."""
        self._reused = []
        chosen = []
        for whole in parts:
            for part, expert in self.partial.split(whole):
                last = self._last.get((part.name, part.own, part.box))
                due = expert is None or self.partial.is_due(expert, self._saves)
                if due or last is None or not writer.rely_on(last.tiles):
                    chosen.append(part)
                else:
                    self._reused.append((part, last))
        return chosen

    def complete(self, tensors: Iterable[SavedTensor], step: int) -> list[SavedTensor]:
        """What is saved now, together with what is there."""
        found = {(tensor.name, tensor.own): tensor for tensor in tensors}
        for tensor in found.values():
            for saved in tensor.parts:
                box = Box(saved.offsets, saved.lengths)
                self._last[tensor.name, tensor.own, box] = msgspec.structs.replace(saved, step=step)
        for part, last in self._reused:
            known = found.get((part.name, part.own))
            if known is None:
                found[part.name, part.own] = part.saved((last,))
            else:
                found[part.name, part.own] = msgspec.structs.replace(
                    known, parts=(*known.parts, last)
                )
        return [*found.values()]

    def ended(self, *, whole: bool) -> None:
        """The save has ended; if it is not `whole`, the next one saves everything."""
        self._saves += 1
        if not whole:
            self._last.clear()
