"""Checkpoints of training next to torch's own: `python tests/benchmarks/training.py [--quick]`.

Two ranks have a state of float32 tensors, sharded by rows, as FSDP has them; every step changes all
of it. *Stall* is the time until training may go on, the longer one of the ranks', compared with
one copy of the rank's part into memory that is in use. The sides take turns; times are medians.
"""

from __future__ import annotations

import contextlib
import io
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
from tables import keep, options, show

from nbrewind.testing.rank_pool import RankPool

cloudpickle.register_pickle_by_value(sys.modules[__name__])

TENSORS = 16


def state_of(megabytes: int, world: int) -> dict[str, Any]:
    """Sharded tensors of this size in all."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    mesh = init_device_mesh("cpu", (world,))
    rows = megabytes * 1_000_000 // TENSORS // 4 // 1024 // world
    generator = torch.Generator().manual_seed(mesh.get_rank())
    return {
        f"layer{number}": DTensor.from_local(
            torch.randn(rows, 1024, generator=generator), mesh, [Shard(0)], run_check=False
        )
        for number in range(TENSORS)
    }


def change(state: dict[str, Any]) -> None:
    """A step."""
    for tensor in state.values():
        tensor.to_local().add_(1e-3)


@contextlib.contextmanager
def timed(times: dict[str, list[float]], name: str) -> Iterator[None]:
    """Wall and processor time of a block, after the ranks have met."""
    import torch.distributed as dist

    dist.barrier()
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    times.setdefault(name, []).append(time.perf_counter() - wall)
    times.setdefault(f"{name}, cpu", []).append(time.process_time() - cpu)


def measure(megabytes: int, world: int, rounds: int, folder: str) -> dict[str, float]:
    """Median seconds of everything on one rank."""
    import shutil

    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

    from nbrewind.training.checkpointer import Checkpointer

    warnings.simplefilter("ignore")
    state = state_of(megabytes, world)
    parts = [tensor.to_local() for tensor in state.values()]
    copies = [torch.empty_like(part).fill_(0) for part in parts]
    times: dict[str, list[float]] = {}
    ours = Checkpointer("bench", Path(folder, "store"))
    stager = DefaultStager(
        StagingOptions(
            use_pinned_memory=False,
            use_shared_memory=False,
            use_async_staging=False,
            use_non_blocking_copy=False,
        )
    )
    for number in range(rounds + 1):
        if number == 1:
            times.clear()  # the first touches fresh memory, and makes plans
        change(state)
        with timed(times, "copy"):
            torch._foreach_copy_(copies, parts)
        with timed(times, "ours, stall"):
            ours.save_later(state, step=number)
        with timed(times, "ours, rest"):
            ours.wait()
        with timed(times, "ours, save"):
            change(state)
            ours.save(state, step=number)
        with timed(times, "ours, load"):
            ours.load(state)
        place = Path(folder, f"dcp {number}")
        with timed(times, "dcp, save"):
            dcp.save(state, storage_writer=dcp.FileSystemWriter(place, sync_files=True))
        with timed(times, "dcp, load"):
            dcp.load(state, storage_reader=dcp.FileSystemReader(place))
        with timed(times, "async_save, stall"):
            future: Any = dcp.async_save(state, storage_writer=dcp.FileSystemWriter(place))
        future.result()
        with timed(times, "kept stager, stall"):
            future = dcp.async_save(
                state, storage_writer=dcp.FileSystemWriter(place), async_stager=stager
            )
        future.result()  # it staged within the call
        mine = Path(folder, f"rank{dist.get_rank()}.pt")
        with timed(times, "torch.save"), open(mine, "wb") as file:
            torch.save(parts, file)
            os.fsync(file.fileno())
        dist.barrier()
        if dist.get_rank() == 0:
            shutil.rmtree(place, ignore_errors=True)
    ours.close()
    stager.close()
    return {name: statistics.median(each) for name, each in times.items()}


def recovered(megabytes: int, world: int, rounds: int, folder: str) -> dict[str, float]:
    """Seconds until a new job may make its first step: everything is opened, found and read."""
    import torch
    import torch.distributed as dist

    from nbrewind.training.checkpointer import Checkpointer

    state = state_of(megabytes, world)
    parts = [tensor.to_local() for tensor in state.values()]
    mine = Path(folder, f"rank{dist.get_rank()}.pt")
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        with timed(times, "ours"), Checkpointer("bench", Path(folder, "store")) as ours:
            ours.load(state)
        with timed(times, "torch.load"):
            for part, saved in zip(parts, torch.load(mine), strict=True):
                part.copy_(saved)
    return {name: statistics.median(each) for name, each in times.items()}


def small(rounds: int, folder: str) -> dict[str, Any]:
    """5,000 tensors of 1 KB in one process."""
    import torch
    import torch.distributed.checkpoint as dcp

    from nbrewind.training.checkpointer import Checkpointer

    warnings.simplefilter("ignore")
    state = {f"x{number}": torch.randn(16, 16) for number in range(5000)}
    times: dict[str, list[float]] = {"ours": [], "torch.save": [], "dcp": []}
    with Checkpointer("small", Path(folder, "small")) as ours:
        for number in range(rounds + 1):
            for tensor in state.values():
                tensor.add_(1e-3)
            sides: dict[str, Callable[[], Any]] = {
                "ours": lambda number=number: ours.save(state, step=number),
                "torch.save": lambda: _torch_save(state, Path(folder, "small.pt")),
                "dcp": lambda number=number: dcp.save(
                    state,
                    storage_writer=dcp.FileSystemWriter(Path(folder, f"small {number}")),
                    no_dist=True,
                ),
            }
            for name, side in sides.items():
                start = time.perf_counter()
                side()
                if number:
                    times[name].append(time.perf_counter() - start)
    one = {name: statistics.median(each) for name, each in times.items()}
    return {
        "5,000 tensors of 1 KB": "save",
        "ms, torch.save": round(one["torch.save"] * 1e3, 1),
        "ours / torch.save": round(one["ours"] / one["torch.save"], 2),
        "dcp / torch.save": round(one["dcp"] / one["torch.save"], 2),
    }


def _torch_save(state: dict[str, Any], path: Path) -> None:
    import torch

    with open(path, "wb") as file:
        torch.save(state, file)
        os.fsync(file.fileno())


def written(folder: str, quick: bool) -> list[dict[str, Any]]:
    """Bytes that are stored, over those of the state."""
    import torch

    from nbrewind.training.checkpointer import Checkpointer

    rows = []
    width = 256 if quick else 1024

    def stored(place: Path) -> int:
        return sum(file.stat().st_size for file in place.rglob("*.pack"))

    layers = {f"l{number}": torch.randn(width, width) for number in range(10)}
    place = Path(folder, "frozen")
    with Checkpointer("frozen", place) as ours:
        ours.save(layers, step=0)
        full = stored(place)
        layers["l9"].add_(torch.randn(width, width))
        ours.save(layers, step=1)
    rows.append(("90 % frozen", (stored(place) - full) / full, 0.11))

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        *(torch.nn.Linear(width, width, bias=False) for _ in range(4))
    ).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    place = Path(folder, "deltas")
    with Checkpointer("deltas", place, deltas=True) as ours:
        for step in range(20):
            optimizer.zero_grad()
            model(torch.randn(16, width).bfloat16()).pow(2).mean().backward()
            optimizer.step()
            ours.save({"model": model}, step=step)
    whole = 20 * 4 * width * width * 2
    rows.append(("dense bf16, 20 steps, differences", stored(place) / whole, 0.6))
    return [
        {"stored / state": name, "ratio": round(ratio, 4), "aim": aim} for name, ratio, aim in rows
    ]


def resharded(world: int, dim: int, megabytes: int, place: str) -> int:
    """Save the same whole tensors from these ranks; returns the bytes of packs afterwards."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    from nbrewind.training.checkpointer import Checkpointer

    mesh = init_device_mesh("cpu", (world,))
    generator = torch.Generator().manual_seed(5)
    rows = megabytes * 1_000_000 // 4 // 4 // 1024
    whole = {f"x{n}": torch.randn(rows, 1024, generator=generator) for n in range(4)}
    state = {name: distribute_tensor(each, mesh, [Shard(dim)]) for name, each in whole.items()}
    with Checkpointer(f"reshard {dim}", place) as ours:
        ours.save(state, step=world)
    return sum(file.stat().st_size for file in Path(place).rglob("*.pack"))


