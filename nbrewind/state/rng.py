"""Global random number generators: Python's, numpy's legacy one, torch's on CPU and GPU.

A generator nobody has touched is as the operating system seeded it. That state is
never part of a version: it is called `entropy` until the generator moves.
"""

from __future__ import annotations

import pickle
import random
import sys
from array import array
from collections.abc import Hashable
from typing import Any

from nbrewind.model.versions import ENTROPY, Version, content_version
from nbrewind.state.deltas import canonical
from nbrewind.state.providers import Kind


class Generator:
    """What all generators share: `entropy` until moved, one comparison while unmoved."""

    name = ""
    library = ""
    module = ""
    kind: Kind = "rng"
    mentions: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._start: Hashable = None
        self._last: Hashable = None
        self._version: Version = ENTROPY

    def active(self) -> bool:
        """Whether the generator's module is imported."""
        return not self.module or self.module in sys.modules

    def mark(self) -> None:
        """Call the present state `entropy`."""
        self._start = self._last = self.peek()
        self._version = ENTROPY

    def digest(self) -> Version:
        """`entropy`, or the version of the present state."""
        now = self.peek()
        if now != self._last:
            self._last = now
            moved = now != self._start
            self._version = content_version("rng", canonical(now)) if moved else ENTROPY
        return self._version

    def capture(self) -> bytes | None:
        """The present state."""
        return pickle.dumps(self.peek(), 5)

    def restore(self, state: bytes) -> None:
        """Continue from a captured state: one that was chosen, even if it equals the start."""
        self.put(pickle.loads(state))
        self._start = self._last = None

    def read(self) -> Hashable:
        """The present state, for `absorb`."""
        return self.peek()

    def absorb(self, before: object) -> None:
        """Draws of a library while it is imported leave an untouched generator untouched.

        A state that the notebook chose is another matter: what follows depends on it.
        """
        if before == self._start:
            self.mark()

    def peek(self) -> Hashable:
        """The present state as plain immutable data."""
        raise TypeError(f"{type(self).__name__} does not say how to read its state")

    def put(self, state: Any) -> None:
        """Set a state that `peek` returned."""
        raise TypeError(f"{type(self).__name__} does not say how to set its state")


class PythonRandom(Generator):
    """The hidden instance behind `random.random()` and friends."""

    name = "random"
    library = "random"
    mentions = frozenset({"seed", "getstate", "setstate"})

    def peek(self) -> Hashable:
        """Version number, Mersenne Twister words as bytes, next Gaussian."""
        version, words, gauss = random.getstate()
        return version, array("Q", words).tobytes(), gauss

    def put(self, state: Any) -> None:
        """Set a state that `peek` returned."""
        version, words, gauss = state
        random.setstate((version, tuple(array("Q", words)), gauss))


class NumpyRandom(Generator):
    """The legacy global generator behind `numpy.random.rand()` and friends."""

    name = "numpy.random"
    library = "numpy"
    module = "numpy.random"
    mentions = frozenset(
        {"seed", "get_state", "set_state", "get_bit_generator", "set_bit_generator"}
    )

    def peek(self) -> Hashable:
        """Bit generator's name, its state frozen, and the pending Gaussian."""
        return _freeze(sys.modules["numpy.random"].get_state(legacy=False))

    def put(self, state: Any) -> None:
        """Set a state that `peek` returned; changes the bit generator if it was another."""
        numpy_random = sys.modules["numpy.random"]
        thawed = _thaw(state)
        kind = thawed["bit_generator"]
        if numpy_random.get_bit_generator().state["bit_generator"] != kind:
            numpy_random.set_bit_generator(getattr(numpy_random, kind)())
        numpy_random.set_state(thawed)


class TorchCpu(Generator):
    """torch's default generator on the CPU."""

    name = "torch.random"
    library = "torch"
    module = "torch"
    mentions = frozenset(
        {"manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state", "fork_rng"}
    )

    def peek(self) -> Hashable:
        """The generator's state tensor as bytes."""
        raw: bytes = sys.modules["torch"].random.get_rng_state().numpy().tobytes()
        return raw

    def put(self, state: Any) -> None:
        """Set a state that `peek` returned."""
        torch = sys.modules["torch"]
        torch.random.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


