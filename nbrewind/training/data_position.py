"""Where a loop is in its data, and how to get there again.

A loader that keeps its own position (`torchdata`'s `StatefulDataLoader`) is asked for it. For
a plain `DataLoader` the position is the epoch, the number of batches taken, and the states of
the generators as they were when the epoch began: begun from there again, and run up to the
position, it gives the same batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
)

from nbrewind.errors import CheckpointError
from nbrewind.training import generators


class DataPosition:
    """The position in one loader, or in anything that can be iterated again and again.

    Args:
        loader: what gives the batches; None: there are none, every step gets None.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._stateful = hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")
        self._epoch = 0
        self._batch = 0
        self._began: dict[str, Any] = {}
        self._batches: Iterator[Any] | None = None

    def take(self) -> Any:
        """The next batch; epochs follow each other."""
        if self._loader is None:
            return None
        if self._batches is None:
            self._batches = self._begin()
        try:
            batch = next(self._batches)
        except StopIteration:
            if not self._batch:
                raise CheckpointError("the loader has no batches at all") from None
            self._epoch += 1
            self._batch = 0
            self._batches = self._begin()
            return self.take()
        self._batch += 1
        return batch

    def state(self) -> dict[str, Any]:
        """The position after the batches taken so far, as plain values."""
        if self._loader is None:
            return {}
        if self._stateful:
            return {"epoch": self._epoch, "batch": self._batch, "own": self._loader.state_dict()}
        found = {"epoch": self._epoch, "batch": self._batch, "began": self._began}
        samples = self._samples_per_batch()
        return found if samples is None else {**found, "samples": samples * self._batch}

    def restore(self, state: dict[str, Any]) -> None:
        """Go to a position; the generators are left as the loader leaves them.

        Raises:
            CheckpointError: with the batches of now it is in the middle of one.
        """
        if self._loader is None or not state:
            return
        self._epoch, self._batch = state["epoch"], state["batch"]
        if self._stateful and "own" in state:
            self._loader.load_state_dict(state["own"])
            self._batches = iter(self._loader)
            return
        samples = self._samples_per_batch()
        if samples is not None and "samples" in state:
            self._batch, rest = divmod(state["samples"], samples)
            if rest:
                raise CheckpointError(
                    f"the run stopped after {state['samples']} samples of an epoch, in the middle "
                    f"of a batch of {samples} over all ranks: take a batch size and a number of "
                    "ranks that divide it"
                )
        if state.get("began"):
            self._put_generators(state["began"])
        self._batches = self._begin()
        self._skip(self._batch)

    def _begin(self) -> Iterator[Any]:
        for sampler in self._samplers():
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(self._epoch)
        if not self._stateful:
            own = [generators.state_of(each) for each in self._generators()]
            self._began = {"all": generators.capture(), "own": own}
        return iter(self._loader)

    def _skip(self, count: int) -> None:
        batches = self._batches
        assert batches is not None
        # Where no sampler draws while it goes on, samples need not be loaded to pass them over.
        indices = getattr(batches, "_next_index", None)
        if indices is not None and self._is_plain():
            for _ in range(count):
                indices()
            return
        for _ in range(count):
            next(batches)

    def _is_plain(self) -> bool:
        loader = self._loader
        sampler = getattr(loader, "sampler", None)
        known = type(sampler) in (SequentialSampler, DistributedSampler) or (
            type(sampler) is RandomSampler and not sampler.replacement
        )
        return (
            type(loader) is DataLoader
            and loader.num_workers == 0
            and type(loader.batch_sampler) is BatchSampler
            and known
        )

    def _samples_per_batch(self) -> int | None:
        """Samples of all ranks in one batch, where ranks share the samples among them."""
        size = getattr(self._loader, "batch_size", None)
        for sampler in self._samplers():
            if isinstance(sampler, DistributedSampler) and size:
                return int(size) * int(sampler.num_replicas)
        return None

    def _samplers(self) -> list[Any]:
        batch_sampler = getattr(self._loader, "batch_sampler", None)
        found = [
            getattr(self._loader, "sampler", None),
            batch_sampler,
            getattr(batch_sampler, "sampler", None),
        ]
        return [each for n, each in enumerate(found) if each is not None and each not in found[:n]]

    def _generators(self) -> list[torch.Generator]:
        """Generators that belong to the loader and its samplers."""
        owners = [self._loader, *self._samplers()]
        found = [getattr(owner, "generator", None) for owner in owners]
        unique: list[torch.Generator] = []
        for each in found:
            if isinstance(each, torch.Generator) and all(each is not one for one in unique):
                unique.append(each)
        return unique

    def _put_generators(self, began: dict[str, Any]) -> None:
        generators.put(began["all"])
        for generator, state in zip(self._generators(), began["own"], strict=False):
            generators.put_into(generator, state)
