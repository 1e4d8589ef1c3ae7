"""Writes the golden checkpoints of the current format: `python make_checkpoints.py DIRECTORY`.

Run once per format; the result is committed and never written again. Two ranks save three steps of
a state that has every kind of tensor and value; `contents.json` says what a reader must find.
The signing key is thrown away, its public half is in `writer.key`.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

STEPS = (1, 2, 3)
VALUES: dict[str, Any] = {
    "epoch": 2,
    "large": 2**70,
    "complex": 1 + 2j,
    "tuple": (1, [2.5, None, {"deep": b"bytes"}]),
    "keys": {0: "zero", "0": "text", (1, "a"): True},
    "ordered": OrderedDict(b=1, a=2),
    "sets": [{1, 2}, frozenset("ab")],
    "empty": [[], {}, ()],
}


def tensors(step: int, rank: int) -> dict[str, Any]:
    """The whole tensors of a step, but `own`, which each rank has for itself."""
    import torch

    generator = torch.Generator().manual_seed(11)
    half = torch.randn(150_000, generator=generator).bfloat16()
    for later in range(1, step):
        change = torch.rand(150_000, generator=torch.Generator().manual_seed(later)) < 0.05
        half = torch.where(change, half * (1 + 2.0**-7), half)
    return {
        "rows": torch.arange(60_000, dtype=torch.float32).reshape(300, 200) + step,
        "columns": torch.arange(7 * 11, dtype=torch.float64).reshape(7, 11) * step,
        "blocks": torch.arange(120 * 1100, dtype=torch.int32).reshape(120, 1100),
        "half": half,
        "scalar": torch.tensor(step),
        "flags": torch.tensor([True, False, True]),
        "waves": torch.arange(6) * torch.tensor(1j, dtype=torch.complex128),
        "none": torch.empty(0, 4, dtype=torch.float16),
        "own": torch.full((5,), float(rank)),
    }


def save(place: str) -> None:
    """On each of two ranks."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    from nbrewind.training.checkpointer import Checkpointer

    mesh = init_device_mesh("cpu", (2,))
    with Checkpointer("golden", place, deltas=True) as checkpoints:
        for step in STEPS:
            found = tensors(step, dist.get_rank())
            for name, dim in (("rows", 0), ("columns", 1), ("blocks", 1)):
                found[name] = distribute_tensor(found[name], mesh, [Shard(dim)])
            notes = {"made by": "make_checkpoints.py"}
            state = {"tensors": found, "values": VALUES}
            checkpoints.save(state, step=step, final=step == STEPS[-1], notes=notes)


def digest(tensor: Any) -> str:
    """Of the elements in row-major order."""
    import torch

    flat = tensor.contiguous().reshape(-1)
    return hashlib.sha256(flat.view(torch.uint8).numpy().tobytes()).hexdigest()


def main(directory: Path) -> None:
    """Write store, public key and list of contents."""
    from nbrewind.store import trust
    from nbrewind.testing.rank_pool import RankPool

    with tempfile.TemporaryDirectory() as keys:
        os.environ["NBREWIND_CONFIG_DIR"] = keys
        directory.mkdir(parents=True)
        ranks = RankPool(2, Path(keys), by_value=[sys.modules[__name__]])
        ranks.run(save, str(directory / "store"))
        ranks.close()
        (directory / "writer.key").write_text(trust.own_key().hex() + "\n")
    expected = {
        str(step): {
            name: [str(tensor.dtype), list(tensor.shape), digest(tensor)]
            for name, tensor in tensors(step, 0).items()
        }
        for step in STEPS
    }
    (directory / "contents.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