class TorchCuda(Generator):
    """torch's default generators on all GPUs.

    Before CUDA is initialised its generators do not exist, but a seed may already be
    waiting for them (`torch.manual_seed` queues one): that seed is then the state.
    """

    name = "torch.cuda.random"
    library = "torch"
    module = "torch"
    mentions = frozenset(
        {"manual_seed", "manual_seed_all", "seed", "seed_all", "initial_seed"}
        | {"get_rng_state", "get_rng_state_all", "set_rng_state", "set_rng_state_all", "fork_rng"}
    )

    def active(self) -> bool:
        """Whether this torch can use GPUs at all."""
        torch = sys.modules.get("torch")
        cuda = getattr(torch, "cuda", None)
        return cuda is not None and bool(cuda._is_compiled())

    def digest(self) -> Version:
        """As for every generator; CUDA's own initialisation is not a move."""
        now = self.peek()
        if self._start == ("waiting", None) and self._just_initialised(now):
            self._start = self._last = now
            self._version = ENTROPY
        return super().digest()

    def peek(self) -> Hashable:
        """States of all devices, or the seed that waits for CUDA's initialisation."""
        cuda = sys.modules["torch"].cuda
        if not cuda.is_initialized():
            return "waiting", _waiting_seed(cuda)
        return "states", tuple(state.numpy().tobytes() for state in cuda.get_rng_state_all())

    def put(self, state: Any) -> None:
        """Set a state that `peek` returned, as far as there are as many devices."""
        torch = sys.modules["torch"]
        kind, value = state
        if kind == "waiting":
            if value is not None:
                torch.cuda.manual_seed_all(value)
            return
        for device, raw in enumerate(value[: torch.cuda.device_count()]):
            tensor = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
            torch.cuda.set_rng_state(tensor, device)

    def _just_initialised(self, now: Any) -> bool:
        # The Philox state is seed and offset, 8 bytes each; offset 0 means nothing was drawn,
        # and torch's default seed means that nobody seeded it either.
        default_seed = 67280421310721
        fresh = default_seed.to_bytes(8, "little") + bytes(8)
        return now[0] == "states" and all(raw == fresh for raw in now[1])


def generators() -> list[Generator]:
    """The generators this package knows."""
    return [PythonRandom(), NumpyRandom(), TorchCpu(), TorchCuda()]


def _waiting_seed(cuda: Any) -> int | None:
    """The seed that `torch.manual_seed` left for when CUDA is initialised."""
    tracker = getattr(cuda, "_lazy_seed_tracker", None)
    waiting = getattr(tracker, "manual_seed_all_cb", None)
    if not waiting:
        return None
    callback = waiting[0] if isinstance(waiting, tuple) else waiting
    names = callback.__code__.co_freevars
    cells = callback.__closure__ or ()
    values = {name: cell.cell_contents for name, cell in zip(names, cells, strict=True)}
    seed = values.get("seed")
    return seed if isinstance(seed, int) else None


def _freeze(state: Any) -> Hashable:
    """A bit generator's state as nested tuples; arrays as (dtype, shape, bytes)."""
    if isinstance(state, dict):
        return ("dict", *((key, _freeze(value)) for key, value in state.items()))
    if hasattr(state, "tobytes"):
        return "array", state.dtype.str, state.shape, state.tobytes()
    frozen: Hashable = state
    return frozen


def _thaw(state: Any) -> Any:
    if isinstance(state, tuple) and state[0] == "dict":
        return {key: _thaw(value) for key, value in state[1:]}
    if isinstance(state, tuple) and state[0] == "array":
        _, dtype, shape, raw = state
        return sys.modules["numpy"].frombuffer(raw, dtype=dtype).reshape(shape).copy()
    return state
