"""Our storage behind torch's distributed checkpoints: `save` and `load` as torch has them.

```
dcp.save(state, storage_writer=NBRewindWriter("run", step=100), planner=NBRewindSavePlanner())
dcp.load(state, storage_reader=NBRewindReader("run"), planner=NBRewindLoadPlanner())
```

The planners keep pickles out: plain values are written as `nbrewind.training.trees` has them.
With torch's own planners values are pickles of torch's, which its loader then loads.
"""

from __future__ import annotations

import io
import os
import time
import uuid
from dataclasses import replace
from typing import Any

import msgspec
import torch
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future

from nbrewind.errors import CheckpointError
from nbrewind.model.checkpoints import CHECKPOINT_PREFIX, FRAGMENT_PREFIX, Checkpoint, Fragment
from nbrewind.model.refs import RefBody
from nbrewind.store import open_store
from nbrewind.training import trees
from nbrewind.training.boxes import Box
from nbrewind.training.finding import find
from nbrewind.training.fragments import write_parts
from nbrewind.training.grid import row_grid
from nbrewind.training.parts import Part
from nbrewind.training.places import default_place
from nbrewind.training.reading import CheckpointReader, Wanted
from nbrewind.training.tensors import (
    array,
    dtype_name,
    dtype_named,
    empty_array,
    fill,
    is_tensor,
    storable,
)

_PATHS = "dcp paths"
"""Note of a checkpoint: the keys on the way to each entry, as torch's planners keep them."""


class NBRewindSavePlanner(DefaultSavePlanner):
    """Torch's planner, but plain values are written without pickle."""

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """Raises `CheckpointError` for what is not a plain value."""
        if write_item.type != WriteItemType.BYTE_IO:
            return object
        _, content, _ = trees.encode({write_item.index.fqn: object}, is_tensor)
        return io.BytesIO(content)


class NBRewindLoadPlanner(DefaultLoadPlanner):
    """Loads what `NBRewindSavePlanner` wrote."""

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Raises `CheckpointError` if it is a pickle of torch's planner."""
        found = trees.decode(value.getvalue(), _no_tensor)[read_item.dest_index.fqn]
        # Where it belongs is torch's business, which expects a pickle: now it is our own.
        again = io.BytesIO()
        torch.save(found, again)
        again.seek(0)
        super().load_bytes(read_item, again)


def _no_tensor(name: str) -> Any:
    raise CheckpointError(f"the value has a tensor {name} in it: it is damaged")


