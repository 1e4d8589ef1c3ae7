"""`session`: a training loop that is saved while it runs, and goes on where it was stopped.

```python
with nt.session(model=model, optimizer=optimizer, every="5min") as run:
    for step, batch in run.steps(loader, until=10_000):
        ...
```

What is saved together, in one checkpoint: the objects that were named, the states of random
number generators, the position in the data and in the loop, and the plain variables that the
cell has assigned. Made again, the session restores the newest checkpoint of the same *run* and
makes the remaining steps, with the result that the run without a stop would have had.
"""

from __future__ import annotations

import logging
import os
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nbrewind.errors import CheckpointError, UsageError
from nbrewind.training import generators, states, trees
from nbrewind.training.checkpointer import Checkpointer
from nbrewind.training.context import Context, current, outputs
from nbrewind.training.data_position import DataPosition
from nbrewind.training.finding import checkpoints
from nbrewind.training.intervals import MEAN_TIME_BETWEEN_FAILURES, Interval, seconds_of
from nbrewind.training.launching.rank import note_progress
from nbrewind.training.stopping import Interrupted, Stopping
from nbrewind.training.tensors import is_tensor
from nbrewind.training.variables import Variables

log = logging.getLogger(__name__)

_OWN = "_session"
_WORD = struct.Struct(">BBI")
_TALK = 0.5
"""Seconds between two moments at which ranks agree whether to save or to stop, about."""


def session(
    run: str = "",
    *,
    every: int | float | str | None = "auto",
    loader: Any = None,
    store: str | os.PathLike[str] | None = None,
    mean_time: float | str = MEAN_TIME_BETWEEN_FAILURES,
    pickles: bool = False,
    timeout: float = 600.0,
    **state: Any,
) -> Session:
    """A training session; a collective call where there are several ranks.

    Args:
        run: the run's name. Under NBRewind's kernels it need not be given: a run is then the same
            as long as the cell and what it reads are the same, but for the number in
            `run.steps(…, until=N)` and the number of ranks. In a script the default is the
            script's name.
        every: when to save: a number of steps, seconds as `float`, a duration such as `5min`,
            `auto`, or None. It is also saved at the end, and when a signal stops the loop.
        loader: where the batches come from; may also be given to `run.steps`.
        store: where checkpoints are; the notebook's store by default.
        mean_time: time between failures that `auto` reckons with.
        pickles: save objects that are not plain values as pickles.
        timeout: seconds after which a rank that does not answer is given up.
        state: what to save, by name: modules, optimizers, schedulers, scalers, anything with
            `state_dict` and `load_state_dict`, lists and dictionaries of plain values or tensors.

    Raises:
        UsageError: there is no name for the run, or an argument makes no sense.
    """
    if _OWN in state:
        raise UsageError(f"{_OWN} is a name of the session's own: call it something else")
    mean = seconds_of(mean_time) if isinstance(mean_time, str) else float(mean_time)
    context = current()
    name = run or (context.run if context is not None else "") or _script_name()
    place = store if store is not None else (context.store if context is not None else None)
    known = None if run else context
    return Session(name, place, Interval(every, mean), loader, state, known, pickles, timeout)


def _script_name() -> str:
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if not file:
        raise UsageError('give the run a name: nt.session("my run", …)')
    return f"script-{Path(file).stem}"


