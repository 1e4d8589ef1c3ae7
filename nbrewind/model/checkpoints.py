"""Checkpoints of training state: what many ranks saved, as logical tensors of no layout.

Each rank commits a *fragment*: the boxes of logical tensors it saved, as tiles, and the plain
values it had. When all are durable, one *checkpoint* that names them is committed. Refs find
them by name: `checkpoint/RUN` and `fragment/RUN` stand where executions have their source's
digest.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from nbrewind.model.blobs import BlobRef, ObjectId

CHECKPOINT_FORMAT = 1
FRAGMENT_FORMAT = 1

CHECKPOINT_PREFIX = "checkpoint/"
FRAGMENT_PREFIX = "fragment/"


def is_of_training(source_digest: str) -> bool:
    """Whether a ref is of a checkpoint or a fragment, not of a cell's execution."""
    return source_digest.startswith((CHECKPOINT_PREFIX, FRAGMENT_PREFIX))


class SavedPart(msgspec.Struct, frozen=True, array_like=True):
    """A box of a logical tensor, cut into tiles along the tensor's grid."""

    offsets: tuple[int, ...]
    lengths: tuple[int, ...]
    tiles: tuple[ObjectId, ...]
    """Objects of the tiles that the grid makes of the box, in row-major order; each holds the
    elements of its tile in row-major order."""
    start: int = 0
    """Where the only tile begins in its object, in bytes, if tensors share one."""
    layers: tuple[int, ...] = ()
    """How many of `tiles` belong to each tile, if not one: their bytewise XOR is the tile."""
    step: int = -1
    """Of which step the values are, if not of the fragment's."""


class SavedTensor(msgspec.Struct, frozen=True, kw_only=True):
    """What one fragment has of a logical tensor."""

    name: str
    dtype: str
    """As torch names it, such as `bfloat16`."""
    itemsize: int
    """Bytes per element."""
    shape: tuple[int, ...]
    """Of the whole logical tensor."""
    grid: tuple[int, ...]
    """Lengths of a tile; tiles begin at multiples of them."""
    parts: tuple[SavedPart, ...]
    own: bool = False
    """This rank's own value, which differs from other ranks' of the same name."""


class Fragment(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank saved."""

    fragment: int = FRAGMENT_FORMAT
    save: str
    """Hex id of the save: the same for all its ranks."""
    rank: int
    world: int
    """Number of ranks, each of which has a fragment."""
    step: int
    tensors: tuple[SavedTensor, ...]
    values: BlobRef
    """The tree of the state with its plain values; see `nbrewind.training.trees`."""
    encoding: Literal["msgpack", "pickle"] = "msgpack"
    """Of the leaves that are not plain: `pickle` needs a trusted store and leave to load it."""
    timing: dict[str, float] = {}
    """Seconds by phase."""
    bytes: dict[str, int] = {}
    """`state`: bytes of this rank's tensors; `added`: those that the store did not have."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """All of one save; exists only when every fragment is durable."""

    checkpoint: int = CHECKPOINT_FORMAT
    run: str
    save: str
    step: int
    world: int
    fragments: tuple[ObjectId, ...]
    """By rank."""
    created: float
    """Seconds since the epoch, UTC."""
    mesh: dict[str, int] = {}
    """Sizes of the device mesh's dimensions by name, as far as known."""
    rules: str = ""
    """Mapping rules that were in use, in their text form."""
    notes: dict[str, Any] = {}
    """Whatever else a saver says about it: plain values."""
    final: bool = False
    """The run had come to its end."""
