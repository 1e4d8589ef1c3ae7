"""The states of random number generators: Python's, NumPy's, torch's on CPU and accelerator."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch


def capture() -> dict[str, Any]:
    """The states of all generators, as plain values."""
    states: dict[str, Any] = {
        "python": random.getstate(),
        "torch": torch.get_rng_state().numpy().tobytes(),
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind, keys, position, has_gauss, gauss = numpy.random.get_state()
        states["numpy"] = [kind, keys.tobytes(), int(position), int(has_gauss), float(gauss)]
    device = _device()
    if device is not None:
        states["accelerator"] = device.get_rng_state().cpu().numpy().tobytes()
    return states


def put(states: dict[str, Any]) -> None:
    """Go on from states that `capture` took; generators that are not there are passed over."""
    version, keys, gauss = states["python"]
    random.setstate((version, tuple(keys), gauss))
    torch.set_rng_state(_tensor(states["torch"]))
    if "numpy" in states:
        import numpy as np

        kind, raw, position, has_gauss, cached = states["numpy"]
        np.random.set_state((kind, np.frombuffer(raw, np.uint32), position, has_gauss, cached))
    device = _device()
    if device is not None and "accelerator" in states:
        device.set_rng_state(_tensor(states["accelerator"]))


def state_of(generator: torch.Generator) -> bytes:
    """The state of one generator of torch's."""
    return generator.get_state().cpu().numpy().tobytes()


def put_into(generator: torch.Generator, state: bytes) -> None:
    """Let one generator of torch's go on from a state."""
    generator.set_state(_tensor(state))


def _tensor(raw: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8)


def _device() -> Any:
    """Torch's module for the accelerator, if it is in use."""
    accelerator = getattr(torch, "accelerator", None)  # from torch 2.6 on
    if accelerator is None or not accelerator.is_available():
        return None
    module = torch.get_device_module(accelerator.current_accelerator())
    in_use = getattr(module, "is_initialized", lambda: True)()
    return module if in_use and hasattr(module, "get_rng_state") else None