def stalls(times: list[dict[str, float]], megabytes: int) -> list[dict[str, Any]]:
    """Ratios, of the slower rank each."""
    worst = {name: max(each[name] for each in times) for name in times[0]}
    stall, copy = worst["ours, stall"], worst["copy"]
    rivals = {
        "one copy": (copy, 1.5),
        "dcp.save": (worst["dcp, save"], 0.15),
        "dcp.async_save": (worst["async_save, stall"], 0.4),
        "dcp.async_save, stager kept": (worst["kept stager, stall"], 1.0),
        "torch.save": (worst["torch.save"], ""),
    }
    rows: list[dict[str, Any]] = [
        {
            f"stall, {megabytes} MB, {len(times)} ranks": name,
            "ms, rival": round(rival * 1e3, 1),
            "ms, ours": round(stall * 1e3, 1),
            "ours / rival": round(stall / rival, 3),
            "aim": aim,
        }
        for name, (rival, aim) in rivals.items()
    ]
    return rows


def processor(times: list[dict[str, float]]) -> list[dict[str, Any]]:
    """Processor and wall time of whole saves and loads, over torch's."""
    total = {name: sum(each[name] for each in times) for name in times[0]}
    return [
        {
            "over dcp": what,
            "processor": round(total[f"ours, {what}, cpu"] / total[f"dcp, {what}, cpu"], 2),
            "wall": round(total[f"ours, {what}"] / total[f"dcp, {what}"], 2),
            "aim": 1.1 if what == "save" else 1.2,
        }
        for what in ("save", "load")
    ]


