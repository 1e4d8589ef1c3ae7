"""Sources into the store, as checkpoints, and checkpoints of the store as sources."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import torch

from nbrewind.errors import CheckpointError
from nbrewind.model.checkpoints import CHECKPOINT_PREFIX, FRAGMENT_PREFIX, Checkpoint, Fragment
from nbrewind.model.refs import RefBody
from nbrewind.store.abc import Store
from nbrewind.training import trees
from nbrewind.training.boxes import Box
from nbrewind.training.convert.sources import LogicalPart, LogicalTensor, Source
from nbrewind.training.fragments import write_parts
from nbrewind.training.grid import row_grid
from nbrewind.training.parts import Part
from nbrewind.training.reading import CheckpointReader
from nbrewind.training.tensors import array, dtype_name, dtype_named


def store_source(store: Store, source: Source, *, run: str, step: int = 0) -> Checkpoint:
    """Save a source as a checkpoint, as if one process had saved it.

    One part of a tensor at a time is in memory. Optimizers that name parameters, as DCP has them,
    become what `nbrewind.training` saves.

    Args:
        store: Where it goes.
        source: What to save.
        run: Name of the run.
        step: Its step.

    Raises:
        CheckpointError: a value is not plain, or a file is damaged; nothing is saved.
        StoreNotWritable: the store cannot be written.
    """
    tree = _named(trees.with_leaves(source.tree, lambda size, _: tuple(size), torch.Size))
    if not isinstance(tree, dict):
        raise CheckpointError("a checkpoint is a dictionary of states")
    tensors, values, _ = trees.encode(tree, lambda value: isinstance(value, LogicalTensor))
    save, lineage = uuid.uuid4().hex, uuid.uuid4().hex
    with store.begin() as writer:
        parts = (part for name, tensor in tensors.items() for part in _parts(name, tensor))
        fragment = Fragment(
            save=save,
            rank=0,
            world=1,
            step=step,
            tensors=tuple(write_parts(writer, parts)),
            values=writer.put_stream(values),
        )
        record = writer.put("record", msgspec.msgpack.encode(fragment))
        writer.commit(_body(FRAGMENT_PREFIX + run, lineage, record))
    checkpoint = Checkpoint(
        run=run,
        save=save,
        step=step,
        world=1,
        fragments=(record,),
        created=time.time(),
        notes={"imported from": source.format},
    )
    with store.begin() as writer:
        record = writer.put("record", msgspec.msgpack.encode(checkpoint))
        writer.commit(_body(CHECKPOINT_PREFIX + run, lineage, record))
    return checkpoint


def stored_source(store: Store, checkpoint: Checkpoint) -> Source:
    """A checkpoint of a store; one tensor at a time is read. Optimizers become as DCP has them.

    Raises:
        CheckpointError: it has pickled values, which are not loaded here.
        ObjectMissing, ObjectDamaged: it cannot be read.
    """
    reader = CheckpointReader(store, checkpoint)
    saved = reader.tensors

    def tensor(name: str) -> LogicalTensor:
        if name not in saved:
            raise CheckpointError(f"checkpoint {checkpoint.save[:8]} has no tensor {name}")
        dtype, whole = dtype_named(saved[name].dtype), Box.whole(saved[name].shape)

        def read() -> torch.Tensor:
            elements = torch.from_numpy(reader.get(name, whole)).reshape(-1)
            return elements.view(dtype).reshape(whole.lengths)

        return LogicalTensor(whole.lengths, dtype, (LogicalPart(whole, read),))

    tree: dict[str, Any] = {}
    seen: set[bytes] = set()
    for fragment in reader.fragments:
        if fragment.values.digest not in seen:
            seen.add(fragment.values.digest)
            content = bytes(store.get_blob(fragment.values))
            trees.merge(tree, trees.decode(content, tensor))
    return Source(_listed(tree), "nbrewind")


def _parts(name: str, tensor: LogicalTensor) -> Iterator[Part]:
    grid = row_grid(tensor.shape, tensor.dtype.itemsize)
    for part in tensor.parts:
        elements = part.read()
        if tuple(elements.shape) != part.box.lengths or elements.dtype != tensor.dtype:
            raise CheckpointError(f"a part of {name} is not what was announced")
        yield Part(
            name=name,
            dtype=dtype_name(tensor.dtype),
            itemsize=tensor.dtype.itemsize,
            shape=tensor.shape,
            grid=grid,
            box=part.box,
            data=array(elements),
        )


def _named(tree: Any) -> Any:
    """Optimizers whose groups list names of parameters, as `nbrewind.training` saves them."""
    if not isinstance(tree, dict):
        return tree
    groups: Any = tree.get("param_groups")
    if {*tree} == {"state", "param_groups"} and _are_named(groups):
        return {
            "state": tree["state"],
            "groups": {
                number: {
                    "params": dict.fromkeys(group["params"], True),
                    "options": {key: v for key, v in group.items() if key != "params"},
                }
                for number, group in enumerate(groups)
            },
        }
    return type(tree)((key, _named(value)) for key, value in tree.items())


def _are_named(groups: Any) -> bool:
    return isinstance(groups, list) and all(
        isinstance(group, dict)
        and isinstance(group.get("params"), list)
        and all(isinstance(name, str) for name in group["params"])
        for group in groups
    )


def _listed(tree: Any) -> Any:
    """The reverse of `_named`."""
    if not isinstance(tree, dict):
        return tree
    groups = tree.get("groups")
    if {*tree} == {"state", "groups"} and isinstance(groups, Mapping):
        return {
            "state": tree["state"],
            "param_groups": [
                {**groups[number]["options"], "params": [*groups[number]["params"]]}
                for number in sorted(groups)
            ],
        }
    return type(tree)((key, _listed(value)) for key, value in tree.items())


def _body(digest: str, lineage: str, record: bytes) -> RefBody:
    return RefBody(lineage=lineage, seq=0, source_digest=digest, record=record, created=time.time())
