"""Which checkpoints a store has: by run, newest first."""

from __future__ import annotations

from collections.abc import Iterator

from nbrewind.errors import CheckpointError, StoreError
from nbrewind.model.checkpoints import CHECKPOINT_PREFIX, Checkpoint
from nbrewind.model.refs import StoredRef
from nbrewind.store.abc import Store
from nbrewind.training.reading import read_checkpoint


def checkpoint_refs(store: Store, run: str | None = None) -> list[StoredRef]:
    """Refs of complete checkpoints, newest first; those of one run if it is given."""
    if run is not None:
        return list(store.refs(CHECKPOINT_PREFIX + run))
    return [ref for ref in store.refs() if ref.body.source_digest.startswith(CHECKPOINT_PREFIX)]


def checkpoints(store: Store, run: str | None = None) -> Iterator[tuple[StoredRef, Checkpoint]]:
    """Every readable checkpoint, newest first."""
    for ref in checkpoint_refs(store, run):
        try:
            yield ref, read_checkpoint(store, ref.body.record)
        except StoreError:
            continue  # `nbrewind store check` tells; an older one is better than none


def find(store: Store, run: str, step: int | None = None) -> tuple[StoredRef, Checkpoint]:
    """The newest checkpoint of a run, or the newest of a step.

    Raises:
        CheckpointError: there is none.
    """
    steps = []
    for ref, checkpoint in checkpoints(store, run):
        if step is None or checkpoint.step == step:
            return ref, checkpoint
        steps.append(checkpoint.step)
    if steps:
        known = ", ".join(map(str, sorted(set(steps))[-8:]))
        raise CheckpointError(
            f"run {run} has no checkpoint of step {step}; it has those of {known}"
        )
    raise CheckpointError(f"{store.location} has no checkpoint of a run {run}")


def saved_steps(store: Store, run: str, until: int | None = None) -> int | None:
    """How far a run that is not at its end was saved; None if there is nothing of it.

    Args:
        store: where.
        run: the run's name.
        until: where its loop ends now; a run that was finished before that is not at its end.
    """
    for _, checkpoint in checkpoints(store, run):
        if until is not None and checkpoint.step > until:
            continue
        done = checkpoint.final and (until is None or checkpoint.step >= until)
        return None if done else checkpoint.step
    return None
