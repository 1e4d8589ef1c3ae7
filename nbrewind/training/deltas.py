"""Differences: tiles of which only the XOR with the save before is stored.

A step of training changes every weight, but few of its bits: what two versions of a half-precision
weight have in common is zero in their XOR, and compresses. A tile is then the XOR of a chain of
objects, of which the first is the tile as it was some saves ago. Chains are short, so that
reading stays cheap, and begin anew where the difference does not pay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbrewind.model.blobs import ObjectId
from nbrewind.store.abc import StoreWriter
from nbrewind.store.codec import expected_ratio
from nbrewind.training.boxes import Box
from nbrewind.training.parts import Part, flat_bytes

if TYPE_CHECKING:
    import numpy.typing as npt

Layers = tuple[ObjectId, ...]
"""The objects whose XOR is a tile."""

LONGEST = 5
"""Objects in a chain."""
_PAYS = 0.75
"""How much smaller a difference has to be than the tile, as far as a sample tells."""

_NOTHING = memoryview(b"")


class Chains:
    """What one rank saved last, and what it is saving now.

    The values saved last have to stay in memory until the save after them has ended. `begin` and
    `committed` enclose each save: one that was left in the middle, for whatever reason, has used
    the memory of the one before, so nothing is a difference from that any more.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, bool, Box], tuple[npt.NDArray[Any], list[Layers]]] = {}
        self._now: dict[tuple[str, bool, Box], tuple[npt.NDArray[Any], list[Layers]]] = {}
        self._under_way = False

    def begin(self) -> None:
        """A save begins: from now on its values are written over the last but one's."""
        if self._under_way:
            self._last = {}
        self._now = {}
        self._under_way = True

    def shorten(
        self, writer: StoreWriter, part: Part, number: int, tile: Box, content: memoryview
    ) -> tuple[Layers, memoryview]:
        """What is to be stored for a tile.

        Args:
            writer: The commit.
            part: What the tile is of.
            number: The tile's number in the part.
            tile: Its box.
            content: Its bytes.

        Returns:
            Objects that are there, and what has to be added to them by XOR: nothing if the tile
            is as it was.
        """
        last = self._last.get((part.name, part.own, part.box))
        if last is None or last[0].shape != part.data.shape or last[0].dtype != part.data.dtype:
            return (), content
        values, chains = last
        before = flat_bytes(values[tile.seen_from(part.box).slices])
        difference = np.bitwise_xor(
            np.frombuffer(content, np.uint8), np.frombuffer(before, np.uint8)
        )
        layers = chains[number]
        if not difference.any():
            return (layers, _NOTHING) if writer.rely_on(layers) else ((), content)
        shorter = len(layers) < LONGEST and expected_ratio(difference.data) < (
            _PAYS * expected_ratio(content)
        )
        if shorter and writer.rely_on(layers):
            return layers, difference.data
        return (), content

    def keep(self, part: Part, layers: list[Layers]) -> None:
        """Remember how a part is being saved."""
        self._now[part.name, part.own, part.box] = part.data, layers

    def committed(self, *, whole: bool) -> None:
        """The save has ended. If it is not `whole`, the next one begins new chains."""
        self._last = self._now if whole else {}
        self._now = {}
        self._under_way = False
