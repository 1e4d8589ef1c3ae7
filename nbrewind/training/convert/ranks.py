"""States of ranks, in whatever layout, as logical tensors by mapping rules, and back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from nbrewind.errors import CheckpointError, RuleError
from nbrewind.training.boxes import Box, Piece, uncovered
from nbrewind.training.convert.folders import new_folder
from nbrewind.training.convert.sources import LogicalPart, LogicalTensor, Source, logical, rejoined
from nbrewind.training.convert.torch_files import save
from nbrewind.training.convert.weights_only import load
from nbrewind.training.rules import Mapping as RankMapping
from nbrewind.training.rules import Mesh, Rules
from nbrewind.training.rules.mappings import AS_IT_IS, Window

Tensors = Mapping[str, LogicalTensor]


def merged(
    ranks: Sequence[Tensors],
    rules: Rules,
    mesh: Mesh,
    *,
    rule_name: Callable[[str], str] = lambda name: name,
) -> dict[str, LogicalTensor]:
    """Logical tensors of what ranks have.

    Args:
        ranks: Tensors of each rank by name, in the order of ranks. Ranks of a pipeline have
            different ones.
        rules: What they are of the logical tensors.
        mesh: All ranks.
        rule_name: The name that rules know a tensor by: that of its parameter, for what an
            optimizer keeps.

    Raises:
        CheckpointError: ranks have parts that do not make a tensor.
        RuleError: a tensor has no rule or several, or the rule does not fit.
    """
    if len(ranks) != mesh.size:
        raise CheckpointError(f"there are {len(ranks)} ranks, the mesh has {mesh.size}")
    names = dict.fromkeys(name for tensors in ranks for name in tensors)
    rules.check(map(rule_name, names)).raise_for_names()
    places = [*mesh.coordinates()]
    holders: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for number, tensors in enumerate(ranks):
        for name in tensors:
            known = rule_name(name)
            whole = rules.logical_name(known, mesh, places[number])
            saved = whole if known == name else name.replace(known, whole, 1)
            holders[saved].append((number, name))
    return {
        saved: _tensor(saved, held, ranks, rules, mesh, rule_name)
        for saved, held in holders.items()
    }


def _tensor(
    saved: str,
    held: Sequence[tuple[int, str]],
    ranks: Sequence[Tensors],
    rules: Rules,
    mesh: Mesh,
    rule_name: Callable[[str], str],
) -> LogicalTensor:
    first = ranks[held[0][0]][held[0][1]]
    if any(ranks[number][name].dtype != first.dtype for number, name in held):
        raise CheckpointError(f"{saved} is of different types on different ranks")
    if not first.shape:
        return first  # a number that an optimizer keeps, as its steps
    places = [*mesh.coordinates()]
    shapes = {number: ranks[number][name].shape for number, name in held}
    # Ranks of other stages of a pipeline do not have it: what they would have is not asked.
    known = [shapes.get(number, first.shape) for number in range(mesh.size)]
    shape = rules.logical_shape(rule_name(held[0][1]), mesh, known)
    mappings = []
    for number, name in held:
        known_by = rule_name(name)
        mapping = rules.compile(
            mesh, places[number], {known_by: shape}, {known_by: shapes[number]}
        )[known_by]
        mappings.append((mapping, ranks[number][name]))
    if mappings[0][0].averaged:
        return _averaged(shape, first.dtype, mappings)
    missing = [Box.whole(shape)] if Box.whole(shape).size else []
    parts: list[LogicalPart] = []
    for mapping, tensor in mappings:
        for part in _parts(mapping, tensor):
            wanted = [box for rest in missing if (box := rest & part.box) is not None]
            parts += [_cut(part, box) for box in wanted]
            missing = [left for rest in missing for left in uncovered(rest, [part.box])]
    try:
        return rejoined(shape, first.dtype, parts)
    except CheckpointError as exc:
        raise CheckpointError(f"{saved}: {exc}") from exc


def _parts(mapping: RankMapping, tensor: LogicalTensor) -> list[LogicalPart]:
    """What a rank's tensor is of the logical one, as it can be read."""
    found = []
    for window in mapping.windows:
        for piece in window.pieces:
            if window.view == AS_IT_IS:
                found += [part for own in tensor.parts if (part := _moved(own, piece)) is not None]
            else:
                found.append(_viewed(tensor, window, piece))
    return found


