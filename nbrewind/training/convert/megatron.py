"""Folders of Megatron-LM: the legacy format by ranks; `torch_dist` is read as DCP is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from nbrewind.errors import CheckpointError
from nbrewind.training.convert.ranks import merged
from nbrewind.training.convert.sources import LogicalTensor, Source, leaves
from nbrewind.training.convert.weights_only import NAMESPACE, load
from nbrewind.training.rules import Mesh, Rules, presets
from nbrewind.training.trees import join

_RANK = re.compile(r"mp_rank_(\d+)(?:_(\d+))?")
_FILES = ("model_optim_rng.pt", "model_rng.pt")
_LAYER = re.compile(r"(?<![^.])layers\.(\d+)\.")
_HEAD = "word_embeddings_for_head."
_TRACKER = "latest_checkpointed_iteration.txt"


def read_megatron(
    folder: Path, *, rules: Rules | None = None, swiglu: bool | None = None, trusted: bool = False
) -> Source:
    """Model weights of a checkpoint of `mp_rank_…` folders.

    Layers get their number in the whole model; tensor-parallel parts are joined by rules.

    Args:
        folder: An `iter_…` folder, or the one with the file that names the newest.
        rules: Of tensor parallelism over an axis `tp`; Megatron's own models if None.
        swiglu: Whether gates and values are fused, if there are no rules; as the checkpoint's
            arguments say if None.
        trusted: Load objects of any class, which can execute anything.

    Returns:
        `model`: weights by name; `args`: plain arguments; `iteration`.

    Raises:
        CheckpointError: a file is missing or damaged.
        RuleError: a weight has no rule, or it does not fit.
    """
    folder = iteration_folder(Path(folder))
    states = _states(folder, trusted)
    first = states[0][0]
    arguments = _plain(vars(first["args"])) if hasattr(first.get("args"), "__dict__") else {}
    tp, pp = len(states[0]), len(states)
    if swiglu is None:
        swiglu = bool(arguments.get("swiglu"))
    ranks: list[dict[str, LogicalTensor]] = [
        _renumbered([states[stage][rank] for stage in range(pp)]) for rank in range(tp)
    ]
    names = [*ranks[0]]
    rules = rules or presets.megatron(swiglu=swiglu).limited_to(names)
    tree = {
        "model": merged(ranks, rules, Mesh({"tp": tp})),
        "args": arguments,
        "iteration": first.get("iteration"),
    }
    return Source(tree, "megatron", {"left out": ["optimizer", "rng_state"]})


def iteration_folder(folder: Path) -> Path:
    """The folder of one iteration: itself, or the one that the tracker file names."""
    tracker = folder / _TRACKER
    if not tracker.is_file():
        return folder
    text = tracker.read_text(encoding="utf-8", errors="replace").strip()
    if not re.fullmatch(r"release|\d{1,12}", text, re.ASCII):
        raise CheckpointError(f"{tracker} names no iteration: {text[:40]!r}")
    name = text if text == "release" else f"iter_{int(text):07d}"
    if not (folder / name).is_dir():
        raise CheckpointError(f"{folder / name} is missing: {tracker} names it")
    return folder / name


def _states(folder: Path, trusted: bool) -> list[list[Any]]:
    """What was saved, by stage of the pipeline and rank of tensor parallelism."""
    files: dict[tuple[int, int], Path] = {}
    for path in sorted(folder.glob("mp_rank_*")):
        found = _RANK.fullmatch(path.name)
        if found is None:
            raise CheckpointError(f"{path} is of expert parallelism, which is not known")
        file = next((path / name for name in _FILES if (path / name).is_file()), None)
        if file is None:
            raise CheckpointError(f"{path} has no {_FILES[0]}")
        files[int(found[2] or 0), int(found[1])] = file
    stages = 1 + max((stage for stage, _ in files), default=-1)
    ranks = 1 + max((rank for _, rank in files), default=-1)
    if not files:
        raise CheckpointError(f"{folder} has no folders mp_rank_…")
    for stage in range(stages):
        for rank in range(ranks):
            if (stage, rank) not in files:
                raise CheckpointError(f"{folder} lacks rank {rank} of stage {stage}")
    found_states = [
        [load(files[stage, rank], [NAMESPACE], trusted=trusted) for rank in range(ranks)]
        for stage in range(stages)
    ]
    for states in found_states:
        for state in states:
            if not isinstance(state, dict) or not ({"model", "model0"} & {*state}):
                raise CheckpointError(f"{folder} is no checkpoint of Megatron: it has no model")
    return found_states


def _renumbered(stages: Sequence[Mapping[str, Any]]) -> dict[str, LogicalTensor]:
    """All weights of one rank of tensor parallelism: chunks of layers follow each other."""
    found: dict[str, LogicalTensor] = {}
    virtual = sum(re.fullmatch(r"model\d+", key) is not None for key in stages[0])
    keys = [f"model{number}" for number in range(virtual)] or ["model"]
    before = 0
    for key in keys:
        for number, state in enumerate(stages):
            if key not in state:
                raise CheckpointError(f"stage {number} of the pipeline has no {key}")
            layers = set()
            for path, value in leaves(state[key]):
                name = join(path)
                if not isinstance(value, torch.Tensor) or name.endswith("_extra_state"):
                    continue
                if layer := _LAYER.search(name):
                    layers.add(int(layer[1]))
                    start, end = layer.span(1)
                    name = f"{name[:start]}{before + int(layer[1])}{name[end:]}"
                if _HEAD in name and (len(stages) > 1 or virtual):
                    continue  # the last stage's copy of the first one's embedding
                found.setdefault(name, LogicalTensor.of(value.detach()))
            before += 1 + max(layers, default=-1)
    return found


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    kinds = (type(None), bool, int, float, str)
    return {key: value for key, value in values.items() if isinstance(value, kinds)}