class Session:
    """See `session`, which makes it."""

    def __init__(
        self,
        name: str,
        place: str | os.PathLike[str] | None,
        interval: Interval,
        loader: Any,
        state: Mapping[str, Any],
        context: Context | None,
        pickles: bool,
        timeout: float,
    ) -> None:
        self.name = name
        self.step = 0
        """Steps made so far, those before a stop counted."""
        self.resumed: int | None = None
        """Steps that were restored; None if the run began here."""
        self._place = place
        self._interval = interval
        self._loader = loader
        self._state = dict(state)
        self._context = context
        self._pickles = pickles
        self._timeout = timeout
        # An explicit name may be that of another cell's run.
        self._outputs = outputs() if context is not None else None
        self._stopping = Stopping()
        self._variables = Variables(context.names if context is not None else (), self._state)
        self._loops = 0
        self._loop = 0
        """The loop that runs, or ran last, from 1."""
        self._loop_step = 0
        self._inside = False
        """The body of the loop runs, or has left it in the middle of a step."""
        self._left = False
        """The restored run left its last loop by `break`: it makes no more steps there."""
        self._ended: dict[str, Any] | None = None
        """The generators as the last loop left them."""
        self._data = DataPosition(None)
        self._restored: dict[str, Any] | None = None
        self._looked = False
        self._saved_at = -1
        self._talk_at = 0
        self._talked = 0.0
        self._since = 0
        self._checkpoints: Checkpointer | None = None

    # -- the session ---------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """What is left of a session that has ended: a variable of the notebook, stored as such."""
        return {"name": self.name, "step": self.step, "resumed": self.resumed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["name"], None, Interval(None), None, {}, None, False, 0.0)  # type: ignore[misc]
        self.step, self.resumed = state["step"], state["resumed"]

    def __enter__(self) -> Self:
        self._checkpoints = Checkpointer(
            self.name, self._place, pickles=self._pickles, timeout=self._timeout
        )
        try:
            # What cannot be saved is told now, not when the first checkpoint is due.
            trees.encode(states.collect(self._state), is_tensor, pickles=self._pickles)
        except CheckpointError:
            self._checkpoints.close()
            raise
        self._stopping.enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None and self._looked:
                self._save(final=True)
        finally:
            try:
                self._close()
            finally:
                self._stopping.leave()

    def steps(self, loader: Any = None, until: int | None = None) -> Iterator[tuple[int, Any]]:
        """The steps that are still to be made, with their batches.

        Args:
            loader: where batches come from: a `DataLoader`, or anything that can be iterated again
                and again; by default what the session was given; without one, batches are None.
            until: the number of steps of the whole loop, restored ones included; None: until
                `break`.

        Yields:
            The number of the step, from 0, and its batch.

        Raises:
            Interrupted: a signal came; everything up to the last step is saved.
            CheckpointError: the newest checkpoint does not fit.
        """
        if self._checkpoints is None:
            raise UsageError("the session has not begun: with nt.session(…) as run")
        self._loops += 1
        if not self._looked:
            self._resume(until)
        if self._loops < self._loop:
            return  # this loop was complete
        if self._restored is not None and self._left:
            generators.put(self._restored["generators"])
            self._ended = self._restored["generators"]
            self._restored, self._inside = None, True
            return
        data = DataPosition(self._loader if loader is None else loader)
        if self._restored is not None and self._loops == self._loop:
            data.restore(self._restored["data"])
            generators.put(self._restored["generators"])
        else:
            self._loop_step = 0
        self._restored = None
        self._data, self._loop, self._inside = data, self._loops, False
        self._interval.start(self.step)
        self._ended = None
        try:
            while until is None or self._loop_step < until:
                batch = data.take()
                self._inside = True
                yield self._loop_step, batch
                self._inside = False
                self._loop_step += 1
                self.step += 1
                note_progress()
                self._between_steps()
        finally:
            # What comes after the loop is done again when the session is: from here.
            self._ended = generators.capture()

    # -- saving --------------------------------------------------------------------------

    def _between_steps(self) -> None:
        stop, due = self._agreed()
        if stop:
            self._save(final=False)
            raise Interrupted(f"stopped after step {self.step}; run the cell again to go on")
        if due:
            self._save_later()

    def _agreed(self) -> tuple[bool, bool]:
        """Whether all ranks stop here, and whether they save; every rank gets the same answer."""
        wish = self._stopping.wish != 0
        ranks = self._checkpointer.ranks
        if ranks.world == 1:
            return wish, self._interval.is_due(self.step)
        if self.step < self._talk_at:
            # Steps all ranks count alike; of time they have to talk.
            return False, self._interval.steps is not None and self._interval.is_due(self.step)
        now = time.monotonic()
        made = max(1, self.step - self._since)
        ahead = int(made * _TALK / max(now - self._talked, 1e-6)) if self._talked else 1
        ahead = max(1, min(ahead, 1000, self._interval.steps or 1000))
        word = _WORD.pack(wish, self._interval.is_due(self.step), ahead)
        words = [_WORD.unpack(each) for each in ranks.gather_bytes(word)]
        # The first rank says when to talk again, and what time it is.
        self._talk_at = self.step + words[0][2]
        self._talked, self._since = now, self.step
        return any(stop for stop, _, _ in words), bool(words[0][1])

    def _save_later(self) -> None:
        begun = time.perf_counter()
        try:
            self._checkpointer.save_later(self._all(), step=self.step, notes=self._notes())
            self._saved_at = self.step
        except CheckpointError as problem:
            self._tell(problem)
        self._interval.saved(self.step, time.perf_counter() - begun)

    def _save(self, *, final: bool) -> None:
        if not final and self._saved_at == self.step:
            return
        try:
            self._checkpointer.save(self._all(), step=self.step, final=final, notes=self._notes())
            self._saved_at = self.step
        except CheckpointError as problem:
            self._tell(problem)

    def _close(self) -> None:
        checkpoints, self._checkpoints = self._checkpoints, None
        if checkpoints is not None:
            try:
                checkpoints.close()
            except CheckpointError as problem:
                self._tell(problem)

    def _tell(self, problem: CheckpointError) -> None:
        """A failed save costs a checkpoint, not the training."""
        log.warning("%s", problem)
        sys.stderr.write(f"nbrewind: {problem}\n")

    def _all(self) -> dict[str, Any]:
        own = {
            "loop": self._loop,
            "step": self._loop_step,
            "left": self._inside,
            "data": self._data.state(),
            "generators": self._ended or generators.capture(),
            "variables": self._variables.capture(),
            "outputs": self._outputs.so_far() if self._outputs is not None else b"",
        }
        return {**self._state, _OWN: own}

    def _notes(self) -> dict[str, Any]:
        inputs = self._context.inputs if self._context is not None else ""
        return {"inputs": inputs, "loop": self._loop, "loop_step": self._loop_step}

    @property
    def _checkpointer(self) -> Checkpointer:
        if self._checkpoints is None:
            raise UsageError("the session has ended")
        return self._checkpoints

    # -- going on ------------------------------------------------------------------------

    def _resume(self, until: int | None) -> None:
        """Restore the newest checkpoint of this run, if there is one that can be used."""
        self._looked = True
        step = self._checkpointer.ranks.gather(self._usable(until))[0]
        if step is None:
            return
        loaded = self._checkpointer.load({**self._state, _OWN: {}}, step=step)
        for name, value in self._state.items():
            if name in loaded.values:
                self._state[name] = self._variables.put_into(value, loaded.values[name])
        own = loaded.values[_OWN]
        self._variables.put(own["variables"])
        if self._outputs is not None and own["outputs"]:
            self._outputs.show_again(own["outputs"])
        self._restored = own
        self._loop, self._loop_step, self._left = own["loop"], own["step"], own["left"]
        self.step = self.resumed = self._saved_at = loaded.step

    def _usable(self, until: int | None) -> int | None:
        context = self._context
        checkpointer = self._checkpointer
        checkpointer.store.refresh()
        for _, found in checkpoints(checkpointer.store, self.name):
            notes = found.notes
            step = notes.get("loop_step", found.step)
            if context is not None:
                inputs = notes.get("inputs", "")
                if inputs != context.inputs and (inputs or context.changed):
                    return None
                if context.anew and found.final and not (until is not None and until > step):
                    return None
            if until is not None and notes.get("loop", 1) == 1 and step > until:
                continue  # it was made to go further than is asked for now
            return found.step
        return None
