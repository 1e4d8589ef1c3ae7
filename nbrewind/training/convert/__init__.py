"""Checkpoints of other formats, read and written as logical tensors.

`open_source` reads; `write_safetensors`, `write_torch`, `write_dcp` and `write_ranks` write.
Nothing that is read is executed unless whoever calls says that it is trusted.
"""

from __future__ import annotations

from nbrewind.training.convert.dcp_writing import write_dcp
from nbrewind.training.convert.opening import FORMATS, TARGETS, detected, open_source
from nbrewind.training.convert.ranks import merged, read_ranks, write_ranks
from nbrewind.training.convert.safetensors import write_safetensors
from nbrewind.training.convert.sources import LogicalPart, LogicalTensor, Source
from nbrewind.training.convert.torch_files import write_torch

__all__ = [
    "FORMATS",
    "TARGETS",
    "LogicalPart",
    "LogicalTensor",
    "Source",
    "detected",
    "merged",
    "open_source",
    "read_ranks",
    "write_dcp",
    "write_ranks",
    "write_safetensors",
    "write_torch",
]
