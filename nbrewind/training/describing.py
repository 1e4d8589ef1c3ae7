"""Checkpoints in figures: what lists, comparisons and pictures show."""

from __future__ import annotations

import msgspec

from nbrewind.errors import CheckpointError, UsageError
from nbrewind.model.checkpoints import CHECKPOINT_PREFIX, Checkpoint
from nbrewind.model.refs import StoredRef
from nbrewind.store.abc import Store
from nbrewind.training.finding import checkpoints, find
from nbrewind.training.reading import CheckpointReader


class CheckpointRow(msgspec.Struct, kw_only=True):
    """One checkpoint in a list."""

    run: str
    step: int
    save: str
    created: float
    """Seconds since the epoch, UTC."""
    world: int
    """Ranks that saved it."""
    final: bool
    trusted: bool


class TensorRow(msgspec.Struct, kw_only=True):
    """One logical tensor."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    tiles: int
    longest_chain: int
    """Objects whose XOR is a tile, at most."""
    own: bool
    """Ranks have different values under this name."""


class RankRow(msgspec.Struct, kw_only=True):
    """What one rank saved, and how long it took."""

    rank: int
    bytes: int
    """Of its tensors."""
    added: int
    """Of these, what the store did not have."""
    seconds: dict[str, float]
    """By phase: look, plan, stage, compare, tiles."""


class Inspection(msgspec.Struct, kw_only=True):
    """Everything about a checkpoint but its values."""

    checkpoint: CheckpointRow
    tensors: list[TensorRow]
    ranks: list[RankRow]
    notes: dict[str, str]

    @property
    def bytes(self) -> int:
        """Bytes of all logical tensors."""
        return sum(tensor.bytes for tensor in self.tensors)


class Difference(msgspec.Struct, kw_only=True):
    """How one tensor differs between two checkpoints."""

    name: str
    what: str
    """`added`, `removed`, `shape`, `type` or `values`."""
    before: str = ""
    after: str = ""


def row(ref: StoredRef, checkpoint: Checkpoint) -> CheckpointRow:
    """A checkpoint in a list."""
    return CheckpointRow(
        run=checkpoint.run,
        step=checkpoint.step,
        save=checkpoint.save,
        created=checkpoint.created,
        world=checkpoint.world,
        final=checkpoint.final,
        trusted=ref.trusted,
    )


def listed(store: Store, run: str | None = None) -> list[CheckpointRow]:
    """Checkpoints of a store, newest first."""
    return [row(ref, checkpoint) for ref, checkpoint in checkpoints(store, run)]


def chosen(store: Store, text: str) -> tuple[StoredRef, Checkpoint]:
    """A checkpoint by what people write: `RUN`, `RUN@STEP`, or the beginning of its id.

    Raises:
        CheckpointError: there is none.
        UsageError: the text cannot be understood, or fits several.
    """
    run, at, step = text.rpartition("@")
    if at and not step.isdigit():
        raise UsageError(f"{text}: a number of steps is meant after @")
    name = run if at else text
    if store.refs(CHECKPOINT_PREFIX + name):
        return find(store, name, int(step) if at else None)
    if not at and len(text) >= 6:
        fits = [found for found in checkpoints(store) if found[1].save.startswith(text)]
        if len(fits) == 1:
            return fits[0]
        if fits:
            raise UsageError(f"{text} fits {len(fits)} checkpoints: give more digits")
    runs = sorted({checkpoint.run for _, checkpoint in checkpoints(store)})
    known = f"it has those of {', '.join(runs[:8])}" if runs else "it has none"
    raise CheckpointError(f"{store.location} has no checkpoint {text}; {known}")


def inspect(store: Store, ref: StoredRef, checkpoint: Checkpoint) -> Inspection:
    """Read a checkpoint's fragments, but none of its tiles."""
    reader = CheckpointReader(store, checkpoint)
    return Inspection(
        checkpoint=row(ref, checkpoint),
        tensors=[_tensor(reader, name) for name in sorted(reader.tensors)],
        ranks=[
            RankRow(
                rank=fragment.rank,
                bytes=fragment.bytes.get("state", 0),
                added=fragment.bytes.get("added", 0),
                seconds=fragment.timing,
            )
            for fragment in reader.fragments
        ],
        notes={str(key): str(value) for key, value in checkpoint.notes.items()},
    )


def _tensor(reader: CheckpointReader, name: str) -> TensorRow:
    tensor = reader.tensors[name]
    parts = [part for _, part in reader.parts(name)]
    size = tensor.itemsize
    for length in tensor.shape:
        size *= length
    return TensorRow(
        name=name,
        dtype=tensor.dtype,
        shape=tensor.shape,
        bytes=size,
        tiles=sum(len(part.layers or part.tiles) for part in parts),
        longest_chain=max((max(part.layers, default=1) for part in parts), default=0),
        own=name in reader.differing,
    )


def differences(one: CheckpointReader, other: CheckpointReader) -> list[Difference]:
    """What differs, by name; values are compared to the bit, by tiles where these are alike."""
    before, after = one.tensors, other.tensors
    found = [Difference(name=name, what="removed") for name in before if name not in after]
    found += [Difference(name=name, what="added") for name in after if name not in before]
    for name in before:
        if name not in after:
            continue
        a, b = before[name], after[name]
        if a.shape != b.shape:
            kind = "shape", str(a.shape), str(b.shape)
        elif a.dtype != b.dtype:
            kind = "type", a.dtype, b.dtype
        elif [*one.parts(name)] != [*other.parts(name)] and (
            one.get(name).tobytes() != other.get(name).tobytes()
        ):
            kind = "values", "", ""
        else:
            continue
        found.append(Difference(name=name, what=kind[0], before=kind[1], after=kind[2]))
    return sorted(found, key=lambda each: each.name)