def main() -> None:
    """Print and keep the tables."""
    given = options("Checkpoints of training next to torch's own.")
    megabytes = 16 if given.quick else 400
    rounds = given.rounds or (1 if given.quick else 5)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.simplefilter("ignore")
    kept: list[dict[str, Any]] = []

    def table(title: str, rows: list[dict[str, Any]]) -> None:
        show(title, rows)
        print()  # noqa: T201
        kept.extend(rows)

    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", ".")) as folder:
        pools = {2: RankPool(2, Path(folder))}
        with contextlib.redirect_stderr(io.StringIO()):
            times = pools[2].run(measure, megabytes, 2, rounds, folder, timeout=3000)
        table("Time until training goes on", stalls(times, megabytes))
        table("Whole saves and loads", processor(times))
        again = pools[2].run(recovered, megabytes, 2, rounds, folder)
        worst = {name: max(each[name] for each in again) for name in again[0]}
        ratio = round(worst["ours"] / worst["torch.load"], 2)
        row = {"until the first step": "over torch.load of each rank's file", "ratio": ratio}
        table("Going on after a kill", [row])
        table("Many small tensors", [small(rounds, folder)])
        table("Bytes written", written(folder, given.quick))
        pools[4] = RankPool(4, Path(folder))
        rows = []
        for dim in (0, 1):
            place = str(Path(folder, f"reshard {dim}"))
            size = 16 if given.quick else 64
            before = pools[2].run(resharded, 2, dim, size, place)[0]
            after = pools[4].run(resharded, 4, dim, size, place)[0]
            rows.append(
                {
                    "saved again": f"2 to 4 ranks, dimension {dim}",
                    "new / state": round((after - before) / before, 4),
                    "aim": 0.1,
                }
            )
        table("The same values from other ranks", rows)
        for pool in pools.values():
            pool.close()
    keep(kept, given.json)


if __name__ == "__main__":
    main()
