"""Ranks that save for ever, until some of them are killed; then others go on from what is there.

`python kills.py PLACE SEED ROUNDS` prints one line of JSON for each round. The ranks are forked
off a process that has imported torch, so that a round takes a fraction of a second.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
import torch.distributed as dist

from nbrewind.errors import CheckpointError
from nbrewind.training.checkpointer import Checkpointer
from nbrewind.training.verifying import verify

ROWS = 3000


def value(step: int) -> torch.Tensor:
    """What a tensor of some size is at a step."""
    return torch.arange(ROWS * 50, dtype=torch.float32).reshape(ROWS, 50) * 0.5 + step


def rank(number: int, world: int, meeting: str, place: str, acknowledged: str, seed: int) -> None:
    """Load, then save step after step."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=number, world_size=world)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (world,))
    checkpoints = Checkpointer("run", place, timeout=20, deltas=bool(seed % 2))
    shard = distribute_tensor(value(0), mesh, [Shard(seed % 2)])
    state = {"x": shard, "step": 0, "own": torch.full((5,), float(number))}
    step = 0
    if checkpoints.ranks.gather(checkpoints.steps())[0]:
        found = checkpoints.load(state)
        step = found.step
        assert found.values["step"] == step
        assert torch.equal(shard.full_tensor(), value(step)), "a wrong restore"
    while True:
        step += 1
        with torch.no_grad():
            shard.to_local().add_(1)
        state["step"] = step
        pending = checkpoints.save_later(state, step=step)
        if seed % 3 == 0:
            pending.wait()
        elif step % 3 == 0:
            checkpoints.wait()
        if pending.done() and number == 0:
            with open(acknowledged, "a") as file:
                file.write(f"{pending.wait().step}\n")


def fork(function: object, *args: object) -> int:
    """Run a function in a child; its exit code tells what happened."""
    pid = os.fork()
    if pid:
        return pid
    code = 0
    try:
        function(*args)  # type: ignore[operator]
    except CheckpointError:
        code = 3  # another rank was killed
    except AssertionError as exc:
        sys.stderr.write(f"{exc}\n")
        code = 4
    except BaseException as exc:
        sys.stderr.write(f"{exc!r}\n")
        code = 5
    finally:
        sys.stderr.flush()
        os._exit(code)


def one_round(place: str, seed: int, folder: str) -> dict[str, object]:
    rng = random.Random(seed)
    world = rng.choice([1, 2, 3])
    acknowledged = Path(folder, f"acknowledged-{seed}")
    acknowledged.touch()
    meeting = tempfile.mktemp(dir=folder)
    pids = [
        fork(rank, number, world, meeting, place, str(acknowledged), seed)
        for number in range(world)
    ]
    patience = time.monotonic() + 60
    while not acknowledged.read_text() and time.monotonic() < patience:
        time.sleep(0.01)
    time.sleep(rng.random() * 0.4)
    victims = rng.sample(pids, rng.choice([1, 1, world]))
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    codes = []
    for pid in pids:
        _, status = os.waitpid(pid, 0)
        codes.append(os.waitstatus_to_exitcode(status))
    steps = [*map(int, acknowledged.read_text().split())]
    return {
        "seed": seed,
        "world": world,
        "killed": len(victims),
        "codes": codes,
        "acknowledged": max(steps, default=0),
    }


def look(place: str, acknowledged: int) -> dict[str, object]:
    """What a reader finds."""
    with Checkpointer("run", place) as checkpoints:
        found = checkpoints.load({"x": None, "step": None})
        right = torch.equal(found.values["x"], value(found.step))
        from nbrewind.training.finding import find

        sound = verify(checkpoints.store, find(checkpoints.store, "run")[1])
    return {
        "newest": found.step,
        "right": right and found.values["step"] == found.step and sound.sound,
        "lost": found.step < acknowledged,
    }


def main() -> None:
    place, seed, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        acknowledged = 0
        for number in range(seed, seed + rounds):
            result = one_round(place, number, folder)
            acknowledged = max(acknowledged, int(str(result["acknowledged"])))
            # In a child: no thread of a store may be alive when ranks are forked.
            reader, writer = os.pipe()
            child = os.fork()
            if not child:
                os.write(writer, json.dumps(look(place, acknowledged)).encode())
                os._exit(0)
            os.close(writer)
            with os.fdopen(reader) as pipe:
                result |= json.loads(pipe.read() or '{"right": false}')
            os.waitpid(child, 0)
            sys.stdout.write(json.dumps(result) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
