"""The first half of a save: ranks agree on who saves what, and live tensors are copied.

What goes wrong on one rank is told on all, so that none waits for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

from nbrewind.errors import CheckpointError, NBRewindError
from nbrewind.store.abc import Store
from nbrewind.training.committing import Committer, Job, Saved, compared, failure
from nbrewind.training.deltas import Chains
from nbrewind.training.finding import find
from nbrewind.training.holding import Holding, Live, State
from nbrewind.training.layouts import Layouts, Roles
from nbrewind.training.partial import Partial
from nbrewind.training.planning import Plan, plan
from nbrewind.training.ranks import Ranks
from nbrewind.training.reading import read_fragment
from nbrewind.training.staging import Stage, copy_all


class Pending:
    """A save that is under way."""

    def __init__(self, future: Future[Saved]) -> None:
        self._future = future

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._future.done()

    def wait(self) -> Saved:
        """The checkpoint, once it is durable. Raises `CheckpointError` if it was not saved."""
        return self._future.result()


class Saver:
    """Saves the state of a run again and again. Making one is a collective call.

    Args:
        store: Where to; every rank opens it for itself.
        run: The run's name.
        ranks: Who saves together.
        layouts: How tensors lie on the ranks; as their placements say by default.
        pickles: Pickle values that are not plain; loading them needs trust.
        deltas: Store differences from the save before, where they are shorter. Needs memory for
            two copies of what this rank saves.
        partial: Save only some experts of a mixture each time.
    """

    def __init__(
        self,
        store: Store,
        run: str,
        ranks: Ranks,
        *,
        layouts: Layouts | None = None,
        pickles: bool = False,
        deltas: bool = False,
        partial: Partial | None = None,
    ) -> None:
        if not run:
            raise CheckpointError("a run needs a name")
        self.run = run
        self._store = store
        self._ranks = ranks
        self._writers = ranks.another()  # those that write talk while others train
        self._pickles = pickles
        self.layouts = layouts or Layouts(self._ranks)
        self._layout: list[tuple[Any, ...]] | None = None
        self._holding: Holding | None = None
        self._plan: Plan | None = None
        self._chains = Chains() if deltas else None
        self._committer = Committer(store, run, self._writers, self.layouts, self._chains, partial)
        # The values that differences are from must stay as they are: two stages take turns.
        self._stages = [Stage(), Stage()] if deltas else [Stage()]
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="nbrewind-checkpoint")
        self._pending: Pending | None = None
        self._copied = threading.Event()
        self._copied.set()

    def save(
        self,
        take: Callable[[], Mapping[str, Any]],
        roles: Callable[[Iterable[str]], Roles] | None = None,
        *,
        step: int,
        final: bool = False,
        notes: Mapping[str, Any] | None = None,
    ) -> Saved:
        """Save a tree (`states.collect`) and wait until the checkpoint is durable.

        Args:
            take: Gives the tree: tensors and plain values, which must not change during the call.
                What it raises is told on all ranks.
            roles: Tells what its tensors are, see `states.roles`.
            step: Steps that were made.
            final: The run has come to its end.
            notes: Plain values that say something about it; those of rank 0 count.

        Raises:
            CheckpointError: it was not saved, on any rank, or the one before it was not; the
                message says on which rank it failed and why.
        """
        self._wait_idle()
        return self._write(self._begin(take, roles, step, final, notes, copy=False))

    def save_later(
        self,
        take: Callable[[], Mapping[str, Any]],
        roles: Callable[[Iterable[str]], Roles] | None = None,
        *,
        step: int,
        final: bool = False,
        notes: Mapping[str, Any] | None = None,
        overlap: bool = False,
    ) -> Pending:
        """As `save`, but returns as soon as the tree may change.

        One save is under way at a time: another waits for the one before.

        Args:
            take: As of `save`.
            roles: As of `save`.
            step: As of `save`.
            final: As of `save`.
            notes: As of `save`.
            overlap: Copy what only steps of optimizers change after this call; `wait_copied` has to
                be called before such a step.

        Raises:
            CheckpointError: as `save`; what goes wrong later is raised by `Pending.wait` and by
                the next call.
        """
        self._wait_idle()
        try:
            job = self._begin(take, roles, step, final, notes, copy=True, overlap=overlap)
            self._pending = Pending(self._thread.submit(self._write, job))
        except BaseException:
            # Nobody may know whether the thread has it: steps wait until it is certain.
            self._thread.submit(self._copied.set)
            raise
        return self._pending

    def wait(self) -> Saved | None:
        """Wait for the save that is under way; raises what it raised, once."""
        pending = self._pending
        if pending is None:
            return None
        try:
            return pending.wait()
        finally:
            if pending.done():  # not if the waiting was interrupted
                self._pending = None

    def _wait_idle(self) -> None:
        """As `wait`, and for a save that nobody knows of, because it was interrupted in between."""
        self.wait()
        self._thread.submit(lambda: None).result()

    def close(self) -> None:
        """Wait for the save that is under way, and raise what it raised."""
        try:
            self.wait()
        finally:
            self._thread.shutdown()
            self._writers.close()

    def _begin(
        self,
        take: Callable[[], Mapping[str, Any]],
        roles: Callable[[Iterable[str]], Roles] | None,
        step: int,
        final: bool,
        notes: Mapping[str, Any] | None,
        *,
        copy: bool,
        overlap: bool = False,
    ) -> Job:
        begun = time.perf_counter()
        state: State | None = None
        problem, cause = "", None
        try:
            state = State(take(), roles, pickles=self._pickles)
        except Exception as exc:  # the other ranks have to hear of it first
            problem, cause = _said(exc), exc
        looked = time.perf_counter()
        try:
            agreed, first = self._agree(state, problem, step)
        except CheckpointError as exc:
            raise exc from cause
        assert state is not None
        assert self._holding is not None
        live = self._holding.look(state)
        planned = time.perf_counter()
        later: Callable[[], None] | None = None
        if copy or self._chains is not None:
            later = self._copy(live, agreed, first, self._holding.steady if overlap else set())
        timing = {
            "look": looked - begun,
            "plan": planned - looked,
            "stage": time.perf_counter() - planned,
        }
        return Job(live, agreed, first, step, final, dict(notes or {}), timing, later)

    def _write(self, job: Job) -> Saved:
        if job.copy is not None:
            begun = time.perf_counter()
            try:
                job.copy()
            finally:
                self._copied.set()
            job.timing["stage later"] = time.perf_counter() - begun
        return self._committer.commit(job)

    def _copy(
        self, live: Live, agreed: Plan, first: bool, steady: set[int]
    ) -> Callable[[], None] | None:
        """Have copies take the place of live tensors; returns what copies the steady ones."""
        order = sorted({*agreed.saves, *compared(live, agreed, first=first)})
        if self._chains is not None:
            self._chains.begin()
        self._stages.append(self._stages.pop(0))
        copies = self._stages[0].views([live.tensors[position] for position in order])
        pairs = dict(zip(order, copies, strict=True))
        now = [position for position in order if position not in steady]
        then = [(pairs[p], live.tensors[p]) for p in order if p in steady]
        copy_all([pairs[p] for p in now], [live.tensors[p] for p in now])
        nothing = torch.empty(0)
        live.tensors = [pairs.get(position, nothing) for position in range(len(live.tensors))]
        if not then:
            return None
        self._copied.clear()
        return lambda: copy_all([to for to, _ in then], [of for _, of in then])

    def wait_copied(self) -> None:
        """Wait until nothing of a save that is under way needs the live tensors."""
        self._copied.wait()

    def _agree(self, state: State | None, problem: str, step: int) -> tuple[Plan, bool]:
        """The plan of this rank; whether it is a new one. Raises if a rank has a problem."""
        layout = state.layout if state is not None else None
        known = layout is not None and layout == self._layout and self._plan is not None
        # All ranks have to make a new plan if one of them has to.
        answers = self._ranks.gather_bytes(bytes([known]))
        if answers == [b"\x01"] * self._ranks.world:
            assert self._plan is not None
            return self._plan, False
        self._check_all(step, problem)
        assert state is not None
        self._plan = None
        try:
            self._holding = Holding(state, self.layouts)
        except Exception as exc:
            problem = _said(exc)
        self._check_all(step, problem)
        assert self._holding is not None
        everyone = self._ranks.gather((self._holding.held, self._known_grids()))
        self._plan = plan([boxes for boxes, _ in everyone], everyone[0][1])[self._ranks.rank]
        self._layout = layout
        return self._plan, True

    def _check_all(self, step: int, problem: str) -> None:
        """Raise on all ranks what went wrong on some."""
        problems = dict(enumerate(self._ranks.gather(problem)))
        if any(problems.values()):
            raise CheckpointError(failure(step, {r: p for r, p in problems.items() if p}))

    def _known_grids(self) -> dict[str, tuple[int, ...]]:
        if self._ranks.rank:
            return {}
        try:
            _, checkpoint = find(self._store, self.run)
            fragments = [read_fragment(self._store, oid) for oid in checkpoint.fragments]
        except NBRewindError:
            return {}
        return {tensor.name: tensor.grid for each in fragments for tensor in each.tensors}


def _said(problem: Exception) -> str:
    """What an error of anybody's says."""
    return str(problem) if isinstance(problem, NBRewindError) else f"{problem!r}"