def _moved(own: LogicalPart, piece: Piece) -> LogicalPart | None:
    common = own.box & piece.local
    if common is None:
        return None
    whole = common.seen_from(piece.local).moved(piece.whole.offsets)
    inner = common.seen_from(own.box)
    return LogicalPart(whole, lambda: own.read()[inner.slices])


def _viewed(tensor: LogicalTensor, window: Window, piece: Piece) -> LogicalPart:
    def read() -> torch.Tensor:
        return window.view.of(tensor.read().contiguous())[piece.local.slices]

    return LogicalPart(piece.whole, read)


def _cut(part: LogicalPart, box: Box) -> LogicalPart:
    if box == part.box:
        return part
    inner = box.seen_from(part.box)
    return LogicalPart(box, lambda: part.read()[inner.slices])


def _averaged(
    shape: tuple[int, ...],
    dtype: torch.dtype,
    mappings: Sequence[tuple[RankMapping, LogicalTensor]],
) -> LogicalTensor:
    """The mean of what ranks have, which may be parts along other axes."""

    def read() -> torch.Tensor:
        total = torch.zeros(shape, dtype=torch.float64)
        count = torch.zeros(shape, dtype=torch.int32)
        for mapping, tensor in mappings:
            for part, piece in mapping.parts(tensor.read().contiguous()):
                total[piece.whole.slices] += part
                count[piece.whole.slices] += 1
        if bool((count == 0).any()):
            raise CheckpointError(f"no rank holds a part of a tensor of shape {shape}")
        return (total / count).to(dtype)

    return LogicalTensor(shape, dtype, (LogicalPart(Box.whole(shape), read),))


def read_ranks(files: Sequence[Path], rules: Rules, mesh: Mesh, *, trusted: bool = False) -> Source:
    """Files of `torch.save` with one flat state of each rank, in the order of ranks.

    Raises:
        CheckpointError, RuleError: see `merged`, `weights_only.load`.
    """
    states = [Source(logical(load(Path(file), trusted=trusted))).tensors for file in files]
    return Source(merged(states, rules, mesh), "ranks")


def write_ranks(source: Source, folder: Path, rules: Rules, mesh: Mesh) -> list[str]:
    """Write `rank_00000.pt` and so on, each with what one rank has by the rules.

    Tensors that are numbered by rank, as experts may be, and lines of several tensors cannot be
    written.

    Returns:
        Names of values that are no tensors: they are left out.

    Raises:
        RuleError: a tensor has no rule or several, or the rule does not fit.
        CheckpointError: the folder is there; parts of tensors are missing or damaged.
        StoreNotWritable: it cannot be written.
    """
    tensors = source.tensors
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    compiled = [rules.compile(mesh, place, shapes) for place in mesh.coordinates()]
    for name, mapping in compiled[0].items():
        if mapping.line is not None or (mapping.expert and mapping.expert.index is not None):
            raise RuleError(f"{name} has no file of its own on a rank by its rule")
    with new_folder(Path(folder)) as part:
        for rank, mappings in enumerate(compiled):
            state = {name: _local(tensors[name], mappings[name]) for name in tensors}
            with open(part / f"rank_{rank:05}.pt", "wb") as file:
                save(state, file)
    return [*source.values]


def _local(tensor: LogicalTensor, mapping: RankMapping) -> torch.Tensor:
    made: Any = torch.zeros(mapping.local_shape, dtype=tensor.dtype)
    whole = tensor.read()
    for part, piece in mapping.parts(made):
        part[...] = whole[piece.whole.slices]
    mapping.fill(made)
    return made  # type: ignore[no-any-return]
