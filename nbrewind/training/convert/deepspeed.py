"""Folders of DeepSpeed: ZeRO 1 to 3, where ranks have ranges of lines of parameters.

Read from files as DeepSpeed 0.10 to 0.19 write them. Weights are the optimizer's in full
precision, as DeepSpeed's own `zero_to_fp32` gives them; the optimizer's state is named after the
parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import torch

from nbrewind.errors import CheckpointError
from nbrewind.training.boxes import Box
from nbrewind.training.convert.folders import inside
from nbrewind.training.convert.ranks import merged
from nbrewind.training.convert.sources import LogicalPart, LogicalTensor, Source, logical, rejoined
from nbrewind.training.convert.weights_only import NAMESPACE, load, stand_in
from nbrewind.training.rules import Mesh, Rules
from nbrewind.training.rules.lines import range_boxes

KNOWN: list[Any] = [
    NAMESPACE,
    (int, "deepspeed.runtime.zero.config.ZeroStageEnum"),
    stand_in("deepspeed.runtime.fp16.loss_scaler.LossScaler"),
    stand_in("deepspeed.runtime.fp16.loss_scaler.DynamicLossScaler"),
    stand_in("deepspeed.utils.tensor_fragment.fragment_address"),
    stand_in("deepspeed.runtime.zero.config.DeepSpeedZeroConfig"),
]
_OPTIMIZER = re.compile(r"(?:bf16_|fp16_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt")
_MODEL = re.compile(r"(?:zero_pp_rank_(\d+)_)?mp_rank_(\d+)_model_states\.pt")
_OTHER = ("module", "optimizer", "param_shapes", "frozen_param_shapes", "frozen_param_fragments")


def read_deepspeed(folder: Path, *, rules: Rules | None = None, trusted: bool = False) -> Source:
    """A folder that `DeepSpeedEngine.save_checkpoint` wrote with ZeRO.

    Args:
        folder: The one with `latest`, or a `global_step…` in it.
        rules: Of tensor parallelism over an axis `tp`, if there is any.
        trusted: Load objects of any class, which can execute anything.

    Returns:
        `model`: weights and buffers by name; `optimizer`: what it keeps by parameter, and its
        groups; `client`: other plain values.

    Raises:
        CheckpointError: a file is missing or damaged; a layout that is not known.
    """
    folder = step_folder(Path(folder))
    shards = _shards(folder, trusted)
    states = [_Shard(folder, files) for files in shards]
    if len(states) > 1 and rules is None:
        raise CheckpointError(
            f"{folder} was saved with {len(states)} ranks of tensor parallelism: mapping rules "
            "are needed that say how they divide the parameters"
        )
    tensors = [state.tensors() for state in states]
    joined = tensors[0]
    if len(states) > 1 and rules is not None:
        mesh = Mesh({"tp": len(states)})
        joined = merged(tensors, rules, mesh, rule_name=_parameter)
    tree: dict[str, Any] = {"model": {}, "optimizer": {"state": {}, "groups": {}}}
    for name, tensor in joined.items():
        kind, _, rest = name.partition("/")
        if kind == "model":
            tree["model"][rest] = tensor
        else:
            parameter, _, key = rest.rpartition("/")
            tree["optimizer"]["state"].setdefault(parameter, {})[key] = tensor
    for parameter, values in states[0].numbers().items():
        tree["optimizer"]["state"].setdefault(parameter, {}).update(values)
    tree["optimizer"]["groups"] = states[0].groups()
    tree["client"] = states[0].client()
    notes = {"left out": states[0].left_out()} if states[0].left_out() else {}
    return Source(tree, "deepspeed", notes)


def step_folder(folder: Path) -> Path:
    """The folder of one step: itself, or the one that `latest` names."""
    latest = folder / "latest"
    if not latest.is_file():
        return folder
    name = latest.read_text(encoding="utf-8", errors="replace").strip()
    if not name or name in (".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise CheckpointError(f"{latest} names {name!r}, which is not in that folder")
    if not (folder / name).is_dir():
        raise CheckpointError(f"{folder / name} is missing: {latest} names it")
    return folder / name


def _parameter(name: str) -> str:
    """The parameter that `optimizer/layer.w/exp_avg` is of."""
    kind, _, rest = name.partition("/")
    return rest if kind == "model" else rest.rpartition("/")[0]


@dataclass(frozen=True)
class _Files:
    """Of one rank of tensor parallelism, by rank of data parallelism."""

    models: list[Any]
    optimizers: list[Any]


def _shards(folder: Path, trusted: bool) -> list[_Files]:
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is no folder")
    models: dict[int, dict[int, Path]] = {}
    optimizers: dict[int, dict[int, Path]] = {}
    for path in sorted(folder.iterdir()):
        if found := _MODEL.fullmatch(path.name):
            models.setdefault(int(found[2]), {})[int(found[1] or 0)] = path
        elif found := _OPTIMIZER.fullmatch(path.name):
            optimizers.setdefault(int(found[2]), {})[int(found[1])] = path
    if not models or not optimizers:
        what = "no optimizer states of ZeRO" if models else "no model states of DeepSpeed"
        raise CheckpointError(f"{folder} has {what}")
    if any(path.name.startswith("layer_") for path in folder.iterdir()):
        raise CheckpointError(f"{folder} is of DeepSpeed's pipeline module, which is not known")
    for kind, there in (("model", models), ("optimizer", optimizers)):
        if [*sorted(there)] != [*range(len(optimizers))]:
            raise CheckpointError(f"{folder} lacks {kind} states of a rank of tensor parallelism")
        for ranks in there.values():
            if [*sorted(ranks)] != [*range(len(ranks))]:
                raise CheckpointError(f"{folder} lacks {kind} states of a rank")

    def loaded(paths: Mapping[int, Path]) -> list[Any]:
        return [load(inside(folder, paths[n].name), KNOWN, trusted=trusted) for n in sorted(paths)]

    return [_Files(loaded(models[n]), loaded(optimizers[n])) for n in sorted(optimizers)]


class _Shard:
    """All ranks of data parallelism: every parameter is there in ranges."""

    def __init__(self, folder: Path, files: _Files) -> None:
        self._folder = folder
        self._models = files.models
        self._model = files.models[0]
        try:
            self._states = [each["optimizer_state_dict"] for each in files.optimizers]
            self._stage = int(self._states[0]["zero_stage"])
            counts = self._states[0]["partition_count"]
            self._shapes: list[dict[str, tuple[int, ...]]] = [
                {name: tuple(shape) for name, shape in group.items()}
                for group in self._model["param_shapes"]
            ]
            self._frozen: dict[str, tuple[int, ...]] = {
                name: tuple(shape)
                for name, shape in (self._model.get("frozen_param_shapes") or {}).items()
            }
            self._lines = [state[self._key] for state in self._states]
            self._kept, self._options = self._base()
        except (KeyError, TypeError, IndexError, AttributeError) as exc:
            raise CheckpointError(
                f"{folder} is damaged, or no checkpoint of ZeRO: {exc!r}"
            ) from exc
        expected = {*counts} if isinstance(counts, list) else {counts}
        if expected != {len(self._states)}:
            raise CheckpointError(
                f"{folder} has optimizer states of {len(self._states)} ranks, but they were saved "
                f"by {', '.join(map(str, sorted(expected)))}; experts of DeepSpeed are not known"
            )
        groups = {len(lines) for lines in self._lines} | {len(self._shapes)}
        if len(groups) > 1 or (self._stage == 3 and len(self._models) != len(self._states)):
            raise CheckpointError(f"{folder} is damaged: ranks have different groups")

    @property
    def _key(self) -> str:
        return "fp32_flat_groups" if self._stage == 3 else "single_partition_of_fp32_groups"

    def _base(self) -> tuple[list[list[dict[str, Any]]], list[dict[str, Any]]]:
        """What the optimizer keeps by rank and group, and options of its groups."""
        kept: list[list[dict[str, Any]]] = []
        options: list[Any] = []
        for state in self._states:
            base = state["optimizer_state_dict" if self._stage == 3 else "base_optimizer_state"]
            if isinstance(base, list):  # "elastic": no options
                kept.append(base)
                continue
            kept.append([dict(base["state"].get(n, {})) for n in range(len(self._shapes))])
            options = base.get("param_groups") or []
        return kept, [dict(group) for group in options]

    def tensors(self) -> dict[str, LogicalTensor]:
        """Parameters, buffers and what the optimizer keeps of parameters' size."""
        found = {}
        for name, tensor in self._model["module"].items():
            whole = self._stage < 3 or name in (self._model.get("buffer_names") or ())
            if isinstance(tensor, torch.Tensor) and whole:
                found[f"model/{name}"] = LogicalTensor.of(tensor.detach())
        for name, shape in self._frozen.items():
            found[f"model/{name}"] = self._of_frozen(name, shape)
        for group in range(len(self._shapes)):
            lines = [own[group] for own in self._lines]
            for name, shape, ranges in self._places(group, lines):
                found[f"model/{name}"] = _joined(name, shape, lines, ranges)
                for key in self._long(group, lines):
                    kept = [own[group][key] for own in self._kept]
                    found[f"optimizer/{name}/{key}"] = _joined(name, shape, kept, ranges)
        for name, other in self._tied().items():
            if f"model/{other}" in found:
                found[f"model/{name}"] = found[f"model/{other}"]
        return found

    def _tied(self) -> dict[str, str]:
        """Other names of parameters that the optimizer has: they get its full precision."""
        tied = dict(self._model.get("shared_params") or {})
        trained = {name for group in self._shapes for name in group}
        places = {}
        module = self._model["module"]
        for name in trained:
            if isinstance(module.get(name), torch.Tensor) and module[name].numel():
                places[_memory(module[name])] = name
        for name, tensor in module.items():
            if name not in trained and isinstance(tensor, torch.Tensor):
                other = places.get(_memory(tensor))
                if other is not None:
                    tied[name] = other
        return tied

    def left_out(self) -> list[str]:
        """Names of weights that DeepSpeed did not save: another name for a tied one."""
        if self._stage < 3:
            return []
        known = {name for group in self._shapes for name in group} | {*self._frozen}
        known |= {*(self._model.get("buffer_names") or ())} | {*self._model["shared_params"]}
        return [name for name in self._model["module"] if name not in known]

    def numbers(self) -> dict[str, dict[str, Any]]:
        """What the optimizer keeps that is not of parameters' size, such as steps."""
        found: dict[str, dict[str, Any]] = {}
        for group, shapes in enumerate(self._shapes):
            own = self._kept[0][group]
            long = {*self._long(group, [lines[group] for lines in self._lines])}
            short = {key: logical(value) for key, value in own.items() if key not in long}
            for name in shapes:
                found[name] = dict(short)
        return found

    def groups(self) -> dict[int, dict[str, Any]]:
        """The optimizer's groups: members by name, and options."""
        found = {}
        for number, options in enumerate(self._options):
            members = options.pop("params", [])
            # ZeRO 3 divides groups; numbers of the divided ones are what is listed.
            lists = members if self._stage == 3 else [number]
            names = [name for n in lists if n < len(self._shapes) for name in self._shapes[n]]
            found[number] = {"params": dict.fromkeys(names, True), "options": logical(options)}
        return found

    def client(self) -> dict[str, Any]:
        """Everything else that is plain."""
        plain = (type(None), bool, int, float, str)
        return {
            key: value
            for key, value in self._model.items()
            if key not in _OTHER and isinstance(value, plain)
        }

    def _long(self, group: int, lines: Sequence[torch.Tensor]) -> list[str]:
        """Names of what the optimizer keeps for each element."""
        return [
            key
            for key, value in self._kept[0][group].items()
            if isinstance(value, torch.Tensor) and value.shape == lines[0].shape
            if value.ndim == 1 and (value.numel() != 1 or key != "step")
        ]

    def _places(
        self, group: int, lines: Sequence[torch.Tensor]
    ) -> Iterator[tuple[str, tuple[int, ...], list[_Range]]]:
        """Where the ranges of each parameter of a group are."""
        shapes = self._shapes[group]
        if self._stage == 3:
            at = 0
            for name, shape in shapes.items():
                share = -(-prod(shape) // len(lines))
                yield name, shape, _shares(shape, share, len(lines), at)
                at += share
            self._check_end(group, at, lines[0].numel(), 1)
            return
        padding = self._states[0].get("param_alignment_paddings")
        gaps = padding[group] if padding else [0] * len(shapes)
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + line.numel())
        at = 0
        for (name, shape), gap in zip(shapes.items(), gaps, strict=True):
            size = prod(shape)
            ranges = [
                _Range(rank, max(at, first) - first, max(at, first) - at, min(at + size, end) - at)
                for rank, (first, end) in enumerate(pairwise(starts))
                if max(at, first) < min(at + size, end)
            ]
            yield name, shape, ranges
            at += size + gap
        self._check_end(group, at, starts[-1], 2 * len(lines))

    def _check_end(self, group: int, used: int, there: int, align: int) -> None:
        if used > there or -(-used // align) != -(-there // align):
            raise CheckpointError(
                f"{self._folder} is damaged: parameters of group {group} have {used} elements, "
                f"the optimizer has {there}"
            )

    def _of_frozen(self, name: str, shape: tuple[int, ...]) -> LogicalTensor:
        parts = [model["frozen_param_fragments"][name] for model in self._models]
        if self._stage < 3:
            return LogicalTensor.of(parts[0].detach())
        share = -(-prod(shape) // len(parts))
        return _joined(name, shape, parts, _shares(shape, share, len(parts), 0))


def _memory(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)


@dataclass(frozen=True, slots=True)
class _Range:
    """Elements of a parameter in the line of a rank."""

    rank: int
    place: int
    """In the line."""
    start: int
    """In the parameter, in row-major order."""
    stop: int


def _shares(shape: tuple[int, ...], share: int, ranks: int, place: int) -> list[_Range]:
    size = prod(shape)
    return [
        _Range(rank, place, rank * share, min((rank + 1) * share, size))
        for rank in range(ranks)
        if rank * share < size
    ]


def _joined(
    name: str, shape: tuple[int, ...], lines: Sequence[torch.Tensor], ranges: Sequence[_Range]
) -> LogicalTensor:
    parts = []
    for each in ranges:
        place = each.place
        line = lines[each.rank].detach().reshape(-1)
        if place + each.stop - each.start > line.numel():
            raise CheckpointError(f"the checkpoint is damaged: a range of {name} is too short")
        for box in range_boxes(shape, each.start, each.stop):
            parts.append(_part(line, place, box))
            place += box.size
    try:
        return rejoined(shape, lines[0].dtype, parts)
    except CheckpointError as exc:
        raise CheckpointError(f"{name}: {exc}") from exc


def _part(line: torch.Tensor, place: int, box: Box) -> LogicalPart:
    return LogicalPart(box, lambda: line[place : place + box.size].reshape(box.lengths))
