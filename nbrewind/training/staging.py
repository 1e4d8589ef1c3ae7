"""Memory that a state is copied to, so that training can go on while it is written.

It is made once and used for every save: the first touch of a fresh page costs several times the
copy. Where there is an accelerator it is page-locked, so that copies run at the bus's speed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

_ALIGNED = 64


class Stage:
    """Memory for the boxes that one rank saves."""

    def __init__(self) -> None:
        self._memory = torch.empty(0, dtype=torch.uint8)
        self._views: list[torch.Tensor] = []
        self._shape: list[tuple[tuple[int, ...], torch.dtype]] = []

    @property
    def nbytes(self) -> int:
        """Bytes it occupies."""
        return self._memory.numel()

    def views(self, sources: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Memory for copies of tensors, contiguous and on the CPU; valid until the next call."""
        shape = [(tuple(each.shape), each.dtype) for each in sources]
        if shape != self._shape:
            self._make(shape)
        return self._views

    def _make(self, shape: list[tuple[tuple[int, ...], torch.dtype]]) -> None:
        starts = []
        end = 0
        for lengths, dtype in shape:
            starts.append(end)
            size = dtype.itemsize
            for length in lengths:
                size *= length
            end += -(-size // _ALIGNED) * _ALIGNED
        if end > self._memory.numel():
            self._memory = torch.empty(0, dtype=torch.uint8)  # the old one goes first
            locked = torch.accelerator.is_available()
            self._memory = torch.empty(end, dtype=torch.uint8, pin_memory=locked)
        self._views = []
        for start, (lengths, dtype) in zip(starts, shape, strict=True):
            count = 1
            for length in lengths:
                count *= length
            flat = self._memory[start : start + count * dtype.itemsize]
            self._views.append(flat.view(dtype).view(lengths))
        self._shape = shape


def copy_all(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> None:
    """Copy tensors, on any device and of any strides, to memory on the CPU."""
    pairs = list(zip(targets, sources, strict=True))
    here = [pair for pair in pairs if pair[1].device.type == "cpu"]
    with torch.no_grad():
        if here:
            torch._foreach_copy_([to for to, _ in here], [of for _, of in here])
        if len(here) < len(pairs):
            for to, of in pairs:
                if of.device.type != "cpu":
                    to.copy_(of, non_blocking=True)
            torch.accelerator.synchronize()