class NBRewindWriter(StorageWriter):
    """Saves one checkpoint of a run.

    Args:
        run: The run's name.
        place: The store; `NBREWIND_STORE` or `.nbrewind` by default.
        step: Steps that were made.
    """

    def __init__(
        self, run: str, place: str | os.PathLike[str] | None = None, *, step: int = 0
    ) -> None:
        self.run = run
        self.step = step
        self._place = default_place() if place is None else place
        self._lineage = uuid.uuid4().hex

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Called by torch: an id given there is the run's name."""
        if checkpoint_id is not None:
            self.run = os.fspath(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Called by torch."""

    def storage_meta(self) -> StorageMeta | None:
        """Called by torch."""
        return StorageMeta(checkpoint_id=self.run)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Called by torch."""
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Called by torch: the coordinator names the save."""
        save = uuid.uuid4().hex
        return [
            replace(plan, storage_data=(save, rank, len(plans))) for rank, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Make this rank's items durable. Raises `StoreNotWritable`."""
        save, rank, world = plan.storage_data
        parts: list[Part] = []
        values: dict[str, bytes] = {}
        sizes: dict[MetadataIndex, int] = {}
        for item in plan.items:
            data = planner.resolve_data(item)
            if item.type == WriteItemType.BYTE_IO:
                assert isinstance(data, io.BytesIO)
                values[item.index.fqn] = data.getvalue()
                sizes[item.index] = len(values[item.index.fqn])
            else:
                assert isinstance(data, torch.Tensor)
                parts.append(_part(item, data))
                sizes[item.index] = parts[-1].nbytes
        with open_store(self._place) as store, store.begin() as writer:
            _, content, _ = trees.encode(values, is_tensor)
            fragment = Fragment(
                save=save,
                rank=rank,
                world=world,
                step=self.step,
                tensors=tuple(write_parts(writer, parts)),
                values=writer.put_stream(content),
            )
            record = writer.put("record", msgspec.msgpack.encode(fragment))
            writer.commit(self._body(FRAGMENT_PREFIX, record))
        future: Future[list[WriteResult]] = Future()
        future.set_result(
            [WriteResult(index, size, (rank, record)) for index, size in sizes.items()]
        )
        return future

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Called by torch on the coordinator, when all ranks have written: publish."""
        fragments = dict(sorted({r.storage_data for some in results for r in some}))
        with open_store(self._place) as store, store.begin() as writer:
            first = msgspec.msgpack.decode(store.get(next(iter(fragments.values()))), type=Fragment)
            _, paths, _ = trees.encode(metadata.planner_data, is_tensor)
            checkpoint = Checkpoint(
                run=self.run,
                save=first.save,
                step=self.step,
                world=len(fragments),
                fragments=tuple(fragments.values()),
                created=time.time(),
                notes={_PATHS: paths},
            )
            record = writer.put("record", msgspec.msgpack.encode(checkpoint))
            writer.commit(self._body(CHECKPOINT_PREFIX, record))

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Any name will do."""
        return bool(os.fspath(checkpoint_id))

    def _body(self, prefix: str, record: bytes) -> RefBody:
        return RefBody(
            lineage=self._lineage,
            seq=0,
            source_digest=prefix + self.run,
            record=record,
            created=time.time(),
        )


class NBRewindReader(StorageReader):
    """Loads a checkpoint of a run; arguments as of `NBRewindWriter`.

    Args:
        run: The run's name.
        place: The store.
        step: The newest checkpoint of this step; the newest of all by default.
        cast: Convert tensors of another type than the saved ones.
    """

    def __init__(
        self,
        run: str,
        place: str | os.PathLike[str] | None = None,
        *,
        step: int | None = None,
        cast: bool = False,
    ) -> None:
        self.run = run
        self.step = step
        self._cast = cast
        self._place = default_place() if place is None else place
        self._checkpoint: Checkpoint | None = None

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Called by torch: an id given there is the run's name."""
        if checkpoint_id is not None:
            self.run = os.fspath(checkpoint_id)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the checkpoint has. Raises `CheckpointError` if there is none."""
        with open_store(self._place, create=False, read_only=True) as store:
            _, checkpoint = find(store, self.run, self.step)
            reader = CheckpointReader(store, checkpoint)
            entries: dict[str, Any] = {}
            for name, tensor in reader.tensors.items():
                chunks = [
                    ChunkStorageMetadata(torch.Size(box.offsets), torch.Size(box.lengths))
                    for box in reader.boxes(name)
                ]
                properties = TensorProperties(dtype=dtype_named(tensor.dtype))
                entries[name] = TensorStorageMetadata(properties, torch.Size(tensor.shape), chunks)
            for fragment in reader.fragments:
                content = bytes(store.get_blob(fragment.values))
                entries |= dict.fromkeys(trees.decode(content, _no_tensor), BytesStorageMetadata())
        paths = checkpoint.notes.get(_PATHS)
        return Metadata(
            state_dict_metadata=entries,
            planner_data=trees.decode(paths, _no_tensor) if paths else None,
            storage_data=checkpoint,
        )

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Called by torch: all ranks read the checkpoint that the coordinator found."""
        self._checkpoint = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Called by torch."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Called by torch."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Fill what the plan asks for; every tile is read once.

        Raises:
            CheckpointError: a tensor is of another type, and no cast was asked for.
        """
        assert self._checkpoint is not None
        with open_store(self._place, create=False, read_only=True) as store:
            reader = CheckpointReader(store, self._checkpoint)
            self._read_tensors(reader, plan, planner)
            wanted = {item.storage_index.fqn: item for item in _of(plan, LoadItemType.BYTE_IO)}
            for fragment in reader.fragments if wanted else ():
                content = bytes(store.get_blob(fragment.values))
                for name, value in trees.decode(content, _no_tensor).items():
                    if (item := wanted.pop(name, None)) is not None:
                        planner.load_bytes(item, io.BytesIO(value))
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def _read_tensors(self, reader: CheckpointReader, plan: LoadPlan, planner: LoadPlanner) -> None:
        wanted: list[Wanted] = []
        targets: list[tuple[ReadItem, torch.Tensor, Any, str]] = []
        for item in _of(plan, LoadItemType.TENSOR):
            name = item.storage_index.fqn
            saved = reader.tensors[name]
            target = planner.resolve_tensor(item)
            here = dtype_name(target.dtype)
            if here != saved.dtype and not self._cast:
                raise CheckpointError(
                    f"{name} is {saved.dtype} in the checkpoint and {here} here: ask for a cast if "
                    "that is meant"
                )
            start = item.storage_index.offset or torch.Size([0] * len(saved.shape))
            box = Box(tuple(start), tuple(item.lengths)).moved(item.storage_offsets)
            direct = here == saved.dtype and target.device.type == "cpu"
            memory = (
                array(storable(target, name))
                if direct
                else empty_array(box.lengths, saved.itemsize)
            )
            wanted.append(Wanted(name, box, memory))
            targets.append((item, target, None if direct else memory, saved.dtype))
        reader.read(wanted)
        for item, target, memory, dtype in targets:
            if memory is not None:
                fill(target, memory, dtype_named(dtype))
            planner.commit_tensor(item, target)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Any name will do."""
        return bool(os.fspath(checkpoint_id))


def _part(item: WriteItem, data: torch.Tensor) -> Part:
    assert item.tensor_data is not None
    chunk, shape = item.tensor_data.chunk, tuple(item.tensor_data.size)
    data = storable(data, item.index.fqn)
    return Part(
        name=item.index.fqn,
        dtype=dtype_name(data.dtype),
        itemsize=data.element_size(),
        shape=shape,
        grid=row_grid(shape, data.element_size()),
        box=Box(tuple(chunk.offsets), tuple(chunk.sizes)),
        data=array(data),
    )


def _of(plan: LoadPlan, kind: LoadItemType) -> list[ReadItem]:
    return [item for item in plan.items if item.type == kind]
