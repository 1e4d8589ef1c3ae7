"""A box of a logical tensor, as a rank has it in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nbrewind.model.checkpoints import SavedPart, SavedTensor
from nbrewind.training.boxes import Box

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Part:
    """A box of a logical tensor, as a rank has it in memory."""

    name: str
    dtype: str
    itemsize: int
    shape: tuple[int, ...]
    """Of the logical tensor."""
    grid: tuple[int, ...]
    box: Box
    data: npt.NDArray[Any]
    """Of the shape of the box; any type of the right size, any strides."""
    own: bool = False
    """See `SavedTensor.own`."""

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return self.box.size * self.itemsize

    def saved(self, parts: tuple[SavedPart, ...]) -> SavedTensor:
        """The entry of a fragment for parts of its tensor."""
        return SavedTensor(
            name=self.name,
            dtype=self.dtype,
            itemsize=self.itemsize,
            shape=self.shape,
            grid=self.grid,
            parts=parts,
            own=self.own,
        )


def flat_bytes(block: npt.NDArray[Any]) -> memoryview:
    """The elements in row-major order; a copy only if they do not lie so."""
    return np.ascontiguousarray(block).reshape(-1).view(np.uint8).data
