"""The checkpoints of one run: saved by all ranks, loaded by any number of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import torch

from nbrewind.errors import CheckpointError, NBRewindError
from nbrewind.model.checkpoints import Checkpoint
from nbrewind.model.refs import StoredRef
from nbrewind.store import open_store
from nbrewind.training.committing import Saved
from nbrewind.training.finding import checkpoints, find
from nbrewind.training.layouts import Layouts
from nbrewind.training.loading import Loaded, load_into
from nbrewind.training.partial import Partial
from nbrewind.training.places import default_place
from nbrewind.training.ranks import these_ranks
from nbrewind.training.reading import read_checkpoint
from nbrewind.training.rules.ruleset import Rules
from nbrewind.training.saving import Pending, Saver
from nbrewind.training.states import collect, roles


class Checkpointer:
    """Saves and loads. Every rank makes one, at the same time, with the same arguments.

    Args:
        run: The run's name; checkpoints are found by it.
        place: The store; see `default_place`.
        group: The ranks that save together, a group of torch's; all by default, or this process
            alone where torch's groups are not in use.
        rules: What parts of logical tensors the plain tensors of modules are; see
            `docs/reference/mapping-rules.md`. Tensors with placements need none.
        mesh: Sizes of the axes that rules name, the last one varying fastest from rank to rank.
        pickles: Save and load values that are not plain as pickles.
        deltas: Store differences from the save before where they are shorter, as they are of
            half-precision weights. Needs memory for two copies of what this rank saves.
        partial: Save only some experts of a mixture each time.
        overlap: `save_later` copies parameters that optimizers have, and what these keep for them,
            while training goes on; a step of an optimizer waits for that. Nothing else may change
            them in between.
        timeout: Seconds after which a rank that does not answer is given up.
    """

    def __init__(
        self,
        run: str,
        place: str | os.PathLike[str] | None = None,
        *,
        group: Any = None,
        rules: Rules | str | None = None,
        mesh: Mapping[str, int] | None = None,
        pickles: bool = False,
        deltas: bool = False,
        partial: Partial | None = None,
        overlap: bool = False,
        timeout: float = 600.0,
    ) -> None:
        self.run = run
        self.store = open_store(default_place() if place is None else place)
        self.ranks = these_ranks(group, timeout)
        self._layouts = Layouts(self.ranks, rules, mesh)
        self._pickles = pickles
        self._deltas = deltas
        self._partial = partial
        self._overlap = overlap
        self._hooks: dict[int, Any] = {}
        self._saver: Saver | None = None

    def save(
        self,
        state: Mapping[str, Any],
        *,
        step: int,
        final: bool = False,
        notes: Mapping[str, Any] | None = None,
    ) -> Saved:
        """Save a state and wait until that is durable; a collective call.

        Args:
            state: Modules, optimizers, objects with `state_dict`, tensors and plain values by name.
            step: Steps that were made.
            final: The run has come to its end.
            notes: Plain values that say something about the checkpoint.

        Raises:
            CheckpointError: nothing was saved, on no rank.
        """
        name = self._layouts.name
        return self._saving().save(
            lambda: collect(state, name),
            lambda tensors: roles(state, tensors, name),
            step=step,
            final=final,
            notes=notes,
        )

    def save_later(
        self,
        state: Mapping[str, Any],
        *,
        step: int,
        final: bool = False,
        notes: Mapping[str, Any] | None = None,
    ) -> Pending:
        """As `save`, but returns as soon as the state may change again.

        Raises:
            CheckpointError: this one, or the one before it, was not saved.
        """
        name = self._layouts.name
        if self._overlap:
            self._hook(state)
        return self._saving().save_later(
            lambda: collect(state, name),
            lambda tensors: roles(state, tensors, name),
            step=step,
            final=final,
            notes=notes,
            overlap=self._overlap,
        )

    def _hook(self, state: Mapping[str, Any]) -> None:
        """Have steps of optimizers wait until what they change is copied."""
        saver = self._saving()
        for value in state.values():
            if isinstance(value, torch.optim.Optimizer) and id(value) not in self._hooks:
                self._hooks[id(value)] = value.register_step_pre_hook(
                    lambda *_: saver.wait_copied()
                )

    def wait(self) -> Saved | None:
        """Wait for a save that is under way; raises `CheckpointError` if it was not saved."""
        return None if self._saver is None else self._saver.wait()

    def _saving(self) -> Saver:
        if self._saver is None:
            self._saver = Saver(
                self.store,
                self.run,
                self.ranks,
                layouts=self._layouts,
                pickles=self._pickles,
                deltas=self._deltas,
                partial=self._partial,
            )
        return self._saver

    def steps(self) -> list[int]:
        """Steps of which there are checkpoints, the newest first."""
        self.store.refresh()
        return [checkpoint.step for _, checkpoint in checkpoints(self.store, self.run)]

    def load(
        self,
        state: Mapping[str, Any],
        *,
        step: int | None = None,
        cast: bool = False,
        strict: bool = False,
    ) -> Loaded:
        """Restore a state from the newest checkpoint, or that of a step; a collective call.

        Ranks agree on the checkpoint first. They may be more or fewer than those that saved, and
        in any other layout.

        Args:
            state: As for `save`; its objects are filled.
            step: Which checkpoint; the newest by default.
            cast: Convert tensors of another type than the saved ones.
            strict: Refuse a checkpoint in which some experts are older than the rest.

        Raises:
            CheckpointError: there is none, or it does not fit.
        """
        self.store.refresh()
        ref, checkpoint = self._agree(step)
        return load_into(
            self.store,
            checkpoint,
            state,
            layouts=self._layouts,
            rank=self.ranks.rank,
            world=self.ranks.world,
            cast=cast,
            strict=strict,
            pickles=self._pickles,
            trusted=ref.trusted,
        )

    def _agree(self, step: int | None) -> tuple[StoredRef, Checkpoint]:
        answer: tuple[str, StoredRef | None] = "", None
        if self.ranks.rank == 0:
            try:
                ref, _ = find(self.store, self.run, step)
                answer = "", ref
            except NBRewindError as exc:
                answer = str(exc), None
        problem, ref = self.ranks.gather(answer)[0]
        if ref is None:
            raise CheckpointError(problem)
        return ref, read_checkpoint(self.store, ref.body.record)

    def close(self) -> None:
        """Wait for a save that is under way, and let go of the store.

        Raises:
            CheckpointError: that save failed.
        """
        try:
            if self._saver is not None:
                self._saver.close()
        finally:
            for hook in self._hooks.values():
                hook.remove()
            self._hooks.clear()
            self.ranks.close()
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def save(
    state: Mapping[str, Any],
    run: str,
    *,
    step: int,
    place: str | os.PathLike[str] | None = None,
    group: Any = None,
    final: bool = False,
) -> Saved:
    """Save a state once; see `Checkpointer`, which is for saving again and again."""
    with Checkpointer(run, place, group=group) as checkpoints:
        return checkpoints.save(state, step=step, final=final)


def load(
    state: Mapping[str, Any],
    run: str,
    *,
    step: int | None = None,
    place: str | os.PathLike[str] | None = None,
    group: Any = None,
    cast: bool = False,
) -> Loaded:
    """Restore a state once; see `Checkpointer.load`."""
    with Checkpointer(run, place, group=group) as checkpoints:
        return checkpoints.load(state, step=step, cast=cast)
