"""What one rank saves: boxes of logical tensors become tiles, tiles become objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from nbrewind.model.blobs import LEAF_BYTES
from nbrewind.model.checkpoints import SavedPart, SavedTensor
from nbrewind.store.abc import StoreWriter
from nbrewind.training.deltas import Chains, Layers
from nbrewind.training.grid import tiles
from nbrewind.training.parts import Part, flat_bytes

_SMALL = 16 * 1024
"""Parts of fewer bytes share objects."""
_AT_ONCE = 64
"""Tiles that are named and handed over together: 16 MiB."""


def write_parts(
    writer: StoreWriter, parts: Iterable[Part], chains: Chains | None = None
) -> list[SavedTensor]:
    """Add parts to a commit.

    Args:
        writer: The commit.
        parts: What to add.
        chains: What was saved before, of which differences may be stored.

    Returns:
        What was saved, in the order of first appearance; parts of one tensor together.
    """
    saved: dict[tuple[str, bool], list[SavedPart]] = {}
    first: dict[tuple[str, bool], Part] = {}
    small: list[Part] = []
    filled = 0
    for part in parts:
        key = part.name, part.own
        if key not in first:
            first[key] = replace(part, data=np.empty(0))  # its elements are not kept
        saved.setdefault(key, [])
        if part.nbytes == 0:
            saved[key].append(SavedPart(part.box.offsets, part.box.lengths, ()))
        elif part.nbytes < _SMALL:
            if filled + part.nbytes > LEAF_BYTES:
                _write_together(writer, small, saved)
                small, filled = [], 0
            small.append(part)
            filled += part.nbytes
        else:
            saved[key].append(_write_tiles(writer, part, chains))
    _write_together(writer, small, saved)
    return [part.saved(tuple(saved[key])) for key, part in first.items()]


def _write_tiles(writer: StoreWriter, part: Part, chains: Chains | None) -> SavedPart:
    layers: list[Layers] = []
    waiting: list[memoryview] = []
    below: list[Layers] = []

    def put() -> None:
        ids = writer.put_chunks(waiting)
        layers.extend((*under, oid) for under, oid in zip(below, ids, strict=True))
        waiting.clear()
        below.clear()

    for number, tile in enumerate(tiles(part.box, part.grid)):
        content = flat_bytes(part.data[tile.seen_from(part.box).slices])
        under: Layers = ()
        if chains is not None:
            under, content = chains.shorten(writer, part, number, tile, content)
        if not content.nbytes:  # as it was
            put()
            layers.append(under)
            continue
        waiting.append(content)
        below.append(under)
        if len(waiting) == _AT_ONCE:
            put()
    put()
    if chains is not None:
        chains.keep(part, layers)
    flat = tuple(oid for each in layers for oid in each)
    counts = tuple(map(len, layers)) if len(flat) > len(layers) else ()
    return SavedPart(part.box.offsets, part.box.lengths, flat, layers=counts)


def _write_together(
    writer: StoreWriter, parts: Sequence[Part], saved: dict[tuple[str, bool], list[SavedPart]]
) -> None:
    """Write small parts as one object."""
    if not parts:
        return
    content = b"".join(part.data.tobytes() for part in parts)
    (oid,) = writer.put_chunks([content])
    start = 0
    for part in parts:
        place = SavedPart(part.box.offsets, part.box.lengths, (oid,), start)
        saved[part.name, part.own].append(place)
        start += part.nbytes
