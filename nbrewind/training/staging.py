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

    def copy(self, sources: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Copies of tensors, contiguous and on the CPU; valid until the next call.

        Args:
            sources: Tensors on any device, of any strides.
        """
        shape = [(tuple(each.shape), each.dtype) for each in sources]
        if shape != self._shape:
            self._make(shape)
        with torch.no_grad():
            same = [
                (view, each)
                for view, each in zip(self._views, sources, strict=True)
                if each.device.type == "cpu"
            ]
            if same:
                torch._foreach_copy_([view for view, _ in same], [each for _, each in same])
            others = [each.device for each in sources if each.device.type != "cpu"]
            for view, each in zip(self._views, sources, strict=True):
                if each.device.type != "cpu":
                    view.copy_(each, non_blocking=True)
            if others:
                torch.accelerator.synchronize()
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
