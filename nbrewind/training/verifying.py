"""Whether a checkpoint can be restored: every tile is read, and every tensor is complete."""

from __future__ import annotations

import msgspec

from nbrewind.errors import CheckpointError, StoreError
from nbrewind.model.checkpoints import Checkpoint
from nbrewind.store.abc import Store
from nbrewind.training.boxes import Box, uncovered
from nbrewind.training.reading import CheckpointReader


class Verification(msgspec.Struct, kw_only=True):
    """What reading all of a checkpoint found."""

    run: str
    step: int
    save: str
    tensors: int
    objects: int
    """Objects read, those of values included."""
    bytes: int
    problems: list[str]

    @property
    def sound(self) -> bool:
        """Everything can be restored."""
        return not self.problems


def verify(store: Store, checkpoint: Checkpoint) -> Verification:
    """Read and verify every object of a checkpoint, each once."""
    found = Verification(
        run=checkpoint.run,
        step=checkpoint.step,
        save=checkpoint.save,
        tensors=0,
        objects=0,
        bytes=0,
        problems=[],
    )
    try:
        reader = CheckpointReader(store, checkpoint)
    except StoreError as problem:
        found.problems.append(str(problem))
        return found
    names = reader.tensors
    found.tensors = len(names)
    seen: set[bytes] = set()
    for name, tensor in names.items():
        left = uncovered(Box.whole(tensor.shape), reader.boxes(name))
        if left:
            found.problems.append(f"{name}: {left[0]} was not saved by any rank")
    for fragment in reader.fragments:
        try:
            found.bytes += len(store.get_blob(fragment.values))
            found.objects += len(fragment.values.chunks)
        except StoreError as problem:
            found.problems.append(f"the values of rank {fragment.rank}: {problem}")
        for tensor in fragment.tensors:
            for part in tensor.parts:
                for oid in part.tiles:
                    if oid in seen:
                        continue
                    seen.add(oid)
                    try:
                        found.bytes += len(store.get(oid))
                    except StoreError as problem:
                        found.problems.append(f"{tensor.name} (rank {fragment.rank}): {problem}")
            try:
                reader.check(tensor)
            except (StoreError, CheckpointError) as problem:
                found.problems.append(str(problem))
    found.objects += len(seen)
    return found
