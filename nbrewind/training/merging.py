"""Linear combinations of checkpoints, box by box: memory for a few tiles, whatever the size."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Iterator, Sequence

import msgspec
import torch

from nbrewind.errors import CheckpointError, UsageError
from nbrewind.model.checkpoints import (
    CHECKPOINT_PREFIX,
    FRAGMENT_PREFIX,
    Checkpoint,
    Fragment,
    SavedTensor,
)
from nbrewind.model.refs import RefBody
from nbrewind.store.abc import Store
from nbrewind.training.boxes import Box
from nbrewind.training.fragments import write_parts
from nbrewind.training.grid import row_grid, tiles
from nbrewind.training.parts import Part
from nbrewind.training.reading import CheckpointReader
from nbrewind.training.tensors import array, dtype_named

_BLOCK_BYTES = 4 * 1024 * 1024
"""About what is in memory of each checkpoint at a time."""


def merge(
    store: Store,
    sources: Sequence[Checkpoint],
    weights: Sequence[float],
    *,
    run: str,
    step: int = 0,
) -> Checkpoint:
    """Save the weighted sum of checkpoints as another one.

    Floating-point tensors are summed in double precision and rounded once; integers and plain
    values are those of the first. With one source and the weight 1 this is a copy whose tiles lie
    as if one process had saved it.

    Args:
        store: Where they are, and where the result goes.
        sources: Checkpoints with the same tensors.
        weights: A factor for each.
        run: Name of the result's run.
        step: Its step.

    Raises:
        CheckpointError: tensors differ in name, shape or type.
        UsageError: the weights do not fit.
    """
    if len(sources) != len(weights) or not sources:
        raise UsageError(f"{len(weights)} weights were given for {len(sources)} checkpoints")
    if not all(map(math.isfinite, weights)):
        raise UsageError("weights must be finite numbers")
    readers = [CheckpointReader(store, source) for source in sources]
    _check_alike(readers)
    save, lineage = uuid.uuid4().hex, uuid.uuid4().hex
    with store.begin() as writer:
        parts = (
            part
            for name, tensor in readers[0].tensors.items()
            for part in _parts(name, tensor, readers, weights)
        )
        tensors = write_parts(writer, parts)
        fragment = Fragment(
            save=save,
            rank=0,
            world=1,
            step=step,
            tensors=tuple(tensors),
            values=readers[0].fragments[0].values,
            encoding=readers[0].fragments[0].encoding,
        )
        record = writer.put("record", msgspec.msgpack.encode(fragment))
        if not writer.rely_on(fragment.values.chunks):
            writer.put_stream(store.get_blob(fragment.values))
        writer.commit(_body(FRAGMENT_PREFIX + run, lineage, record))
    checkpoint = Checkpoint(
        run=run,
        save=save,
        step=step,
        world=1,
        fragments=(record,),
        created=time.time(),
        rules=sources[0].rules,
        notes={
            "merged from": [f"{s.run}@{s.step} {s.save}" for s in sources],
            "weights": [*weights],
        },
    )
    with store.begin() as writer:
        record = writer.put("record", msgspec.msgpack.encode(checkpoint))
        writer.commit(_body(CHECKPOINT_PREFIX + run, lineage, record))
    return checkpoint


def _check_alike(readers: Sequence[CheckpointReader]) -> None:
    first = readers[0].tensors
    for reader in readers[1:]:
        other = reader.tensors
        where = f"{reader.checkpoint.run}@{reader.checkpoint.step}"
        for name in sorted({*first} ^ {*other}):
            raise CheckpointError(f"{name} is not in all of the checkpoints: see {where}")
        for name, tensor in first.items():
            if (tensor.shape, tensor.dtype) != (other[name].shape, other[name].dtype):
                raise CheckpointError(
                    f"{name} is {tensor.dtype} {tensor.shape} in the first checkpoint and "
                    f"{other[name].dtype} {other[name].shape} in {where}"
                )


def _parts(
    name: str, tensor: SavedTensor, readers: Sequence[CheckpointReader], weights: Sequence[float]
) -> Iterator[Part]:
    dtype = dtype_named(tensor.dtype)
    grid = row_grid(tensor.shape, tensor.itemsize)
    is_sum = (dtype.is_floating_point or dtype.is_complex) and [*weights] != [1.0]
    whole = Box.whole(tensor.shape)
    for box in tiles(whole, _blocks(grid, tensor)) if whole.size else [whole]:
        if is_sum:
            wide = torch.complex128 if dtype.is_complex else torch.float64
            total = torch.zeros(box.lengths, dtype=wide)
            for reader, weight in zip(readers, weights, strict=True):
                values = torch.from_numpy(reader.get(name, box)).reshape(-1).view(dtype)
                total += weight * values.reshape(box.lengths).to(wide)
            data = array(total.to(dtype))
        else:
            data = readers[0].get(name, box)
        yield Part(
            name=name,
            dtype=tensor.dtype,
            itemsize=tensor.itemsize,
            shape=tensor.shape,
            grid=grid,
            box=box,
            data=data,
        )


def _blocks(grid: tuple[int, ...], tensor: SavedTensor) -> tuple[int, ...]:
    """Boxes of several whole tiles."""
    if not grid:
        return grid
    tile = math.prod(grid) * tensor.itemsize
    return (grid[0] * max(1, _BLOCK_BYTES // max(1, tile)), *grid[1:])


def _body(digest: str, lineage: str, record: bytes) -> RefBody:
    return RefBody(lineage=lineage, seq=0, source_digest=digest, record=record, created=time.time())
